//! Arbitrary bytes against the program of every shipped format: nothing panics, and what is
//! accepted keeps its promises.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fluxline_proto::description::{Description, Part};
use fluxline_proto::{Datagram, Moment, SenderAddress};
use libfuzzer_sys::fuzz_target;

static FORMATS: LazyLock<Vec<Description>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats");
    let mut formats = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of shipped formats").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a format file");
        let name = entry.file_name().to_string_lossy().into_owned();
        formats.push(Description::load(&name, &text, &BTreeMap::new()).expect("a right format"));
    }
    formats
});

fuzz_target!(|bytes: &[u8]| {
    let datagram =
        Datagram { bytes, sender: SenderAddress::NONE, port: 0, time: Moment::from_ns(0) };
    for format in FORMATS.iter() {
        match format.program().parse(&datagram) {
            Ok(parsed) => {
                let end = parsed.payload_start as usize + parsed.payload_bytes as usize;
                assert!(end <= bytes.len());
                match parsed.part {
                    Part::Whole => {}
                    Part::Index { index, count } => assert!(index < count),
                    Part::Bytes { offset, total } => {
                        assert!(offset + u64::from(parsed.payload_bytes) <= total);
                    }
                }
                let packet = &format.packet_types()[usize::from(parsed.packet)];
                let mut values = Vec::new();
                packet.decode_header(bytes, 0, &mut values);
                let payload = &bytes[parsed.payload_start as usize..end];
                let mut records = packet.records_in(payload);
                while records.decode_next(&mut values) {}
            }
            Err(reject) => {
                let _ = format.rule_name(reject);
            }
        }
    }
});
