//! Code that several targets share with the maker of their seeds.

use std::collections::BTreeMap;

use std::path::Path;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::emulator::{EmulatorConfig, Faults, Pattern};
use fluxline_packet::Description;
use fluxline_packet::shipped::{names, shipped};

/// The formats of the packets in a fuzzed run file, by number of their source: fixed records,
/// records with two layouts, records of varying length, CRC.
pub const RUN_FORMATS: [&str; 4] = ["counter", "srs-vmm3", "ess-readout", "spead"];

/// Every shipped format, first with its defaults, then with all parameters at their least: packets
/// whose size is a product of parameters are then short enough to be found by mutation.
///
/// # Panics
/// When a shipped format does not load.
#[must_use]
pub fn formats() -> Vec<Description> {
    let mut formats = Vec::new();
    for name in names() {
        let text = shipped(name).expect("a listed name");
        let load = |parameters| Description::load(name, text, &parameters).expect("a right format");
        let usual = load(BTreeMap::new());
        let parameters = &usual.document().parameters;
        let least: BTreeMap<_, _> =
            parameters.iter().map(|(name, of)| (name.clone(), of.min)).collect();
        if !least.is_empty() {
            formats.push(load(least));
        }
        formats.push(usual);
    }
    formats
}

/// A datagram from nobody, for a program.
#[must_use]
pub fn datagram(bytes: &[u8]) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 9, time: Moment::from_ns(0) }
}

/// A few packets of one type, the same each time; without a payload size, the description's.
#[must_use]
pub fn few_packets(packet: &str, payload_bytes: Option<u32>) -> EmulatorConfig {
    EmulatorConfig {
        sources: 2,
        packet: Some(packet.to_owned()),
        payload_bytes,
        pattern: Pattern::Counter,
        rate: 0.0,
        jitter: 0.0,
        packets: 3,
        seed: 7,
        epoch_start: Moment::from_ns(1_700_000_000_000_000_000),
        faults: Faults::default(),
    }
}

/// Memory, where there is such a folder: thousands of runs per second go through it.
///
/// # Errors
/// The host's.
pub fn scratch() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}
