//! Records of the log: packets of one readout node for one partition, in the node's order.
//!
//! A record has a head, entries and a CRC-32C. Numbers of the head and times are little-endian;
//! other numbers take one byte for each 7 bits (LEB128), and numbers that are usually zero are
//! there only when they are not. The bytes may come from anybody: reading checks every length, and
//! a record of another program is not a record.

mod passed;
mod read;
mod write;

pub use passed::Passed;
pub use read::{Entries, read_record};
pub use write::RecordWriter;

use fluxline_core::Moment;
use fluxline_daq::readout::Accepted;
use fluxline_packet::Parsed;
use serde::{Deserialize, Serialize};

/// The first bytes of a record: its kind and the version of its layout.
const MAGIC: [u8; 4] = *b"FXL3";
const HEAD_BYTES: usize = 4 + 8 + 2 + 4 + 8 + 8 + 4 + 8 + 4 + 1;
const CRC_BYTES: usize = 4;

/// The kinds of entries.
const SOURCE: u8 = 1;
const PACKET: u8 = 2;
const PASSED: u8 = 3;
const INPUT_END: u8 = 4;

/// Bits of the kind of a record.
const END: u8 = 1;
const ABSENCE: u8 = 1 << 1;

/// Bits of the roles that are there.
mod flag {
    pub const EPOCH: u16 = 1;
    pub const SEQUENCE: u16 = 1 << 1;
    /// The packet's own counter is another number than the unwrapped one.
    pub const OWN_SEQUENCE: u16 = 1 << 2;
    pub const COUNTED: u16 = 1 << 3;
    pub const REORDERED: u16 = 1 << 4;
    pub const MISSING: u16 = 1 << 5;
    pub const RESTARTS: u16 = 1 << 6;
    pub const EVENT: u16 = 1 << 7;
    pub const SPILL: u16 = 1 << 8;
    pub const SENSOR_TIME: u16 = 1 << 9;
    pub const PART_INDEX: u16 = 1 << 10;
    pub const PART_BYTES: u16 = 1 << 11;
}

/// The head of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordHead {
    /// The run.
    pub run: u64,
    /// The readout node.
    pub node: u16,
    /// Number of starts of the node in this run before.
    pub start: u32,
    /// Number of the record among those of this node and start in the partition, from 0.
    pub sequence: u64,
    /// Number of packets in the records before this one, of this node and start in the partition.
    pub packets_before: u64,
    /// Number of packets in this record.
    pub packets: u32,
    /// The low-water mark: everything that the node received before is in this record or earlier.
    pub mark: Moment,
    /// Number of pauses and resumptions of the run that the node knew of: an odd number is a pause.
    pub changes: u32,
    /// True in the last record of the node.
    pub is_end: bool,
    /// True in a record that a builder wrote because the node died: `sequence` is the number of the
    /// record that the node would have sent next.
    pub is_absence: bool,
}

/// One entry of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<'a> {
    /// A source that later entries name.
    Source {
        /// Its number at the node.
        source: u32,
        /// Its input at the node.
        input: u16,
        /// Its label in reports.
        label: &'a str,
        /// Name of its packet description.
        format: &'a str,
    },
    /// A packet of this partition.
    Packet {
        /// The readout's findings.
        accepted: Accepted,
        /// The parsed roles.
        parsed: Parsed,
        /// Time of arrival.
        time: Moment,
        /// The whole packet.
        bytes: &'a [u8],
    },
    /// Packets of other partitions: consecutive ones of one source.
    Passed(Passed),
    /// An input has ended: it gives no more packets.
    InputEnd {
        /// Its number at the node.
        input: u16,
        /// Time of its end.
        time: Moment,
    },
}

impl Entry<'_> {
    /// Returns the time of its last packet or of the end; `None` for a source.
    #[must_use]
    pub fn time(&self) -> Option<Moment> {
        match self {
            Entry::Source { .. } => None,
            Entry::Packet { time, .. } | Entry::InputEnd { time, .. } => Some(*time),
            Entry::Passed(passed) => Some(passed.time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxline_core::SenderAddress;
    use fluxline_core::random::{Draw, test_count, test_seed};
    use fluxline_daq::readout::Counted;
    use fluxline_packet::{Part, SourceKey};

    fn number(draw: &mut Draw) -> u64 {
        let bits = draw.below(65);
        match bits {
            0 => 0,
            64 => u64::MAX - draw.below(3),
            _ => draw.below(1 << bits),
        }
    }

    fn some(draw: &mut Draw) -> Option<u64> {
        draw.chance(0.5).then(|| number(draw))
    }

    fn accepted(draw: &mut Draw) -> Accepted {
        let counted = Counted {
            class: draw.below(256) as u8,
            count: number(draw),
            missing: number(draw),
            reordered: draw.chance(0.5),
            restarts: number(draw) as u32,
        };
        Accepted {
            source: number(draw) as u32,
            input: 0,
            epoch: number(draw) as u32,
            sequence: some(draw),
            counted: draw.chance(0.5).then_some(counted),
            event_bits: draw.below(65) as u8,
            spill_bits: draw.below(65) as u8,
        }
    }

    fn parsed(draw: &mut Draw, bytes: u32, sequence: Option<u64>) -> Parsed {
        let payload_start = draw.below(u64::from(bytes) + 1) as u32;
        let count = (number(draw) as u32).max(1);
        let part = match draw.below(3) {
            0 => Part::Whole,
            1 => Part::Index { index: draw.below(count.into()) as u32, count },
            _ => Part::Bytes { offset: number(draw), total: number(draw) },
        };
        Parsed {
            step: None,
            counts: None,
            packet: draw.below(256) as u8,
            source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
            sequence: if draw.chance(0.5) { sequence } else { some(draw) },
            event: some(draw),
            spill: some(draw),
            part,
            sensor_time_ns: some(draw),
            payload_start,
            payload_bytes: draw.below(u64::from(bytes - payload_start) + 1) as u32,
        }
    }

    #[test]
    fn no_entry_is_read_as_another_one() {
        let mut draw = Draw::new(test_seed!(61));
        for _ in 0..test_count!(200) {
            let bytes: Vec<u8> = (0..draw.below(300)).map(|at| at as u8).collect();
            let mut entries = vec![Entry::Source {
                source: number(&mut draw) as u32,
                input: draw.below(1 << 16) as u16,
                label: "boards/é=2",
                format: "counter",
            }];
            for _ in 0..draw.below(8) {
                let time = Moment::from_ns(number(&mut draw));
                let accepted = accepted(&mut draw);
                let parsed = parsed(&mut draw, bytes.len() as u32, accepted.sequence);
                let (count, key_step) = (1 + draw.below(100) as u32, number(&mut draw));
                entries.push(match draw.below(5) {
                    0 => Entry::InputEnd { input: draw.below(1 << 16) as u16, time },
                    1 | 2 => Entry::Packet { accepted, parsed, time, bytes: &bytes },
                    _ => Entry::Passed(Passed { accepted, parsed, time, count, key_step }),
                });
            }
            let head = RecordHead {
                run: number(&mut draw),
                node: draw.below(1 << 16) as u16,
                start: number(&mut draw) as u32,
                sequence: number(&mut draw),
                packets_before: number(&mut draw),
                packets: number(&mut draw) as u32,
                mark: Moment::from_ns(number(&mut draw)),
                changes: number(&mut draw) as u32,
                is_end: draw.chance(0.5),
                is_absence: draw.chance(0.5),
            };
            let mut writer = RecordWriter::default();
            entries.iter().for_each(|entry| writer.add(entry));
            let size = writer.len();
            let record = writer.finish(&head);
            assert_eq!(record.len(), size);
            let (read_head, mut read) = read_record(&record).expect("a record");
            assert_eq!(read_head, head);
            assert_eq!(read.by_ref().collect::<Vec<_>>(), entries);
            assert!(read.is_at_end());
            for cut in 0..record.len() {
                assert!(read_record(&record[..cut]).is_none());
            }
        }
    }
}
