//! Emulated sensors as a source: over real UDP sockets, or straight into the push ring.

use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use fluxline::clock;
use fluxline::ring::Producer;
use fluxline::udp::{SenderConfig, UdpSender};
use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::capture::writer::CaptureWriter;
use fluxline_daq::emulator::{self, EmulatorConfig};
use fluxline_daq::experiment::{Emulator, Source};
use fluxline_daq::formats::LoadedFormat;
use fluxline_daq::ledger::InputCounters;
use fluxline_daq::merge::Times;

use super::paced::{Paced, sleep_until};
use super::push::push_all;
use super::truth::SensorsTruth;
use super::window::{Arrived, Window};
use super::{Feed, InputEnd, OpenInput, new_ring};
use crate::error::Error;
use crate::limits::ExpectedTraffic;
use crate::monitor::Monitor;
use crate::ring::{InputRing, OnDemandRing, Replay};
use crate::stop::Stop;

/// Datagrams of all sensors that are sent together at most.
pub(super) const BATCH_DATAGRAMS: usize = 64;
/// Addresses in captures that are written. Source: TEST-NET-1, RFC 5737.
const SENDERS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 255), 49_152);
/// Most sensors with sockets of their own.
const SOCKETS_MAX: u32 = 4096;

/// Emulated sensors with the sockets that they send from.
pub struct Sensors {
    emulator: emulator::Emulator,
    outlets: Vec<Outlet>,
    train: bool,
    window: Option<Window>,
}

/// One socket, and the datagrams to be sent from it; their memory is used again.
struct Outlet {
    sender: UdpSender,
    datagrams: Vec<Vec<u8>>,
    filled: usize,
}

impl Sensors {
    /// Makes the sensors; a seed is drawn where the experiment gives none.
    pub fn new(name: &str, from: &Emulator, format: &LoadedFormat) -> Result<Sensors, Error> {
        Sensors::at(name, from, format, clock::now())
    }

    /// Makes the sensors of a run that begins at `epoch`, the start of their time stamps.
    pub(crate) fn at(
        name: &str,
        from: &Emulator,
        format: &LoadedFormat,
        epoch: Moment,
    ) -> Result<Sensors, Error> {
        let config = EmulatorConfig {
            sources: from.sources,
            packet: from.packet.clone(),
            payload_bytes: from.payload_bytes,
            pattern: from.pattern,
            rate: from.rate,
            jitter: from.jitter,
            packets: from.packets,
            seed: from.seed.unwrap_or_else(|| clock::now().as_ns()),
            epoch_start: epoch,
            faults: from.faults,
        };
        let emulator = emulator::Emulator::new(&format.description, config)
            .map_err(|error| Error::input(format_args!("source `{name}`: {error}")))?;
        let window = (from.in_flight_max > 0).then(|| Window::new(from.in_flight_max));
        Ok(Sensors { emulator, outlets: Vec::new(), train: from.train > 1, window })
    }

    /// Returns the number of sensors.
    pub(super) fn sources(&self) -> u32 {
        self.emulator.sources()
    }

    /// Returns the maker of packets, without sockets.
    pub(crate) fn into_emulator(self) -> emulator::Emulator {
        self.emulator
    }

    /// Opens the sockets that the sensors send from.
    pub fn connect(&mut self, destination: SocketAddr) -> Result<(), Error> {
        let count = self.emulator.senders();
        if count > SOCKETS_MAX {
            return Err(Error::input(format_args!(
                "{count} sensors that differ by their port need as many sockets; at most \
                 {SOCKETS_MAX} are possible: emulate fewer, or use link = \"direct\"."
            )));
        }
        for _ in 0..count {
            let mut config = SenderConfig::new(destination);
            config.segmentation = self.train;
            let sender = UdpSender::open(config).map_err(Error::link)?;
            self.outlets.push(Outlet { sender, datagrams: Vec::new(), filled: 0 });
        }
        Ok(())
    }

    /// Returns the receiver's side of the window, where the sensors have one.
    pub(super) fn arrived(&self) -> Option<Arrived> {
        self.window.as_ref().map(Window::arrived)
    }

    /// Sends over the sockets until all packets are made or the run is over.
    pub fn send(self, stop: &Stop, monitor: &Monitor) -> SensorsTruth {
        let Sensors { emulator, mut outlets, mut window, .. } = self;
        let burst = window.as_ref().map_or(BATCH_DATAGRAMS, Window::burst).min(BATCH_DATAGRAMS);
        let mut paced = Paced::start(emulator, stop);
        let (mut waiting, mut not_sent) = (0, 0);
        while let Some((emission, due)) = paced.next() {
            if waiting > 0 && (due.is_some() || waiting >= burst) {
                if let Some(window) = &mut window {
                    window.make_room(waiting as u64);
                }
                not_sent += flush(&mut outlets, monitor);
                waiting = 0;
            }
            if let Some(due) = due {
                sleep_until(due, stop);
            }
            outlets[emission.sender as usize].add(emission.bytes);
            waiting += 1;
        }
        not_sent += flush(&mut outlets, monitor);
        paced.truth(not_sent)
    }

    /// Puts packets straight into the ring until all are made or the run is over.
    fn push_into(
        self,
        ring: &mut Producer,
        stop: &Stop,
        counters: &mut InputCounters,
    ) -> SensorsTruth {
        let mut paced = Paced::start(self.emulator, stop);
        let mut not_sent = 0;
        while let Some((emission, due)) = paced.next() {
            if let Some(due) = due {
                sleep_until(due, stop);
            }
            let sender = emulator::sender_address(Ipv4Addr::LOCALHOST, emission.sender);
            let sender = SenderAddress::from(sender);
            let datagram = Datagram { bytes: emission.bytes, sender, port: 0, time: clock::now() };
            if push_all(ring, &datagram) {
                counters.datagrams += 1;
                counters.bytes += datagram.bytes.len() as u64;
            } else {
                not_sent += 1;
            }
        }
        paced.truth(not_sent)
    }

    /// Returns the traffic of `source`, to which these sensors belong.
    pub(super) fn expected(&self, source: &Source) -> ExpectedTraffic {
        let emulator = source.emulator.as_ref();
        ExpectedTraffic {
            source_hz: emulator.map_or(0.0, |emulator| emulator.rate),
            sources: self.sources(),
            packet_bytes: self.packet_bytes(),
        }
    }

    /// Returns the size of a packet \[byte\].
    pub fn packet_bytes(&self) -> usize {
        self.emulator.packet_bytes()
    }

    /// Writes a pcapng file of all packets, or of the first `seconds` of them (0: all).
    pub fn write_capture(self, file: &Path, seconds: f64) -> Result<SensorsTruth, Error> {
        let Sensors { mut emulator, .. } = self;
        let wrong = |error: std::io::Error| {
            Error::failed(format_args!("{} cannot be written: {error}.", file.display()))
        };
        let start = clock::now();
        let out = BufWriter::new(File::create_new(file).map_err(wrong)?);
        let mut writer = CaptureWriter::new(out).map_err(wrong)?;
        let to = SocketAddr::from(RECEIVER);
        while let Some(emission) = emulator.next() {
            let from = emulator::sender_address(SENDERS, emission.sender);
            let at = emission.at;
            writer.write(from, to, emission.bytes, start + at).map_err(wrong)?;
            if seconds > 0.0 && at.as_ns() as f64 * 1e-9 >= seconds {
                emulator.stop();
            }
        }
        writer.finish().map_err(wrong)?;
        Ok(SensorsTruth { sources: emulator.truth(), not_sent: 0, seed: emulator.seed() })
    }
}

/// Sensors that push into the ring.
struct DirectFeed {
    sensors: Sensors,
    ring: Producer,
}

/// Opens the ring of sensors that push into it.
pub(super) fn open_direct(source: &Source, sensors: Sensors) -> Result<OpenInput, Error> {
    let (config, ring, consumer) = new_ring(source, sensors.packet_bytes())?;
    let expected = sensors.expected(source);
    // Without a rate they wait for their reader.
    let view = match expected.source_hz == 0.0 {
        true => {
            let (times, replay) = (Times::Captured, Replay::AtOnce);
            InputRing::OnDemand(OnDemandRing::new(&source.name, consumer, times, replay))
        }
        false => InputRing::Slots(consumer),
    };
    let feed = DirectFeed { sensors, ring };
    let input = OpenInput::new(source, view, config.memory_bytes(), feed);
    Ok(OpenInput { expected, ..input })
}

impl Feed for DirectFeed {
    fn run(self: Box<Self>, stop: &Stop, _: &Monitor) -> InputEnd {
        let DirectFeed { sensors, mut ring } = *self;
        let mut end = InputEnd::default();
        end.truth = Some(sensors.push_into(&mut ring, stop, &mut end.counters));
        end.ring = ring.counters().clone();
        end
    }
}

impl Outlet {
    fn add(&mut self, bytes: &[u8]) {
        if self.filled == self.datagrams.len() {
            self.datagrams.push(Vec::new());
        }
        let datagram = &mut self.datagrams[self.filled];
        datagram.clear();
        datagram.extend_from_slice(bytes);
        self.filled += 1;
    }
}

/// Sends the gathered datagrams; returns the number that the kernel did not take.
fn flush(outlets: &mut [Outlet], monitor: &Monitor) -> u64 {
    let mut not_sent = 0;
    for outlet in outlets.iter_mut().filter(|outlet| outlet.filled > 0) {
        let slices: Vec<&[u8]> =
            outlet.datagrams[..outlet.filled].iter().map(Vec::as_slice).collect();
        let mut done = 0;
        while done < slices.len() {
            match outlet.sender.send(&slices[done..]) {
                Ok(outcome) if outcome.accepted > 0 => done += outcome.accepted,
                Ok(_) => break,
                Err(error) => {
                    monitor.note(Some(&error));
                    done += error.accepted();
                    break;
                }
            }
        }
        not_sent += (outlet.filled - done) as u64;
        outlet.filled = 0;
    }
    not_sent
}
