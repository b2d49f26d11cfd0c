//! The packets that the boards of a case sent, made again without the program that records them.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::capture::writer::CaptureWriter;
use fluxline_daq::capture::{CaptureReader, parts};
use fluxline_daq::emulator::{self, Emulator, EmulatorConfig, Faults};
use fluxline_daq::experiment::{Experiment, Source};
use fluxline_daq::formats::{self, LoadedFormat};

/// The start of virtual time: 2000-01-01.
pub const EPOCH: Moment = Moment::from_ns(946_684_800_000_000_000);
/// The start of the boards.
const BEGAN: Moment = Moment::from_ns(EPOCH.as_ns() + 20_000_000);

/// A packet that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of datagrams with these bytes.
    pub datagrams: u64,
    /// Its event key.
    pub key: Option<u64>,
    /// A bit of it is wrong on purpose.
    pub is_damaged: bool,
}

/// The packets of a source of the experiment.
#[derive(Clone, Debug, Default)]
pub struct SourceTruth {
    pub name: String,
    /// By their bytes.
    pub sent: HashMap<Vec<u8>, Sent>,
    /// By event key: the number of packets that were made, those that were never sent too.
    pub made: HashMap<u64, u64>,
    /// Packets that were never sent; `None`: a capture does not say.
    pub dropped: Option<u64>,
    /// Restarts of boards; `None`: a capture does not say.
    pub restarts: Option<u64>,
}

impl SourceTruth {
    /// Returns the number of datagrams that were sent.
    pub fn datagrams(&self) -> u64 {
        self.sent.values().map(|sent| sent.datagrams).sum()
    }

    fn add(&mut self, bytes: &[u8], key: Option<u64>, is_damaged: bool) {
        let sent = self.sent.entry(bytes.to_vec()).or_default();
        *sent = Sent { datagrams: sent.datagrams + 1, key, is_damaged };
    }
}

/// Makes the packets of all sources of an experiment again.
///
/// # Errors
/// A description, a capture or an emulator is wrong.
pub fn of(experiment: &Experiment) -> Result<Vec<SourceTruth>, String> {
    experiment.sources.iter().map(of_source).collect()
}

fn of_source(source: &Source) -> Result<SourceTruth, String> {
    let format = load(source)?;
    match (&source.emulator, &source.pcap) {
        (Some(_), _) => emulated(source, &format),
        (_, Some(_)) => captured(source, &format),
        _ => Err(format!(
            "source `{}`: a campaign needs packets that it can make again; give it \
             [source.emulator] or [source.pcap].",
            source.name
        )),
    }
}

fn load(source: &Source) -> Result<LoadedFormat, String> {
    formats::load(&source.format, &source.parameters).map_err(|error| error.to_string())
}

/// Returns the event key of a packet.
fn key_of(format: &LoadedFormat, bytes: &[u8]) -> Option<u64> {
    let sender = SenderAddress::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let datagram = Datagram { bytes, sender, port: 0, time: Moment::default() };
    format.description.program().parse(&datagram).ok()?.event
}

fn emulated(source: &Source, format: &LoadedFormat) -> Result<SourceTruth, String> {
    let mut truth = SourceTruth { name: source.name.clone(), ..SourceTruth::default() };
    let mut emulator = open(source, format, |faults| faults)?;
    while let Some(emission) = emulator.next() {
        let (bytes, is_damaged) = (emission.bytes, emission.flipped_bit.is_some());
        truth.add(bytes, key_of(format, bytes), is_damaged);
    }
    let sum = |of: fn(&emulator::SourceTruth) -> u64| emulator.truth().iter().map(of).sum();
    truth.dropped = Some(sum(|board| board.dropped));
    truth.restarts = Some(sum(|board| board.restarts));
    // The same boards without faults make each packet once.
    let mut whole = open(source, format, |_| Faults::default())?;
    while let Some(emission) = whole.next() {
        if let Some(key) = key_of(format, emission.bytes) {
            *truth.made.entry(key).or_default() += 1;
        }
    }
    Ok(truth)
}

fn open(
    source: &Source,
    format: &LoadedFormat,
    faults: impl Fn(Faults) -> Faults,
) -> Result<Emulator, String> {
    let from = source.emulator.as_ref().ok_or("no emulator")?;
    let config = EmulatorConfig {
        sources: from.sources,
        packet: from.packet.clone(),
        payload_bytes: from.payload_bytes,
        pattern: from.pattern,
        rate: from.rate,
        jitter: from.jitter,
        packets: from.packets,
        seed: from.seed.unwrap_or(1),
        epoch_start: BEGAN,
        faults: faults(from.faults),
    };
    Emulator::new(&format.description, config)
        .map_err(|error| format!("source `{}`: {error}", source.name))
}

fn captured(source: &Source, format: &LoadedFormat) -> Result<SourceTruth, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("source `{}`: {error}", source.name);
    let pcap = source.pcap.as_ref().ok_or("no capture")?;
    let files = pcap.file.found(&source.name).map_err(|error| wrong(&error))?;
    let mut files = parts::by_first_frame(files).map_err(|error| wrong(&error))?;
    let first = files.drain(..1).next().ok_or("no capture")?;
    let mut reader = CaptureReader::open_parts(&first, files).map_err(|error| wrong(&error))?;
    reader.only_ports(&pcap.ports);
    let mut truth = SourceTruth { name: source.name.clone(), ..SourceTruth::default() };
    while let Some(datagram) = reader.next().map_err(|error| wrong(&error))? {
        truth.add(datagram.bytes, key_of(format, datagram.bytes), false);
    }
    for sent in truth.sent.values() {
        if let Some(key) = sent.key {
            *truth.made.entry(key).or_default() += 1;
        }
    }
    Ok(truth)
}

/// Writes the packets of an emulated source as a capture, all of them later by `late`.
///
/// # Errors
/// The file cannot be written, or the emulator is wrong.
pub fn write_capture(source: &Source, late: Span, path: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let format = load(source)?;
    let mut emulator = open(source, &format, |faults| faults)?;
    let file = BufWriter::new(File::create_new(path).map_err(wrong)?);
    let mut writer = CaptureWriter::new(file).map_err(wrong)?;
    let to = SocketAddr::from(([192, 0, 2, 255], 6006));
    while let Some(emission) = emulator.next() {
        let from = emulator::sender_address(Ipv4Addr::new(192, 0, 2, 1), emission.sender);
        let at = BEGAN + late + emission.at;
        writer.write(from, to, emission.bytes, at).map_err(wrong)?;
    }
    writer.finish().map(|_| ()).map_err(wrong)
}
