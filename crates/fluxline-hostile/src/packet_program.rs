//! Arbitrary bytes against the program of every shipped format: nothing panics, and what is
//! accepted keeps its promises.

use std::sync::LazyLock;

use crate::shared::{datagram, formats};
use fluxline_packet::{Description, Part};

static FORMATS: LazyLock<Vec<Description>> = LazyLock::new(formats);

/// Any bytes as a packet of every shipped format.
pub fn packet_program(bytes: &[u8]) {
    for format in FORMATS.iter() {
        match format.program().parse(&datagram(bytes)) {
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
                let _ = format.source_label(&parsed.source, parsed.packet);
                let packet = &format.packet_types()[usize::from(parsed.packet)];
                let mut values = Vec::new();
                packet.decode_header(bytes, 0, &mut values);
                assert_eq!(values.len(), packet.columns().len());
                let payload = &bytes[parsed.payload_start as usize..end];
                let mut records = packet.records_in(payload);
                let mut before = records.remainder();
                while records.decode_next(&mut values) {
                    assert!(records.remainder() < before, "a record without bytes");
                    before = records.remainder();
                }
            }
            Err(reject) => {
                let _ = format.rule_name(reject);
            }
        }
    }
}
