//! Inputs: each is opened in the main thread, where errors can be told at once, and then fills its
//! push ring in a thread of its own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::thread::JoinHandle;
use std::time::Duration;

use fluxline::ring::{Producer, RingConfig, SLOT_BYTES_ANY, ring};
use fluxline::udp::{Multicast, Received, ReceiverConfig, UdpReceiver, WhenEmpty, WhenFull};
use fluxline::{clock, pin};
use fluxline_daq::merge::Times;

use super::end::InputEnd;
use super::file::{self, FileSource};
use super::held::{HeldRing, Replay};
use super::limits::ExpectedTraffic;
use super::live::Live;
use super::ring::{LiveRing, Ring};
use super::roce::RoceInput;
use super::roce_push::PushInput;
use super::sensors::Sensors;
use super::shared::SharedInput;
use super::stop::Stop;
use crate::experiment::{EmulatorLink, OnRingFull, Roce, Source, Udp};
use crate::failure::Failure;
use crate::formats::LoadedFormat;

/// How long a receiver waits for a datagram before it looks whether the run is over.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);
/// How long a full ring is waited for, and an empty socket listened to, when the run is over.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(1);
/// A socket that is empty for so long after its emulator stopped is drained.
const DRAINED_AFTER: Duration = Duration::from_millis(200);

/// An input that is open and not yet started.
pub struct OpenInput {
    /// The source's name in the experiment.
    pub name: String,
    /// Memory of its push ring \[byte\].
    pub ring_bytes: u64,
    /// Where it can be reached: addresses, a URL.
    pub listens: Vec<String>,
    /// What the user should know before the run: a buffer that is smaller than asked.
    pub warnings: Vec<String>,
    /// A key that was drawn for this run: its producer must be told, and nobody who reads the run.
    pub drawn_key: Option<u64>,
    /// What it is configured to give; zero where that is not known.
    pub expected: ExpectedTraffic,
    core: Option<usize>,
    feed: Feed,
}

enum Feed {
    /// Another process writes; this thread looks after the connections.
    Shared(Box<SharedInput>),
    /// Senders write; this thread polls their connections.
    Roce(Box<RoceInput>),
    /// A producer pushes; this thread polls its connection.
    Push(Box<PushInput>),
    /// What this thread fills its ring from.
    Own(Box<(Producer, Own)>),
}

enum Own {
    Udp(Box<UdpReceiver>),
    UdpWithSensors(Box<UdpReceiver>, Sensors),
    Sensors(Sensors),
    File(FileSource),
}

impl OpenInput {
    /// Opens what `source` names; its packets go to the ring's other end.
    pub fn open(source: &Source, format: &LoadedFormat) -> Result<(OpenInput, Ring), Failure> {
        if let Some(shm) = &source.shm {
            let (node, records) = SharedInput::open(&source.name, shm)?;
            let input = OpenInput {
                name: source.name.clone(),
                ring_bytes: shm.ring_bytes,
                listens: vec![shm.url.clone()],
                warnings: Vec::new(),
                drawn_key: None,
                expected: ExpectedTraffic::default(),
                core: source.core,
                feed: Feed::Shared(Box::new(node)),
            };
            return Ok((input, Ring::Live(LiveRing::Records(Box::new(records)))));
        }
        if let Some(roce) = &source.roce {
            return OpenInput::open_roce(source, roce);
        }
        let (own, slot_bytes) = Own::open(source, format)?;
        let config = RingConfig { slots: source.ring_slots as usize, slot_bytes };
        let (producer, consumer) = ring(&config)
            .map_err(|error| Failure::failed(format_args!("source `{}`: {error}.", source.name)))?;
        let name = &source.name;
        let ring = match &own {
            Own::File(file) => {
                Ring::Held(HeldRing::new(name, consumer, file.times(), file.replay()))
            }
            // Without a rate it waits for whoever reads.
            Own::Sensors(_) if source.emulator.as_ref().is_some_and(|of| of.rate == 0.0) => {
                Ring::Held(HeldRing::new(name, consumer, Times::Captured, Replay::AtOnce))
            }
            _ => Ring::Live(LiveRing::Slots(consumer)),
        };
        let receiver = match &own {
            Own::Udp(receiver) | Own::UdpWithSensors(receiver, _) => Some(receiver),
            _ => None,
        };
        let input = OpenInput {
            name: source.name.clone(),
            ring_bytes: config.memory_bytes(),
            listens: receiver
                .map_or(Vec::new(), |udp| udp.local_addresses().map(|at| at.to_string()).collect()),
            warnings: receiver.and_then(|udp| udp.buffer().warning()).into_iter().collect(),
            drawn_key: None,
            expected: own.expected(source),
            core: source.core,
            feed: Feed::Own(Box::new((producer, own))),
        };
        Ok((input, ring))
    }

    fn open_roce(source: &Source, roce: &Roce) -> Result<(OpenInput, Ring), Failure> {
        let name = &source.name;
        let mut drawn_key = None;
        let (feed, ring, listens, warning) = if let Some(push) = &roce.push {
            let (input, records) = PushInput::open(name, roce, push)?;
            let (listens, warning) = (input.address(), input.warning());
            drawn_key = input.drawn_key();
            (Feed::Push(Box::new(input)), LiveRing::Records(Box::new(records)), listens, warning)
        } else {
            let (input, landed) = RoceInput::open(name, roce)?;
            let (listens, warning) = (input.address(), input.warning());
            (Feed::Roce(Box::new(input)), LiveRing::Landed(landed), listens, warning)
        };
        let input = OpenInput {
            name: name.clone(),
            ring_bytes: roce.ring_bytes * roce.senders.len().max(1) as u64,
            listens: vec![format!("roce://{listens}")],
            warnings: warning.into_iter().collect(),
            drawn_key,
            expected: ExpectedTraffic::default(),
            core: source.core,
            feed,
        };
        Ok((input, Ring::Live(ring)))
    }

    /// Starts its thread.
    pub fn start(self, stop: Stop, live: Live) -> JoinHandle<InputEnd> {
        std::thread::spawn(move || {
            let OpenInput { name, core, feed, .. } = self;
            if let Some(core) = core {
                live.note(pin::pin_current_thread(core).err());
            }
            match feed {
                Feed::Shared(node) => node.serve(&stop, &live),
                Feed::Roce(input) => input.serve(&stop, &live),
                Feed::Push(input) => input.serve(&stop, &live),
                Feed::Own(own) => {
                    let (producer, own) = *own;
                    own.fill(producer, &name, &stop, &live)
                }
            }
        })
    }
}

impl Own {
    /// Fills the ring until there is no more, or the run is over.
    fn fill(self, mut producer: Producer, name: &str, stop: &Stop, live: &Live) -> InputEnd {
        let mut end = InputEnd::default();
        match self {
            Own::Udp(receiver) => receive(*receiver, &mut producer, stop, live, &mut end),
            Own::UdpWithSensors(receiver, sensors) => {
                receive_sensors(*receiver, sensors, &mut producer, stop, live, &mut end);
            }
            Own::Sensors(sensors) => {
                let truth = sensors.push_into(&mut producer, stop, &mut end.counters);
                end.truth = Some(truth);
            }
            Own::File(source) => {
                file::push_into(source, &mut producer, stop, live, name, &mut end);
            }
        }
        end.ring = producer.counters().clone();
        end
    }

    /// Returns what emulated sensors with a rate will give.
    fn expected(&self, source: &Source) -> ExpectedTraffic {
        match (self, &source.emulator) {
            (Own::Sensors(sensors) | Own::UdpWithSensors(_, sensors), Some(emulator)) => {
                ExpectedTraffic {
                    source_hz: emulator.rate,
                    sources: emulator.sources,
                    packet_bytes: sensors.packet_bytes(),
                }
            }
            _ => ExpectedTraffic::default(),
        }
    }

    fn open(source: &Source, format: &LoadedFormat) -> Result<(Own, usize), Failure> {
        if let Some(udp) = &source.udp {
            let receiver = bind(&source.name, udp)?;
            let slot_bytes = if udp.gro { SLOT_BYTES_ANY } else { udp.datagram_bytes_max };
            return Ok((Own::Udp(Box::new(receiver)), slot_bytes));
        }
        if let Some(emulator) = &source.emulator {
            let mut sensors = Sensors::new(&source.name, emulator, format)?;
            if emulator.link == EmulatorLink::Direct {
                let slot_bytes = sensors.packet_bytes();
                return Ok((Own::Sensors(sensors), slot_bytes));
            }
            // Without GRO the kernel counts every datagram that it drops, not every train: so the
            // emulator's truth and the ledger agree to the packet.
            let listen = vec!["127.0.0.1:0".to_string()];
            let slot_bytes = sensors.packet_bytes();
            let receiver = bind(&source.name, &Udp { listen, gro: false, ..Udp::default() })?;
            let address = receiver.local_addresses().next();
            sensors.connect(address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))))?;
            return Ok((Own::UdpWithSensors(Box::new(receiver), sensors), slot_bytes));
        }
        FileSource::open(source).map(|file| (Own::File(file), SLOT_BYTES_ANY))
    }
}

fn bind(name: &str, udp: &Udp) -> Result<UdpReceiver, Failure> {
    let wrong = |text: &str, problem: &str| {
        Failure::input(format_args!(
            "source `{name}`: {text} is not {problem}; write for example \"0.0.0.0:6006\"."
        ))
    };
    let mut config = ReceiverConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    config.listen.clear();
    for text in &udp.listen {
        let mut addresses =
            text.to_socket_addrs().map_err(|_| wrong(text, "an address with a port"))?;
        config.listen.push(addresses.next().ok_or_else(|| wrong(text, "an address"))?);
    }
    if let Some(text) = &udp.multicast {
        let group = text.parse().map_err(|_| {
            Failure::input(format_args!("source `{name}`: multicast = {text} is no IP address."))
        })?;
        config.groups.push(Multicast { group, interface: udp.interface.clone() });
    }
    config.buffer_bytes = u32::try_from(udp.receive_buffer_bytes).unwrap_or(u32::MAX);
    config.gro = udp.gro;
    config.busy_poll_us = udp.busy_poll_us;
    config.when_empty = match udp.nap_us {
        0 => WhenEmpty::Block,
        us => WhenEmpty::Nap(Duration::from_micros(us.into())),
    };
    config.when_full = match udp.on_ring_full {
        OnRingFull::Wait => WhenFull::Wait,
        OnRingFull::Drop => WhenFull::Drop,
    };
    UdpReceiver::bind(config)
        .map_err(|error| Failure::link(format_args!("source `{name}`: {error}.")))
}

/// Receives until the run is over; then takes what the sockets still hold, but not what senders
/// that never pause put in behind it: else a run under full load would not end.
fn receive(
    mut receiver: UdpReceiver,
    ring: &mut Producer,
    stop: &Stop,
    live: &Live,
    end: &mut InputEnd,
) {
    let mut over = false;
    loop {
        if !over && stop.is_over() {
            over = true;
            receiver.begin_drain(clock::now());
        }
        if over && receiver.is_drained() {
            break;
        }
        let timeout = if over { DRAIN_TIMEOUT } else { RECEIVE_TIMEOUT };
        match receiver.receive_into(ring, timeout) {
            Ok(Received::ReaderGone) => break,
            Ok(_) => {}
            Err(error) => {
                live.fault(error);
                break;
            }
        }
    }
    account(&mut receiver, end);
}

/// As [`receive`], while another thread plays the sensors; ends when they have ended and the socket
/// stays empty.
fn receive_sensors(
    mut receiver: UdpReceiver,
    sensors: Sensors,
    ring: &mut Producer,
    stop: &Stop,
    live: &Live,
    end: &mut InputEnd,
) {
    let arrived = sensors.arrived();
    let sender = {
        let (stop, live) = (stop.clone(), live.clone());
        std::thread::spawn(move || sensors.send(&stop, &live))
    };
    loop {
        let finished = sender.is_finished();
        if let Some(arrived) = &arrived {
            arrived.set(receiver.counters().datagrams);
        }
        match receiver.receive_into(ring, if finished { DRAINED_AFTER } else { RECEIVE_TIMEOUT }) {
            Ok(Received::Idle) if finished => break,
            Ok(Received::ReaderGone) => {
                stop.now();
                break;
            }
            Ok(_) => {}
            Err(error) => {
                live.fault(error);
                stop.now();
                break;
            }
        }
    }
    end.truth = sender.join().ok();
    account(&mut receiver, end);
}

fn account(receiver: &mut UdpReceiver, end: &mut InputEnd) {
    let counters = receiver.counters();
    end.counters.datagrams = counters.datagrams;
    end.counters.bytes = counters.bytes;
    end.counters.ring_full = counters.ring_full;
    end.counters.socket_dropped = counters.socket_drops;
    end.receiver = Some(counters.clone());
}
