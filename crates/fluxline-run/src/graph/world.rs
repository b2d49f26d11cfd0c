//! A run in virtual time: sensors, readouts and builders are programs of one simulated world.
//!
//! ```text
//!   sensor-0 ──push──▶ readout-0 ─┬─push──▶ builder-0 ─┐
//!   sensor-1 ──push──▶ readout-1 ─┴─push──▶ builder-1 ─┴──▶ collector ──▶ recorder
//! ```
//!
//! Each source of the experiment is a node that pushes its packets into the memory of its readout,
//! when they are due, and waits while there is no room. Readouts and builders are those of a run on
//! real links. Time is that of the link, counted from [`EPOCH`]; a program takes none.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use fluxline_cluster::edges::{Inlets, Offered, Outlets, Taking};
use fluxline_cluster::rings::RingNode;
use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::emulator::{self, Emulator};
use fluxline_daq::experiment::{Experiment, Source};
use fluxline_daq::formats::LoadedFormat;

use super::collector::{self, BATCHES};
use super::link::Places;
use super::parts::Board;
use super::taker::GraphTaker;
use super::{Between, Graph, Shared, collect};
use crate::built::Built;
use crate::built::GraphEnd;
use crate::error::Error;
use crate::source::InputEnd;
use crate::source::sensors::Sensors;
use crate::source::truth::SensorsTruth;
use crate::taker::PacketTaker;

/// The time of day at which virtual time begins: 2000-01-01, 00:00 UTC \[ns since 1970\].
pub(crate) const EPOCH: Moment = Moment::from_ns(946_684_800_000_000_000);
/// The virtual time at which sensors begin to send: all nodes are connected then.
const BEGIN: Span = Span::from_ms(20);
/// Pause of a sensor whose ring is full.
const NAP: Span = Span::from_ns(10_000);
/// Records taken from one ring before the next has its turn.
const RECORDS_PER_TURN: usize = 64;
/// Time between two looks of an idle node for the end of the run.
const IDLE_REST: Span = Span::from_ms(1_000);
/// The longest sleep of a readout.
const REST: Span = Span::from_ms(1);

/// Checks that sources can be simulated.
pub(crate) fn check(experiment: &Experiment) -> Result<(), Error> {
    match experiment.sources.iter().find(|source| source.emulator.is_none()) {
        None => Ok(()),
        Some(source) => Err(Error::input(format_args!(
            "source `{}` is of this machine, and the link is simulated: packets of a simulated \
             run come from [source.emulator]; write that, or run on threads, shm: or udp:.",
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

/// Starts the nodes of a world, each in a thread. They begin when all are there.
///
/// # Errors
/// A description has no emulator, or the link is unknown. Nothing was started then.
pub(crate) fn start(graph: &Graph, between: Between<'_>) -> Result<World, Error> {
    let (shared, (to, from)) = (between.shared(graph), sync_channel(BATCHES));
    let (places, idle) = graph.places(between.experiment).in_network()?;
    let sources = shared.sources();
    let emulators = emulators(&shared)?;
    let mut threads = Vec::new();
    for number in 0..graph.builders() {
        threads.push(start_builder(&shared, number, &places, to.clone()));
    }
    for (number, sources) in sources.iter().enumerate() {
        threads.push(start_readout(&shared, number, sources.clone(), &places));
    }
    let seconds = between.experiment.seconds;
    let mut inputs = Vec::new();
    for (number, emulator) in emulators.into_iter().enumerate() {
        let readout = sources.iter().position(|of| of.contains(&number)).unwrap_or(0);
        let (places, to) = (places.clone(), Places::readout(readout));
        let monitor = shared.monitor.clone();
        inputs.push(std::thread::spawn(move || {
            let node = open_sensor(&places, number, &to);
            node.map_or_else(
                |error| {
                    monitor.fault(error);
                    InputEnd::default()
                },
                |node| Sensor { node, emulator, seconds }.send(),
            )
        }));
    }
    drop(to);
    let idle = Idle::start(idle, &places);
    let board = shared.board.clone();
    let collector = between.collector(board.clone());
    let readout = std::thread::spawn(move || {
        let mut built = collect(collector, &from, threads, &board);
        drop(idle);
        if let Some(GraphEnd { virtual_end, crashed, .. }) = &mut built.graph {
            *virtual_end = Some(EPOCH + board.ended().since(Moment::default()));
            *crashed = crashed_inputs(&board, &sources);
        }
        built
    });
    Ok(World { readout, inputs })
}

/// Nodes of the network that have no part in the run: their hosts are on, and do nothing.
struct Idle(Arc<AtomicBool>);

impl Idle {
    fn start(count: usize, places: &Places) -> Idle {
        let over = Arc::new(AtomicBool::new(false));
        for number in 0..count {
            let (places, over) = (places.clone(), Arc::clone(&over));
            std::thread::spawn(move || {
                let Ok(mut node) = places.open(&format!("idle-{number}")) else { return };
                while !over.load(Ordering::Relaxed) {
                    Outlets::rest(&mut node, IDLE_REST);
                    node.drive();
                }
            });
        }
        Idle(over)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes the emulators of all sources; one without a seed has its source's number.
fn emulators(shared: &Shared<'_>) -> Result<Vec<Emulator>, Error> {
    let pairs = shared.experiment.sources.iter().zip(shared.loaded).enumerate();
    let make = |(number, (source, format)): (usize, (&Source, &LoadedFormat))| {
        let mut config = source.emulator.clone().expect("checked before");
        config.seed.get_or_insert(number as u64 + 1);
        Sensors::at(&source.name, &config, format, EPOCH + BEGIN).map(Sensors::into_emulator)
    };
    pairs.map(make).collect()
}

fn open_sensor(places: &Places, number: usize, readout: &str) -> Result<RingNode, Error> {
    let name = Places::sensor(number);
    let mut node = places.open(&name)?;
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

/// Emulated sensors that push into the memory of their readout.
struct Sensor {
    node: RingNode,
    emulator: Emulator,
    /// The time after which they send nothing; 0: none.
    seconds: f64,
}

impl Sensor {
    fn send(mut self) -> InputEnd {
        let (mut end, mut record) = (InputEnd::default(), Vec::new());
        let mut not_sent = 0;
        let begin = Moment::default() + BEGIN;
        while let Some(emission) = self.emulator.next() {
            let (at, bytes) = (emission.at, emission.bytes.len() as u64);
            let from = emulator::sender_address(Ipv4Addr::LOCALHOST, emission.sender);
            record.clear();
            record.extend_from_slice(&SenderAddress::from(from).to_bytes());
            record.extend_from_slice(emission.bytes);
            if self.seconds > 0.0 && at.as_ns() as f64 * 1e-9 >= self.seconds {
                self.emulator.stop();
            }
            wait_until(&mut self.node, begin + at);
            match push(&mut self.node, &record) {
                true => {
                    end.counters.datagrams += 1;
                    end.counters.bytes += bytes;
                }
                false => not_sent += 1,
            }
        }
        while !self.node.finish() {
            Outlets::rest(&mut self.node, NAP);
        }
        let (sources, seed) = (self.emulator.truth(), self.emulator.seed());
        end.truth = Some(SensorsTruth { sources, not_sent, seed });
        end
    }
}

/// Waits until a time of the link.
fn wait_until(node: &mut RingNode, until: Moment) {
    node.drive();
    while node.now() < until {
        node.rest_until(until);
        node.drive();
    }
}

/// Pushes a record, waiting for room; false when the readout has gone.
fn push(node: &mut RingNode, record: &[u8]) -> bool {
    loop {
        match node.offer(0, record) {
            Offered::Taken => {
                node.drive();
                return true;
            }
            Offered::Full => {
                Outlets::rest(node, NAP);
                node.drive();
            }
            Offered::Gone(_) => return false,
        }
    }
}

fn start_builder(
    shared: &Shared<'_>,
    number: usize,
    places: &Places,
    to: SyncSender<collector::Built>,
) -> JoinHandle<()> {
    let (places, monitor) = (places.clone(), shared.monitor.clone());
    let make = shared.builder(number, to);
    std::thread::spawn(move || match places.open_builder(number) {
        Ok(node) => make(node).run(),
        Err(error) => monitor.fault(error),
    })
}

fn start_readout(
    shared: &Shared<'_>,
    number: usize,
    sources: Vec<usize>,
    places: &Places,
) -> JoinHandle<()> {
    let (places, monitor) = (places.clone(), shared.monitor.clone());
    let make = shared.taker(number);
    let packet = Span::from_ns(shared.graph.nodes.readout.packet_ns);
    std::thread::spawn(move || {
        let opened = places.open_readout(number).and_then(|mut node| {
            for source in &sources {
                places.add_lane(&mut node, &Places::sensor(*source))?;
            }
            Ok(node)
        });
        match opened {
            Ok(node) => read_out(make(node), &sources, packet),
            Err(error) => monitor.fault(error),
        }
    })
}

/// Reads out the rings of sensors until all have ended: lane by lane, one for each source.
fn read_out(mut taker: GraphTaker<RingNode>, sources: &[usize], packet: Span) {
    let mut is_open = vec![true; sources.len()];
    loop {
        taker.outlets().drive();
        let now = EPOCH + taker.outlets().now().since(Moment::default());
        let (mut worked, mut packets) = (false, 0);
        for (lane, source) in sources.iter().enumerate() {
            for _ in 0..RECORDS_PER_TURN {
                if !is_open[lane] || !taker.can_take() {
                    break;
                }
                match Inlets::take(taker.outlets(), lane) {
                    Taking::Record(record) => {
                        take(&mut taker, *source as u16, now, &record);
                        packets += 1;
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
            Inlets::rest(taker.outlets(), REST);
        }
    }
}

/// Takes a packet as a sensor pushed it: its address, then its bytes.
fn take(taker: &mut impl PacketTaker, input: u16, now: Moment, record: &[u8]) {
    let Some((head, bytes)) = record.split_first_chunk() else { return };
    let sender = SenderAddress::from_bytes(*head);
    taker.take(input, now, &Datagram { bytes, sender, port: 0, time: now });
}
