//! Arbitrary text as a description: an error in words, or a program that survives any packet, its
//! own emulator's among them, and whatever else is made from the one file.

use std::collections::BTreeMap;

use crate::shared::{datagram, few_packets};
use fluxline_daq::emulator::Emulator;
use fluxline_packet::Description;
use fluxline_packet::diagram::Diagram;
use fluxline_packet::numpy::dtypes;
use fluxline_packet::wireshark::dissector;

fn read(description: &Description, bytes: &[u8]) {
    if let Ok(parsed) = description.program().parse(&datagram(bytes)) {
        let end = parsed.payload_start as usize + parsed.payload_bytes as usize;
        assert!(end <= bytes.len());
        let _ = description.source_label(&parsed.source, parsed.packet);
    }
    for packet in description.packet_types() {
        let mut values = Vec::new();
        packet.decode_header(bytes, 9, &mut values);
        let _ = packet.locate(bytes, 9);
        let mut records = packet.records_in(bytes);
        while records.decode_next(&mut values) {}
    }
}

/// Any text as a packet description.
pub fn description_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(description) = Description::load("fuzz.toml", text, &BTreeMap::new()) else { return };
    let noise: Vec<u8> =
        (0..300u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for length in [0, 1, 7, 8, 16, 48, 300] {
        read(&description, &noise[..length]);
    }
    let _ = Diagram::of(&description);
    let _ = dtypes(&description);
    let _ = dissector(&description, 6006);
    for packet in description.packet_types() {
        let config = few_packets(&packet.name, Some(40));
        let Ok(mut emulator) = Emulator::new(&description, config) else { continue };
        let mut sent = 0;
        while let Some(emission) = emulator.next() {
            read(&description, emission.bytes);
            sent += 1;
        }
        assert!(sent >= 6, "two sources of three packets sent {sent}");
    }
}
