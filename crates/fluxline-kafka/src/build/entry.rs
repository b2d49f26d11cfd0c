//! Records of the log: packets of one readout node for one partition, in the node's order.
//!
//! A record has a head, entries and a CRC-32C. All numbers are little-endian. The bytes may come
//! from anybody: reading checks every length, and a record of another program is not a record.

use fluxline_core::{Moment, SenderAddress};
use fluxline_daq::readout::{Accepted, Counted};
use fluxline_packet::{Parsed, Part, SourceKey};

/// The first bytes of a record: its kind and the version of its layout.
const MAGIC: [u8; 4] = *b"FXL2";
const HEAD_BYTES: usize = 4 + 8 + 2 + 4 + 8 + 8 + 8 + 4 + 1;
const CRC_BYTES: usize = 4;

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// True in the last record of the node.
    pub is_end: bool,
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
}

/// Consecutive packets of one source that other partitions have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passed {
    /// The readout's findings about the first one.
    pub accepted: Accepted,
    /// The roles of the first one.
    pub parsed: Parsed,
    /// Time of arrival of the last one.
    pub time: Moment,
    /// Number of packets.
    pub count: u32,
    /// Step from key to key.
    pub key_step: u64,
}

impl Passed {
    /// Appends a packet if it follows the last one: the next number, and a key one step further.
    pub fn extend(&mut self, accepted: &Accepted, parsed: &Parsed, time: Moment) -> bool {
        let (Some(first), Some(next)) = (self.accepted.counted, accepted.counted) else {
            return false;
        };
        let (Some(key), Some(next_key)) = (self.parsed.event, parsed.event) else { return false };
        let count = u64::from(self.count);
        let step = match self.count {
            1 => next_key.wrapping_sub(key),
            _ => self.key_step,
        };
        let follows = next.class == first.class
            && next.restarts == first.restarts
            && next.count == first.count.wrapping_add(count)
            && next.missing == 0
            && !next.reordered
            && step <= u64::from(u32::MAX)
            && next_key == key.wrapping_add(step.wrapping_mul(count))
            && parsed.spill == self.parsed.spill
            && accepted.event_bits == self.accepted.event_bits
            && self.count < PASSED_MAX;
        if follows {
            self.key_step = step;
            self.count += 1;
            self.time = self.time.max(time);
        }
        follows
    }

    /// Calls `each` for every packet, with its findings and roles.
    pub fn for_each(&self, mut each: impl FnMut(&Accepted, &Parsed)) {
        let (mut accepted, mut parsed) = (self.accepted, self.parsed);
        for at in 0..self.count {
            if at > 0 {
                parsed.event = parsed.event.map(|key| key.wrapping_add(self.key_step));
                accepted.counted = accepted.counted.map(|counted| Counted {
                    count: counted.count.wrapping_add(1),
                    missing: 0,
                    ..counted
                });
            }
            each(&accepted, &parsed);
        }
    }
}

/// Most packets of one [`Passed`], so that no record keeps a builder busy for long.
const PASSED_MAX: u32 = 1 << 16;

const SOURCE: u8 = 1;
const PACKET: u8 = 2;
const PASSED: u8 = 3;

/// Writes records; the memory is reused.
#[derive(Debug, Default)]
pub struct RecordWriter {
    bytes: Vec<u8>,
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

    /// Adds an entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEAD_BYTES, 0);
        }
        match entry {
            Entry::Source { source, input, label, format } => {
                self.put(&[SOURCE]);
                self.put(&source.to_le_bytes());
                self.put(&input.to_le_bytes());
                self.put_long(label.as_bytes());
                self.put_long(format.as_bytes());
            }
            Entry::Packet { accepted, parsed, time, bytes } => {
                self.put(&[PACKET]);
                self.put_roles(accepted, parsed, *time);
                self.put_long(bytes);
            }
            Entry::Passed(passed) => {
                self.put(&[PASSED]);
                self.put_roles(&passed.accepted, &passed.parsed, passed.time);
                self.put(&passed.count.to_le_bytes());
                self.put(&passed.key_step.to_le_bytes());
            }
        }
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
        start.push(u8::from(head.is_end));
        bytes[..HEAD_BYTES].copy_from_slice(&start);
        let crc = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn put_long(&mut self, bytes: &[u8]) {
        self.put(&(bytes.len() as u32).to_le_bytes());
        self.put(bytes);
    }

    fn put_optional(&mut self, value: Option<u64>) {
        self.put(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            self.put(&value.to_le_bytes());
        }
    }

    fn put_roles(&mut self, accepted: &Accepted, parsed: &Parsed, time: Moment) {
        self.put(&accepted.source.to_le_bytes());
        self.put(&accepted.epoch.to_le_bytes());
        self.put_optional(accepted.sequence);
        self.put(&[u8::from(accepted.counted.is_some())]);
        if let Some(counted) = accepted.counted {
            self.put(&[counted.class, u8::from(counted.reordered)]);
            self.put(&counted.count.to_le_bytes());
            self.put(&counted.missing.to_le_bytes());
            self.put(&counted.restarts.to_le_bytes());
        }
        self.put(&[accepted.event_bits, accepted.spill_bits, parsed.packet]);
        self.put_optional(parsed.sequence);
        self.put_optional(parsed.event);
        self.put_optional(parsed.spill);
        self.put_optional(parsed.sensor_time_ns);
        match parsed.part {
            Part::Whole => self.put(&[0]),
            Part::Index { index, count } => {
                self.put(&[1]);
                self.put(&u64::from(index).to_le_bytes());
                self.put(&u64::from(count).to_le_bytes());
            }
            Part::Bytes { offset, total } => {
                self.put(&[2]);
                self.put(&offset.to_le_bytes());
                self.put(&total.to_le_bytes());
            }
        }
        self.put(&parsed.payload_start.to_le_bytes());
        self.put(&parsed.payload_bytes.to_le_bytes());
        self.put(&time.as_ns().to_le_bytes());
    }
}

/// Reads the head of a record and its entries. Returns `None` for a record of another program, of
/// another version, or with a wrong check sum.
#[must_use]
pub fn read_record(bytes: &[u8]) -> Option<(RecordHead, Entries<'_>)> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    if body.len() < HEAD_BYTES || body[..4] != MAGIC {
        return None;
    }
    if crc_fast::crc32_iscsi(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut rest = Entries { bytes: &body[4..] };
    let head = RecordHead {
        run: rest.u64()?,
        node: u16::from_le_bytes(rest.array()?),
        start: rest.u32()?,
        sequence: rest.u64()?,
        packets_before: rest.u64()?,
        packets: rest.u32()?,
        mark: Moment::from_ns(rest.u64()?),
        is_end: rest.byte()? != 0,
    };
    Some((head, rest))
}

/// The entries of a record. It ends early at an entry that cannot be read; [`Entries::is_at_end`]
/// shows that.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Returns true when all entries were read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    fn optional(&mut self) -> Option<Option<u64>> {
        match self.byte()? {
            0 => Some(None),
            _ => self.u64().map(Some),
        }
    }

    fn counted(&mut self) -> Option<Option<Counted>> {
        if self.byte()? == 0 {
            return Some(None);
        }
        let (class, reordered) = (self.byte()?, self.byte()? != 0);
        let (count, missing, restarts) = (self.u64()?, self.u64()?, self.u32()?);
        Some(Some(Counted { class, count, missing, reordered, restarts }))
    }

    fn part(&mut self) -> Option<Part> {
        Some(match self.byte()? {
            0 => Part::Whole,
            1 => {
                let (index, count) = (self.u64()?, self.u64()?);
                let (index, count) = (u32::try_from(index).ok()?, u32::try_from(count).ok()?);
                Part::Index { index, count }
            }
            _ => Part::Bytes { offset: self.u64()?, total: self.u64()? },
        })
    }

    fn roles(&mut self) -> Option<Roles> {
        let (source, epoch, sequence) = (self.u32()?, self.u32()?, self.optional()?);
        let counted = self.counted()?;
        let (event_bits, spill_bits, packet) = (self.byte()?, self.byte()?, self.byte()?);
        let input = 0;
        let accepted = Accepted { source, input, epoch, sequence, counted, event_bits, spill_bits };
        let parsed = Parsed {
            packet,
            source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
            sequence: self.optional()?,
            event: self.optional()?,
            spill: self.optional()?,
            sensor_time_ns: self.optional()?,
            part: self.part()?,
            payload_start: self.u32()?,
            payload_bytes: self.u32()?,
        };
        Some(Roles { accepted, parsed, time: Moment::from_ns(self.u64()?) })
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        match self.byte()? {
            SOURCE => {
                let (source, input) = (self.u32()?, u16::from_le_bytes(self.array()?));
                let label = std::str::from_utf8(self.long()?).ok()?;
                let format = std::str::from_utf8(self.long()?).ok()?;
                Some(Entry::Source { source, input, label, format })
            }
            PACKET => {
                let Roles { accepted, parsed, time } = self.roles()?;
                let bytes = self.long()?;
                let end = u64::from(parsed.payload_start) + u64::from(parsed.payload_bytes);
                let fits = end <= bytes.len() as u64;
                fits.then_some(Entry::Packet { accepted, parsed, time, bytes })
            }
            PASSED => {
                let Roles { accepted, parsed, time } = self.roles()?;
                let (count, key_step) = (self.u32()?, self.u64()?);
                (1..=PASSED_MAX).contains(&count).then_some(Entry::Passed(Passed {
                    accepted,
                    parsed,
                    time,
                    count,
                    key_step,
                }))
            }
            _ => None,
        }
    }
}

struct Roles {
    accepted: Accepted,
    parsed: Parsed,
    time: Moment,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let before = self.bytes;
        if before.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.bytes = before;
        }
        entry
    }
}
