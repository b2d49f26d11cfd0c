//! One packet on its way into an event: its row, its cost in memory, and its comparison with stored
//! packets.

use fluxline_core::{Datagram, Moment};
use fluxline_packet::{Parsed, Part};

use super::batch::Alone;
use super::slab::{Fragment, OpenEvent};
use crate::event::PacketRow;
use crate::readout::Accepted;

/// One packet with everything known about it.
pub(super) struct Arrival<'a> {
    pub(super) accepted: &'a Accepted,
    pub(super) datagram: &'a Datagram<'a>,
    pub(super) parsed: &'a Parsed,
    /// True if every packet belongs to a stream, as in windows; its stated part is ignored.
    pub(super) stream: bool,
}

/// The most that a packet costs beyond its bytes \[byte\]: its row, and the tables of a fragment of
/// the usual size.
pub(super) const TABLES_BYTES_MAX: u64 = 16 << 10;

/// A fragment and its source's number \[byte\].
const FRAGMENT_BYTES: u64 = (size_of::<Fragment>() + size_of::<u32>()) as u64;

/// The comparison of a packet with stored ones that cover some of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// Bytes that both have are different.
    Different,
    /// The same part is stored already, with the same bytes.
    Repeated,
    /// Bytes that both have are equal.
    Agrees,
}

impl Arrival<'_> {
    /// Returns the packet for a row of its own.
    pub(super) fn alone(&self, built: Moment) -> Alone<'_> {
        let part = if self.stream { Part::Whole } else { self.parsed.part };
        Alone { row: self.row(), part, bytes: self.datagram.bytes, built }
    }

    /// Returns its row in a batch.
    pub(super) fn row(&self) -> PacketRow {
        PacketRow {
            source: self.accepted.source,
            packet_type: self.parsed.packet,
            sequence: self.accepted.sequence,
            time: self.datagram.time,
            sensor_time_ns: self.parsed.sensor_time_ns,
            part: self.part(),
            payload_start: self.parsed.payload_start,
            payload_bytes: self.parsed.payload_bytes,
            bytes: self.datagram.bytes.len() as u32,
        }
    }

    /// Returns its cost in memory in a row of its own \[byte\].
    pub(super) fn cost(&self) -> u64 {
        let range = match self.parsed.part {
            Part::Bytes { .. } => size_of::<(u64, u64)>() as u64,
            Part::Whole | Part::Index { .. } => 0,
        };
        (self.datagram.bytes.len() + size_of::<PacketRow>()) as u64 + range
    }

    /// Returns its cost in memory in an event, at the index of its fragment \[byte\]; `None`: it
    /// begins its fragment, with the tables of that.
    pub(super) fn cost_in(&self, fragment: Option<usize>) -> u64 {
        let tables = match (fragment, self.parsed.part) {
            (Some(_), _) => 0,
            (None, Part::Index { count, .. }) if !self.stream => {
                FRAGMENT_BYTES + u64::from(count.div_ceil(8))
            }
            (None, _) => FRAGMENT_BYTES,
        };
        self.cost() + tables
    }

    /// Compares its payload with the stored packets of its source in `event`.
    pub(super) fn compare(&self, event: &OpenEvent) -> Compared {
        let payload = self.payload();
        let start = self.part();
        let end = start + payload.len() as u64;
        for (row, stored) in event.payloads(self.accepted.source) {
            if row.part == start && stored.len() == payload.len() {
                return if stored == payload { Compared::Repeated } else { Compared::Different };
            }
            if !matches!(self.parsed.part, Part::Bytes { .. }) {
                if row.part == start {
                    return Compared::Different;
                }
                continue;
            }
            let (from, to) = (start.max(row.part), end.min(row.part + stored.len() as u64));
            if from < to {
                let ours = &payload[(from - start) as usize..(to - start) as usize];
                let theirs = &stored[(from - row.part) as usize..(to - row.part) as usize];
                if ours != theirs {
                    return Compared::Different;
                }
            }
        }
        Compared::Agrees
    }

    fn part(&self) -> u64 {
        match self.parsed.part {
            Part::Whole => 0,
            Part::Index { index, .. } => u64::from(index),
            Part::Bytes { offset, .. } => offset,
        }
    }

    fn payload(&self) -> &[u8] {
        let start = self.parsed.payload_start as usize;
        let end = start + self.parsed.payload_bytes as usize;
        self.datagram.bytes.get(start..end).unwrap_or_default()
    }
}
