//! A sensor of a simulated world: a node that pushes packets into the memory of its readout when
//! they are due, from an emulator or from recorded files.

use std::net::Ipv4Addr;

use fluxline_cluster::edges::{Offered, Outlets};
use fluxline_cluster::rings::RingNode;
use fluxline_core::{Datagram, Moment, SenderAddress, Span, planted};
use fluxline_daq::emulator::{self, Emulator};
use fluxline_daq::experiment::{Experiment, Source};
use fluxline_daq::formats::LoadedFormat;

use super::link::EPOCH;
use crate::error::Error;
use crate::journey::Journeys;
use crate::monitor::Monitor;
use crate::source::InputEnd;
use crate::source::file::FileSource;
use crate::source::sensors::Sensors;
use crate::source::truth::SensorsTruth;
use crate::stop::Stop;

/// The virtual time at which sensors begin to send: all nodes are connected then.
pub(super) const BEGIN: Moment = Moment::from_ns(20_000_000);
/// The virtual time by which every node is there, and every sensor has pushed a record, if it
/// lives.
pub(super) const COME_BY: Moment = Moment::from_ns(5_000_000_000);
/// Pause of a sensor whose ring is full.
const NAP: Span = Span::from_ns(10_000);

/// The packets of a sensor.
pub(super) enum Packets {
    Emulated(Box<Emulator>),
    Recorded {
        files: FileSource,
        /// The first time in all files of the run: it is sent at [`BEGIN`].
        first: Moment,
    },
}

impl Packets {
    /// Opens the packets of all sources. An emulator without a seed has its source's number.
    ///
    /// # Errors
    /// A description has no emulator, or a file cannot be read.
    pub fn of(experiment: &Experiment, loaded: &[LoadedFormat]) -> Result<Vec<Packets>, Error> {
        let mut first = None;
        for source in experiment.sources.iter().filter(|source| source.is_file()) {
            let of = FileSource::open(source)?.first_time(&source.name)?;
            first = [first, of].into_iter().flatten().min();
        }
        let first = first.unwrap_or_default();
        let pairs = experiment.sources.iter().zip(loaded).enumerate();
        let open = |(number, (source, format)): (usize, (&Source, &LoadedFormat))| {
            let Some(config) = &source.emulator else {
                return Ok(Packets::Recorded { files: FileSource::open(source)?, first });
            };
            let mut config = config.clone();
            config.seed.get_or_insert(number as u64 + 1);
            let epoch = EPOCH + BEGIN.since(Moment::default());
            let sensors = Sensors::at(&source.name, &config, format, epoch)?;
            Ok(Packets::Emulated(Box::new(sensors.into_emulator())))
        };
        pairs.map(open).collect()
    }
}

/// A sensor that pushes into the memory of its readout.
pub(super) struct Sensor {
    pub name: String,
    pub node: RingNode,
    /// The virtual time after which it sends nothing; 0: none.
    pub seconds: f64,
    pub stop: Stop,
    pub monitor: Monitor,
    pub journeys: Journeys,
}

impl Sensor {
    /// Sends all packets, until the end of the run. An empty record says that the sensor is there.
    pub fn send(mut self, packets: Packets) -> InputEnd {
        let mut end = InputEnd::default();
        self.push(&[]);
        let not_sent = match packets {
            Packets::Emulated(emulator) => self.emulate(*emulator, &mut end),
            Packets::Recorded { files, first } => self.replay(files, first, &mut end),
        };
        while !self.node.finish() {
            Outlets::rest(&mut self.node, NAP);
        }
        let has_crashed = self.node.has_crashed();
        let has_lost = !planted!(23) && self.node.has_lost_receiver();
        let Sensor { name, monitor, .. } = &self;
        if not_sent > 0 && !has_crashed {
            monitor.note(Some(format!(
                "source `{name}`: its readout was not there for {not_sent} packets: they were not \
                 sent"
            )));
        } else if has_lost && !has_crashed {
            monitor.note(Some(format!(
                "source `{name}`: its readout was gone before all packets had come: the last ones \
                 may be lost on the way"
            )));
        }
        end.has_parted = not_sent > 0 || (has_crashed && !planted!(21)) || has_lost;
        end.journeys = Some(self.journeys);
        end
    }

    /// Sends the packets of an emulator; returns the number that its readout was not there for.
    fn emulate(&mut self, mut emulator: Emulator, end: &mut InputEnd) -> u64 {
        let (mut not_sent, mut record) = (0, Vec::new());
        while let Some(emission) = emulator.next() {
            let (at, bytes) = (BEGIN + emission.at, emission.bytes);
            let sender = emulator::sender_address(Ipv4Addr::LOCALHOST, emission.sender);
            write_record(&mut record, &datagram(bytes, sender.into()));
            let length = bytes.len();
            if self.is_over(at) {
                emulator.stop();
            }
            self.wait_until(at);
            not_sent += self.push_packet(&record, at, length, end);
        }
        let (sources, seed) = (emulator.truth(), emulator.seed());
        end.truth = Some(SensorsTruth { sources, not_sent, seed });
        not_sent
    }

    /// Sends the packets of files; returns the number that its readout was not there for.
    fn replay(&mut self, files: FileSource, first: Moment, end: &mut InputEnd) -> u64 {
        let (mut not_sent, mut record) = (0, Vec::new());
        let (mut pace, mut reader) = (files.virtual_pace(first, BEGIN), files.into_reader());
        self.wait_until(BEGIN);
        loop {
            match reader.next() {
                Ok(Some(datagram)) => {
                    self.node.drive();
                    while let Some(wait) = pace.due(datagram.time, self.node.now()) {
                        self.node.rest_until(self.node.now() + wait);
                        self.node.drive();
                    }
                    let now = self.node.now();
                    if self.is_over(now) {
                        break;
                    }
                    write_record(&mut record, &datagram);
                    not_sent += self.push_packet(&record, now, datagram.bytes.len(), end);
                }
                Ok(None) => break,
                // What can be read goes on behind it: the next file, or the end.
                Err(error) => self.monitor.fault(format_args!("source `{}`: {error}", self.name)),
            }
        }
        reader.close(end, &self.monitor);
        not_sent
    }

    /// Returns true when nothing is sent at `at` or later.
    fn is_over(&self, at: Moment) -> bool {
        let sent_for = at.since(BEGIN).as_ns() as f64 * 1e-9;
        self.stop.is_over() || (self.seconds > 0.0 && sent_for >= self.seconds)
    }

    /// Waits until a time of the link.
    fn wait_until(&mut self, until: Moment) {
        self.node.drive();
        while self.node.now() < until {
            self.node.rest_until(until);
            self.node.drive();
        }
    }

    /// Pushes a packet as a record, waiting for room; returns 1 when the readout has gone, and the
    /// packet was not sent.
    fn push_packet(&mut self, record: &[u8], due: Moment, bytes: usize, end: &mut InputEnd) -> u64 {
        self.journeys.begin(due);
        let is_sent = self.push(record);
        if !is_sent {
            self.journeys.cancel();
        }
        end.counters.datagrams += u64::from(is_sent);
        end.counters.bytes += if is_sent { bytes as u64 } else { 0 };
        u64::from(!is_sent)
    }

    /// Pushes a record, waiting for room; false when the readout has gone.
    fn push(&mut self, record: &[u8]) -> bool {
        loop {
            match self.node.offer(0, record) {
                Offered::Taken => {
                    self.node.drive();
                    return true;
                }
                Offered::Full => {
                    Outlets::rest(&mut self.node, NAP);
                    self.node.drive();
                }
                Offered::Gone(_) => return false,
            }
        }
    }
}

fn datagram(bytes: &[u8], sender: SenderAddress) -> Datagram<'_> {
    Datagram { bytes, sender, port: 0, time: Moment::default() }
}

/// Writes a packet as it is pushed: the sender's address, the port, the bytes.
fn write_record(record: &mut Vec<u8>, of: &Datagram<'_>) {
    record.clear();
    record.extend_from_slice(&of.sender.to_bytes());
    record.extend_from_slice(&of.port.to_le_bytes());
    record.extend_from_slice(of.bytes);
}

/// Reads a packet that came at `time` as [`write_record`] wrote it.
pub(super) fn read_record(record: &[u8], time: Moment) -> Option<Datagram<'_>> {
    let (sender, rest) = record.split_first_chunk()?;
    let (port, bytes) = rest.split_first_chunk()?;
    let (sender, port) = (SenderAddress::from_bytes(*sender), u16::from_le_bytes(*port));
    Some(Datagram { bytes, sender, port, time })
}
