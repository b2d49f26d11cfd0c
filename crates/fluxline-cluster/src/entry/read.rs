//! Reading of records, whose bytes may come from anybody.

use fluxline_core::{Moment, SenderAddress};
use fluxline_daq::readout::{Accepted, Counted};
use fluxline_packet::{Parsed, Part, SourceKey};

use super::{
    ABSENCE, CRC_BYTES, END, Entry, HEAD_BYTES, INPUT_END, MAGIC, PACKET, PASSED, Passed,
    RecordHead, SOURCE, flag,
};

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
    let mut head = RecordHead {
        run: rest.fixed()?,
        node: u16::from_le_bytes(rest.array()?),
        start: u32::from_le_bytes(rest.array()?),
        sequence: rest.fixed()?,
        packets_before: rest.fixed()?,
        packets: u32::from_le_bytes(rest.array()?),
        mark: Moment::from_ns(rest.fixed()?),
        changes: u32::from_le_bytes(rest.array()?),
        ..RecordHead::default()
    };
    let kind = rest.byte()?;
    (head.is_end, head.is_absence) = (kind & END != 0, kind & ABSENCE != 0);
    Some((head, rest))
}

/// The entries of a record. It ends early at an entry that cannot be read; [`Entries::is_at_end`]
/// shows that.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
}

/// Findings and roles of a packet.
struct Roles {
    accepted: Accepted,
    parsed: Parsed,
    time: Moment,
}

impl<'a> Entries<'a> {
    /// Returns the entries of a record that was read before, from the place that [`Entries::left`]
    /// had given.
    pub(crate) fn resume(record: &'a [u8], left: usize) -> Entries<'a> {
        let body = record.len().saturating_sub(CRC_BYTES);
        let at = body.saturating_sub(left).max(HEAD_BYTES);
        Entries { bytes: record.get(at..body).unwrap_or_default() }
    }

    /// Returns the length of the entries that were not read \[byte\].
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

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
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn fixed(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    /// Reads a number of 7 bits a byte; `None` for one that ends nowhere or has more than 64 bits.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn short(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.take(count)
    }

    /// Reads a number if its bit is set.
    fn optional(&mut self, is_there: bool) -> Option<Option<u64>> {
        if !is_there {
            return Some(None);
        }
        self.number().map(Some)
    }

    /// Reads a number if its bit is set; zero otherwise.
    fn short_or_zero(&mut self, is_there: bool) -> Option<u32> {
        if is_there { self.short() } else { Some(0) }
    }

    fn counted(&mut self, flags: u16) -> Option<Option<Counted>> {
        let has = |bit| flags & bit != 0;
        if !has(flag::COUNTED) {
            return Some(None);
        }
        Some(Some(Counted {
            class: self.byte()?,
            count: self.number()?,
            missing: self.optional(has(flag::MISSING))?.unwrap_or(0),
            reordered: has(flag::REORDERED),
            restarts: self.short_or_zero(has(flag::RESTARTS))?,
        }))
    }

    fn part(&mut self, flags: u16) -> Option<Part> {
        if flags & flag::PART_INDEX != 0 {
            let (index, count) = (self.short()?, self.short()?);
            return (index < count).then_some(Part::Index { index, count });
        }
        if flags & flag::PART_BYTES != 0 {
            return Some(Part::Bytes { offset: self.number()?, total: self.number()? });
        }
        Some(Part::Whole)
    }

    fn own_sequence(&mut self) -> Option<Option<u64>> {
        let (is_some, number) = (self.byte()? != 0, self.number()?);
        Some(is_some.then_some(number))
    }

    fn roles(&mut self) -> Option<Roles> {
        let flags = u16::from_le_bytes(self.array()?);
        let has = |bit| flags & bit != 0;
        let (source, epoch) = (self.short()?, self.short_or_zero(has(flag::EPOCH))?);
        let sequence = self.optional(has(flag::SEQUENCE))?;
        let own_sequence = match has(flag::OWN_SEQUENCE) {
            true => self.own_sequence()?,
            false => sequence,
        };
        let counted = self.counted(flags)?;
        let [event_bits, spill_bits, packet] = self.array()?;
        let input = 0;
        let accepted = Accepted { source, input, epoch, sequence, counted, event_bits, spill_bits };
        let parsed = Parsed {
            step: None,
            counts: None,
            packet,
            source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
            sequence: own_sequence,
            event: self.optional(has(flag::EVENT))?,
            spill: self.optional(has(flag::SPILL))?,
            sensor_time_ns: match has(flag::SENSOR_TIME) {
                true => Some(self.fixed()?),
                false => None,
            },
            part: self.part(flags)?,
            payload_start: self.short()?,
            payload_bytes: self.short()?,
        };
        Some(Roles { accepted, parsed, time: Moment::from_ns(self.fixed()?) })
    }

    fn source(&mut self) -> Option<Entry<'a>> {
        let (source, input) = (self.short()?, u16::try_from(self.number()?).ok()?);
        let label = std::str::from_utf8(self.long()?).ok()?;
        let format = std::str::from_utf8(self.long()?).ok()?;
        Some(Entry::Source { source, input, label, format })
    }

    fn packet(&mut self) -> Option<Entry<'a>> {
        let Roles { accepted, parsed, time } = self.roles()?;
        let bytes = self.long()?;
        let end = u64::from(parsed.payload_start) + u64::from(parsed.payload_bytes);
        let fits = end <= bytes.len() as u64;
        fits.then_some(Entry::Packet { accepted, parsed, time, bytes })
    }

    fn passed(&mut self) -> Option<Entry<'a>> {
        let Roles { accepted, parsed, time } = self.roles()?;
        let (count, key_step) = (self.short()?, self.number()?);
        let is_sound = (1..=Passed::COUNT_MAX).contains(&count);
        is_sound.then_some(Entry::Passed(Passed { accepted, parsed, time, count, key_step }))
    }

    fn input_end(&mut self) -> Option<Entry<'a>> {
        let input = u16::try_from(self.number()?).ok()?;
        Some(Entry::InputEnd { input, time: Moment::from_ns(self.fixed()?) })
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        match self.byte()? {
            SOURCE => self.source(),
            PACKET => self.packet(),
            PASSED => self.passed(),
            INPUT_END => self.input_end(),
            _ => None,
        }
    }
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
