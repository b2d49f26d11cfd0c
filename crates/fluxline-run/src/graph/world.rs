//! A run in virtual time: sensors, readouts and builders are programs of one simulated world.
//!
//! ```text
//!   sensor-0 ──push──▶ readout-0 ─┬─push──▶ builder-0 ─┐
//!   sensor-1 ──push──▶ readout-1 ─┴─push──▶ builder-1 ─┴──▶ collector ──▶ recorder
//! ```
//!
//! Each source of the experiment is a node ([`Sensor`]) that pushes its packets into the memory of
//! its readout at the times at which they are due. It waits while the ring there is full. Readouts
//! and builders are those of a run on real links. Time is that of the link, counted from
//! [`EPOCH`]; a program takes none.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use fluxline_cluster::edges::{Inlets, Outlets, Taking};
use fluxline_cluster::rings::RingNode;
use fluxline_core::{Moment, Span, planted};
use fluxline_daq::experiment::{Experiment, Source};

use super::actuators::record_bytes;
use super::collector::BATCHES;
use super::from_node::FromNode;
use super::link::{EPOCH, Places};
use super::parts::Board;
use super::sensor::{COME_BY, Packets, Sensor, read_record};
use super::taker::GraphTaker;
use super::{Between, Graph, Shared, collect, record_age};
use crate::built::Built;
use crate::built::GraphEnd;
use crate::error::Error;
use crate::feedback::RING_SLOTS;
use crate::journey::Journeys;
use crate::source::InputEnd;
use crate::taker::PacketTaker;

/// Records taken from one ring before the next has its turn.
const RECORDS_PER_TURN: usize = 64;
/// Time between two looks of an idle node for the end of the run.
const IDLE_REST: Span = Span::from_ms(1_000);
/// The virtual time by which every readout has pushed a record, if it lives: one that waited for a
/// builder that never came does so after [`COME_BY`].
const READOUTS_BY: Moment = Moment::from_ns(2 * COME_BY.as_ns());
/// The longest sleep of a readout.
const REST_MAX: Span = Span::from_ms(1);

/// Checks that sources can be simulated.
pub(crate) fn check(experiment: &Experiment) -> Result<(), Error> {
    let has_packets = |source: &&Source| source.emulator.is_some() || source.is_file();
    match experiment.sources.iter().find(|source| !has_packets(source)) {
        None => Ok(()),
        Some(source) => Err(Error::input(format_args!(
            "source `{}` is of this machine, and the link is simulated: packets of a simulated \
             run come from [source.emulator], [source.pcap] or [source.raw]; write one of them, \
             or run on threads, shm: or udp:.",
            source.name
        ))),
    }
}

/// A run that is in virtual time.
pub(crate) struct World {
    pub readout: JoinHandle<Built>,
    /// The sensors.
    pub inputs: Vec<JoinHandle<InputEnd>>,
}

/// The ring of a sensor at its readout.
struct Lane {
    source: usize,
    journeys: Journeys,
}

/// Returns the lanes of a readout's sources.
fn lanes_of(sources: &[usize], journeys: &[Journeys]) -> Vec<Lane> {
    let lane = |source: &usize| Lane { source: *source, journeys: journeys[*source].clone() };
    sources.iter().map(lane).collect()
}

/// Starts the nodes of a world, each in a thread. They begin when all are there.
///
/// # Errors
/// A description has no emulator, or the link is unknown. Nothing was started then.
pub(crate) fn start(graph: &Graph, between: Between<'_>) -> Result<World, Error> {
    let (shared, (to, from)) = (between.shared(graph), sync_channel(BATCHES));
    let (places, idle) = graph.places(between.experiment).in_network()?;
    let sources = shared.sources();
    let packets = Packets::of(shared.experiment, shared.loaded)?;
    let journeys: Vec<Journeys> = packets.iter().map(|_| Journeys::new()).collect();
    let (mut threads, living) = (Vec::new(), Living::default());
    for number in 0..graph.builders() {
        threads.push(start_builder(&shared, number, &places, to.clone(), &living));
    }
    for (number, sources) in sources.iter().enumerate() {
        let lanes = lanes_of(sources, &journeys);
        threads.push(start_readout(&shared, number, lanes, &places, &to, &living));
    }
    let mut inputs = Vec::new();
    for (number, (packets, journeys)) in packets.into_iter().zip(journeys).enumerate() {
        let readout = sources.iter().position(|of| of.contains(&number)).unwrap_or(0);
        inputs.push(start_sensor(&shared, number, readout, packets, journeys, &places, &living));
    }
    threads.extend(start_actuator(&shared, &between, &places, &living));
    drop(to);
    start_idle(idle, &places, &Arc::downgrade(&living));
    let board = shared.board.clone();
    let collector = between.collector(graph, board.clone());
    let readout = std::thread::spawn(move || {
        let mut built = collect(collector, &from, threads, &board);
        if let Some(GraphEnd { virtual_end, crashed, .. }) = &mut built.graph {
            *virtual_end = Some(EPOCH + board.ended().since(Moment::default()));
            *crashed = crashed_inputs(&board, &sources);
        }
        built
    });
    Ok(World { readout, inputs })
}

/// The programs of a world that live; the node of each holds a clone until it leaves the link. A
/// thread must not: idle nodes would pass virtual time while it goes on without its node.
type Living = Arc<()>;

/// Starts the nodes of the network that have no part in the run: their hosts are on, and do nothing
/// until all programs have ended.
fn start_idle(count: usize, places: &Places, living: &Weak<()>) {
    for number in 0..count {
        let (places, living) = (places.clone(), living.clone());
        std::thread::spawn(move || {
            if let Ok(mut node) = places.open(&Places::unused(number)) {
                idle(&mut node, &living);
            }
        });
    }
}

/// Rests until no program lives.
fn idle(node: &mut RingNode, living: &Weak<()>) {
    while living.strong_count() > 0 {
        Outlets::rest(node, IDLE_REST);
        node.drive();
    }
}

fn start_sensor(
    shared: &Shared<'_>,
    number: usize,
    readout: usize,
    packets: Packets,
    journeys: Journeys,
    places: &Places,
    living: &Living,
) -> JoinHandle<InputEnd> {
    let living = Arc::clone(living);
    let (places, to) = (places.clone(), Places::readout(readout));
    let (monitor, stop) = (shared.monitor.clone(), shared.stop.clone());
    let Experiment { sources, seconds, .. } = shared.experiment;
    let (name, seconds) = (sources[number].name.clone(), *seconds);
    std::thread::spawn(move || match open_sensor(&places, number, &to) {
        Ok(mut node) => {
            node.hold(living);
            Sensor { name, node, seconds, stop, monitor, journeys }.send(packets)
        }
        Err(error) => {
            monitor.fault(error);
            InputEnd::default()
        }
    })
}

fn open_sensor(places: &Places, number: usize, readout: &str) -> Result<RingNode, Error> {
    let name = Places::sensor(number);
    let mut node = places.open(&name)?;
    node.expect_peers_by(COME_BY);
    places.add_outlet(&mut node, &name, readout)?;
    Ok(node)
}

/// Returns for each input if its readout crashed.
fn crashed_inputs(board: &Board, sources: &[Vec<usize>]) -> Vec<bool> {
    let mut crashed = vec![false; sources.iter().map(Vec::len).sum()];
    for (part, sources) in board.get().readouts.iter().zip(sources) {
        sources.iter().for_each(|source| crashed[*source] = part.has_crashed);
    }
    crashed
}

fn start_builder(
    shared: &Shared<'_>,
    number: usize,
    places: &Places,
    to: SyncSender<FromNode>,
    living: &Living,
) -> JoinHandle<()> {
    let living = Arc::clone(living);
    let (places, monitor) = (places.clone(), shared.monitor.clone());
    let (make, side) = (shared.builder(number, to), shared.inline(number));
    std::thread::spawn(move || {
        let opened = places.open_builder(number).and_then(|mut node| {
            node.expect_peers_by(COME_BY);
            node.expect_records_by(if planted!(25) { COME_BY } else { READOUTS_BY });
            if side.is_some() {
                places.add_outlet(&mut node, &Places::builder(number), &Places::actuator())?;
            }
            Ok(node)
        });
        match opened {
            Ok(mut node) => {
                node.hold(living);
                make(node, side).run();
            }
            Err(error) => monitor.fault(error),
        }
    })
}

/// Starts the actuator; `None`: the run has none.
fn start_actuator(
    shared: &Shared<'_>,
    between: &Between<'_>,
    places: &Places,
    living: &Living,
) -> Option<JoinHandle<()>> {
    let of = shared.graph.loop_table()?;
    let living = Arc::clone(living);
    let (slots, bytes) = (RING_SLOTS, record_bytes(of) as u32);
    let (places, monitor, board) = (places.clone(), shared.monitor.clone(), shared.board.clone());
    let make = shared.actuator(between.folder.as_deref());
    Some(std::thread::spawn(move || match places.open_actuator(slots, bytes) {
        Ok(mut node) => {
            node.hold(living);
            node.expect_records_by(COME_BY);
            board.set_actuator(make(node).run());
        }
        Err(error) => monitor.fault(error),
    }))
}

fn start_readout(
    shared: &Shared<'_>,
    number: usize,
    lanes: Vec<Lane>,
    places: &Places,
    to: &SyncSender<FromNode>,
    living: &Living,
) -> JoinHandle<()> {
    let living = Arc::clone(living);
    let (places, monitor) = (places.clone(), shared.monitor.clone());
    let make = shared.taker(number, to);
    let packet = Span::from_ns(shared.graph.nodes.readout.packet_ns);
    let rest = REST_MAX.min(record_age(&shared.graph.nodes));
    std::thread::spawn(move || {
        let opened = places.open_readout(number).and_then(|mut node| {
            node.expect_peers_by(COME_BY);
            node.expect_records_by(COME_BY);
            for lane in &lanes {
                places.add_lane(&mut node, &Places::sensor(lane.source))?;
            }
            places.add_lanes_back(&mut node)?;
            Ok(node)
        });
        match opened {
            Ok(mut node) => {
                node.hold(living);
                read_out(make(node), &lanes, packet, rest);
            }
            Err(error) => monitor.fault(error),
        }
    })
}

/// Reads out the rings of sensors until all have ended: lane by lane, one for each source.
fn read_out(mut taker: GraphTaker<RingNode>, lanes: &[Lane], packet: Span, rest: Span) {
    let mut is_open = vec![true; lanes.len()];
    loop {
        taker.outlets().drive();
        let link_now = taker.outlets().now();
        let now = EPOCH + link_now.since(Moment::default());
        let (mut worked, mut packets) = (false, 0);
        for (lane, Lane { source, journeys }) in lanes.iter().enumerate() {
            for _ in 0..RECORDS_PER_TURN {
                if !is_open[lane] || !taker.can_take() {
                    break;
                }
                match Inlets::take(taker.outlets(), lane) {
                    Taking::Record(record) => {
                        let taken = take(&mut taker, *source as u16, now, &record);
                        if taken > 0 {
                            journeys.end(link_now);
                        }
                        packets += taken;
                    }
                    Taking::Empty => break,
                    Taking::Gone => {
                        taker.end_input(*source as u16);
                        is_open[lane] = false;
                    }
                }
                worked = true;
            }
        }
        taker.check_time(now, 0);
        if packets > 0 && packet > Span::ZERO {
            let work = Span::from_ns(packet.as_ns().saturating_mul(packets));
            Inlets::spend(taker.outlets(), work);
        }
        if is_open.iter().all(|open| !open) {
            return taker.finish(now);
        }
        if !worked {
            Inlets::rest(taker.outlets(), rest);
        }
    }
}

/// Takes a packet as a sensor pushed it; returns 0 for a record without a packet.
fn take(taker: &mut impl PacketTaker, input: u16, now: Moment, record: &[u8]) -> u64 {
    let datagram = read_record(record, now);
    datagram.map_or(0, |datagram| {
        taker.take(input, now, &datagram);
        1
    })
}
