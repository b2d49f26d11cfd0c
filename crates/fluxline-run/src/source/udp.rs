//! UDP sockets as a source, and emulated sensors that send to one over loopback.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use fluxline::clock;
use fluxline::ring::{Producer, SLOT_BYTES_ANY};
use fluxline::udp::{Multicast, Received, ReceiverConfig, UdpReceiver, WhenEmpty, WhenFull};
use fluxline_daq::experiment::{OnRingFull, Source, Udp};
use fluxline_daq::ledger::InputCounters;

use super::sensors::Sensors;
use super::{Feed, InputEnd, OpenInput, new_ring};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::ring::InputRing;
use crate::stop::Stop;

/// Longest wait for a datagram before a receiver checks whether the run is over.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);
/// Longest wait for a full ring or an empty socket when the run is over.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(1);
/// A socket that stays empty this long after its emulator stopped is drained.
const DRAINED_AFTER: Duration = Duration::from_millis(200);

/// Sockets that fill a ring.
struct UdpFeed {
    receiver: UdpReceiver,
    ring: Producer,
}

/// Sockets that fill a ring with the packets of emulated sensors.
struct LoopbackFeed {
    receiver: UdpReceiver,
    ring: Producer,
    sensors: Sensors,
}

/// Opens the sockets of a source.
pub(super) fn open(source: &Source, udp: &Udp) -> Result<OpenInput, Error> {
    let receiver = bind(&source.name, udp)?;
    let slot_bytes = if udp.gro { SLOT_BYTES_ANY } else { udp.datagram_bytes_max };
    let (config, ring, consumer) = new_ring(source, slot_bytes)?;
    let (listens, warnings) = (addresses_of(&receiver), warnings_of(&receiver));
    let feed = UdpFeed { receiver, ring };
    let input = OpenInput::new(source, InputRing::Slots(consumer), config.memory_bytes(), feed);
    Ok(OpenInput { listens, warnings, ..input })
}

/// Opens a socket on loopback, and the sockets of the emulated sensors that send to it.
pub(super) fn open_loopback(source: &Source, mut sensors: Sensors) -> Result<OpenInput, Error> {
    // Without GRO the kernel counts every datagram that it drops, not every train: so the
    // emulator's truth and the ledger agree to the packet.
    let listen = vec!["127.0.0.1:0".to_string()];
    let receiver = bind(&source.name, &Udp { listen, gro: false, ..Udp::default() })?;
    let address = receiver.local_addresses().next();
    sensors.connect(address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))))?;
    let (config, ring, consumer) = new_ring(source, sensors.packet_bytes())?;
    let (listens, warnings) = (addresses_of(&receiver), warnings_of(&receiver));
    let expected = sensors.expected(source);
    let feed = LoopbackFeed { receiver, ring, sensors };
    let input = OpenInput::new(source, InputRing::Slots(consumer), config.memory_bytes(), feed);
    Ok(OpenInput { listens, warnings, expected, ..input })
}

fn addresses_of(receiver: &UdpReceiver) -> Vec<String> {
    receiver.local_addresses().map(|at| at.to_string()).collect()
}

fn warnings_of(receiver: &UdpReceiver) -> Vec<String> {
    receiver.buffer().warning().into_iter().collect()
}

fn bind(name: &str, udp: &Udp) -> Result<UdpReceiver, Error> {
    let wrong = |text: &str, problem: &str| {
        Error::input(format_args!(
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
    config.groups = groups_of(name, udp, &config.listen)?;
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
        .map_err(|error| Error::link(format_args!("source `{name}`: {error}.")))
}

/// Returns the multicast groups to join: `multicast`, and each group that is listened on.
fn groups_of(name: &str, udp: &Udp, listen: &[SocketAddr]) -> Result<Vec<Multicast>, Error> {
    let named = udp.multicast.as_ref().map(|text| {
        text.parse::<IpAddr>().map_err(|_| {
            Error::input(format_args!("source `{name}`: multicast = {text} is not an IP address."))
        })
    });
    let mut groups: Vec<IpAddr> = named.transpose()?.into_iter().collect();
    let listened = listen.iter().map(SocketAddr::ip).filter(IpAddr::is_multicast);
    groups.extend(listened);
    groups.sort_unstable();
    groups.dedup();
    let interface = &udp.interface;
    Ok(groups.into_iter().map(|group| Multicast { group, interface: interface.clone() }).collect())
}

impl Feed for UdpFeed {
    /// Receives until the run is over; then takes the packets that the sockets still have. Packets
    /// that senders without a pause add behind those are left: otherwise a run under full load
    /// would not end.
    fn run(self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        let UdpFeed { mut receiver, mut ring } = *self;
        let mut over = false;
        loop {
            if !over && stop.is_over() {
                over = true;
                receiver.begin_drain(clock::now());
            }
            if over && receiver.is_drained() {
                break;
            }
            monitor.publish_input(|| counters_of(&mut receiver).into());
            let timeout = if over { DRAIN_TIMEOUT } else { RECEIVE_TIMEOUT };
            match receiver.receive_into(&mut ring, timeout) {
                Ok(Received::ReaderGone) => break,
                Ok(_) => {}
                Err(error) => {
                    monitor.fault(error);
                    break;
                }
            }
        }
        end_of(&mut receiver, &ring)
    }
}

impl Feed for LoopbackFeed {
    /// Receives while another thread plays the sensors, until they have ended and the socket stays
    /// empty.
    fn run(self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        let LoopbackFeed { mut receiver, mut ring, sensors } = *self;
        let arrived = sensors.arrived();
        let sender = {
            let (stop, monitor) = (stop.clone(), monitor.clone());
            std::thread::spawn(move || sensors.send(&stop, &monitor))
        };
        loop {
            let finished = sender.is_finished();
            if let Some(arrived) = &arrived {
                arrived.set(receiver.counters().datagrams);
            }
            monitor.publish_input(|| counters_of(&mut receiver).into());
            let timeout = if finished { DRAINED_AFTER } else { RECEIVE_TIMEOUT };
            match receiver.receive_into(&mut ring, timeout) {
                Ok(Received::Idle) if finished => break,
                Ok(Received::ReaderGone) => {
                    stop.now();
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    monitor.fault(error);
                    stop.now();
                    break;
                }
            }
        }
        let truth = sender.join().ok();
        InputEnd { truth, ..end_of(&mut receiver, &ring) }
    }
}

fn end_of(receiver: &mut UdpReceiver, ring: &Producer) -> InputEnd {
    InputEnd {
        counters: counters_of(receiver),
        receiver: Some(receiver.counters().clone()),
        ring: ring.counters().clone(),
        ..InputEnd::default()
    }
}

fn counters_of(receiver: &mut UdpReceiver) -> InputCounters {
    let counters = receiver.counters();
    InputCounters {
        datagrams: counters.datagrams,
        bytes: counters.bytes,
        ring_full: counters.ring_full,
        socket_dropped: counters.socket_drops,
        ..InputCounters::default()
    }
}
