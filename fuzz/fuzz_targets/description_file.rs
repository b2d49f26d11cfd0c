//! Arbitrary text as a description: an error in words or a program that survives any packet.
#![no_main]

use std::collections::BTreeMap;

use fluxline_proto::description::Description;
use fluxline_proto::{Datagram, Moment, SenderAddress};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(description) = Description::load("fuzz.toml", text, &BTreeMap::new()) else { return };
    let noise: Vec<u8> = (0..300u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for length in [0, 1, 7, 8, 16, 48, 300] {
        let datagram = Datagram {
            bytes: &noise[..length],
            sender: SenderAddress::NONE,
            port: 9,
            time: Moment::from_ns(0),
        };
        if let Ok(parsed) = description.program().parse(&datagram) {
            let _ = description.source_label(&parsed.source, parsed.packet);
        }
    }
});
