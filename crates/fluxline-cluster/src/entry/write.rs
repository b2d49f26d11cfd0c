//! Writing of records.

use fluxline_core::Moment;
use fluxline_daq::readout::Accepted;
use fluxline_packet::{Parsed, Part};

use super::{
    ABSENCE, CRC_BYTES, END, Entry, HEAD_BYTES, INPUT_END, MAGIC, PACKET, PASSED, RecordHead,
    SOURCE, flag,
};

/// Writes records; the memory of earlier ones can be used again.
#[derive(Debug, Default)]
pub struct RecordWriter {
    bytes: Vec<u8>,
}

/// Longest entry without the packet, its label and its format \[byte\].
const NUMBERS_BYTES: usize = 192;

/// The numbers of an entry, gathered so that the record grows once for all of them.
struct Numbers {
    bytes: [u8; NUMBERS_BYTES],
    used: usize,
}

impl RecordWriter {
    /// Returns true when no entry was added since the last record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= HEAD_BYTES
    }

    /// Returns the size of the record so far \[byte\].
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len().max(HEAD_BYTES) + CRC_BYTES
    }

    /// Uses the memory of an old record for the next one, if that has not begun.
    pub fn reuse(&mut self, mut memory: Vec<u8>) {
        if self.bytes.capacity() == 0 {
            memory.clear();
            self.bytes = memory;
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEAD_BYTES, 0);
        }
        let mut numbers = Numbers::new();
        match entry {
            Entry::Source { source, input, label, format } => {
                numbers.byte(SOURCE);
                numbers.number((*source).into());
                numbers.number((*input).into());
                numbers.number(label.len() as u64);
                self.put(&numbers, label.as_bytes());
                let mut numbers = Numbers::new();
                numbers.number(format.len() as u64);
                self.put(&numbers, format.as_bytes());
            }
            Entry::Packet { accepted, parsed, time, bytes } => {
                numbers.byte(PACKET);
                numbers.roles(accepted, parsed, *time);
                numbers.number(bytes.len() as u64);
                self.put(&numbers, bytes);
            }
            Entry::Passed(passed) => {
                numbers.byte(PASSED);
                numbers.roles(&passed.accepted, &passed.parsed, passed.time);
                numbers.number(passed.count.into());
                numbers.number(passed.key_step);
                self.put(&numbers, &[]);
            }
            Entry::InputEnd { input, time } => {
                numbers.byte(INPUT_END);
                numbers.number((*input).into());
                numbers.fixed(time.as_ns());
                self.put(&numbers, &[]);
            }
        }
    }

    fn put(&mut self, numbers: &Numbers, bytes: &[u8]) {
        self.bytes.reserve(numbers.used + bytes.len() + CRC_BYTES);
        self.bytes.extend_from_slice(&numbers.bytes[..numbers.used]);
        self.bytes.extend_from_slice(bytes);
    }

    /// Completes the record; the next entry begins another one.
    pub fn finish(&mut self, head: &RecordHead) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().max(HEAD_BYTES), 0);
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut start = Vec::with_capacity(HEAD_BYTES);
        start.extend_from_slice(&MAGIC);
        start.extend_from_slice(&head.run.to_le_bytes());
        start.extend_from_slice(&head.node.to_le_bytes());
        start.extend_from_slice(&head.start.to_le_bytes());
        start.extend_from_slice(&head.sequence.to_le_bytes());
        start.extend_from_slice(&head.packets_before.to_le_bytes());
        start.extend_from_slice(&head.packets.to_le_bytes());
        start.extend_from_slice(&head.mark.as_ns().to_le_bytes());
        start.extend_from_slice(&head.changes.to_le_bytes());
        let kind = |is_it, bit| if is_it { bit } else { 0 };
        start.push(kind(head.is_end, END) | kind(head.is_absence, ABSENCE));
        bytes[..HEAD_BYTES].copy_from_slice(&start);
        let crc = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }
}

impl Numbers {
    fn new() -> Numbers {
        Numbers { bytes: [0; NUMBERS_BYTES], used: 0 }
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[self.used] = byte;
        self.used += 1;
    }

    fn fixed(&mut self, value: u64) {
        self.bytes[self.used..self.used + 8].copy_from_slice(&value.to_le_bytes());
        self.used += 8;
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Adds a number if it is there and returns its bit.
    fn optional(&mut self, value: Option<u64>, bit: u16) -> u16 {
        value.map_or(0, |value| {
            self.number(value);
            bit
        })
    }

    /// Adds a number if it is not zero and returns its bit.
    fn unless_zero(&mut self, value: u64, bit: u16) -> u16 {
        self.optional((value != 0).then_some(value), bit)
    }

    fn roles(&mut self, accepted: &Accepted, parsed: &Parsed, time: Moment) {
        let flags_at = self.used;
        self.used += 2;
        self.number(accepted.source.into());
        let mut flags = self.unless_zero(accepted.epoch.into(), flag::EPOCH);
        flags |= self.optional(accepted.sequence, flag::SEQUENCE);
        if parsed.sequence != accepted.sequence {
            flags |= flag::OWN_SEQUENCE;
            self.byte(u8::from(parsed.sequence.is_some()));
            self.number(parsed.sequence.unwrap_or(0));
        }
        if let Some(counted) = accepted.counted {
            flags |= flag::COUNTED;
            flags |= if counted.reordered { flag::REORDERED } else { 0 };
            self.byte(counted.class);
            self.number(counted.count);
            flags |= self.unless_zero(counted.missing, flag::MISSING);
            flags |= self.unless_zero(counted.restarts.into(), flag::RESTARTS);
        }
        [accepted.event_bits, accepted.spill_bits, parsed.packet]
            .into_iter()
            .for_each(|byte| self.byte(byte));
        flags |= self.optional(parsed.event, flag::EVENT);
        flags |= self.optional(parsed.spill, flag::SPILL);
        if let Some(time) = parsed.sensor_time_ns {
            flags |= flag::SENSOR_TIME;
            self.fixed(time);
        }
        flags |= self.part(parsed.part);
        self.number(parsed.payload_start.into());
        self.number(parsed.payload_bytes.into());
        self.fixed(time.as_ns());
        self.bytes[flags_at..flags_at + 2].copy_from_slice(&flags.to_le_bytes());
    }

    fn part(&mut self, part: Part) -> u16 {
        let (first, second, bit) = match part {
            Part::Whole => return 0,
            Part::Index { index, count } => (index.into(), count.into(), flag::PART_INDEX),
            Part::Bytes { offset, total } => (offset, total, flag::PART_BYTES),
        };
        self.number(first);
        self.number(second);
        bit
    }
}
