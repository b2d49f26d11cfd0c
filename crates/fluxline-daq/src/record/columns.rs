//! Rows to columns: the body of a record batch message.
//!
//! Only the packets' bytes are many; they stay in place and are written from there. All other
//! columns, about 60 bytes per packet, are copied one after the other into one vector that is
//! reused. The packets' bytes are the table's last buffer, so the body is that vector, then the
//! bytes, then padding.

use arrow_ipc::{Buffer, FieldNode};
use fluxline_core::Moment;

use crate::event::{EventBatch, EventRow, PacketRow};

use super::schema::{BUFFERS, NODES};

/// Buffers start at multiples of this \[byte\]. Source: Arrow Columnar Format, "Buffer Alignment".
const ALIGNMENT: usize = 8;

/// Rows that go into one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub events: &'a [EventRow],
    pub packets: &'a [PacketRow],
    pub bytes: &'a [u8],
    pub missing: &'a str,
}

/// The reason why rows cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowFault {
    /// The rows contradict each other: a list is longer or shorter than they say.
    Inconsistent,
    /// One event alone is too large for a message.
    TooLarge,
}

/// Splits a batch so that no buffer of a message is longer than `limit` \[byte\].
///
/// One message is the rule: offsets are 32 bits, so the limit is 2 GiB. Calls `take` for each
/// piece in order and stops when that fails.
pub(super) fn for_each_piece<E: From<RowFault>>(
    batch: &EventBatch,
    limit: usize,
    mut take: impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    check_sums(batch)?;
    let mut from = Cut::default();
    let mut to = Cut::default();
    for row in &batch.events {
        let mut next = Cut { events: to.events + 1, ..to };
        next.packets += row.packets as usize;
        next.missing += row.missing_bytes as usize;
        let packets = &batch.packets[to.packets..next.packets];
        next.bytes += packets.iter().map(|packet| packet.bytes as usize).sum::<usize>();
        if from.span(next) > limit {
            if from.events == to.events {
                return Err(RowFault::TooLarge.into());
            }
            take(piece(batch, from, to)?)?;
            from = to;
            if from.span(next) > limit {
                return Err(RowFault::TooLarge.into());
            }
        }
        to = next;
    }
    if from.events < to.events { take(piece(batch, from, to)?) } else { Ok(()) }
}

/// A place between two events of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    events: usize,
    packets: usize,
    bytes: usize,
    missing: usize,
}

impl Cut {
    /// Returns the length of the longest buffer between here and `to` \[byte\], lists counted by
    /// their offsets.
    fn span(self, to: Cut) -> usize {
        (to.bytes - self.bytes)
            .max(to.missing - self.missing)
            .max((to.packets - self.packets) * size_of::<u64>())
            .max((to.events - self.events) * EVENT_BYTES_MAX)
    }
}

/// The most bytes of one event in any buffer but data and missing: its longest status.
const EVENT_BYTES_MAX: usize = 16;

fn piece(batch: &EventBatch, from: Cut, to: Cut) -> Result<Piece<'_>, RowFault> {
    Ok(Piece {
        events: &batch.events[from.events..to.events],
        packets: &batch.packets[from.packets..to.packets],
        bytes: &batch.bytes[from.bytes..to.bytes],
        missing: batch.missing.get(from.missing..to.missing).ok_or(RowFault::Inconsistent)?,
    })
}

fn check_sums(batch: &EventBatch) -> Result<(), RowFault> {
    let packets: usize = batch.events.iter().map(|row| row.packets as usize).sum();
    let missing: usize = batch.events.iter().map(|row| row.missing_bytes as usize).sum();
    let bytes: usize = batch.packets.iter().map(|row| row.bytes as usize).sum();
    let found = (batch.packets.len(), batch.missing.len(), batch.bytes.len());
    if (packets, missing, bytes) != found {
        return Err(RowFault::Inconsistent);
    }
    let mut end = 0;
    for row in &batch.events {
        end += row.missing_bytes as usize;
        if !batch.missing.is_char_boundary(end) {
            return Err(RowFault::Inconsistent);
        }
    }
    Ok(())
}

/// The columns of one message; reused, so that a run in steady state allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// All buffers but the last one, each padded.
    pub bytes: Vec<u8>,
    /// Length and null count of each column.
    pub nodes: Vec<FieldNode>,
    /// Place of each buffer in the body.
    pub buffers: Vec<Buffer>,
    /// Size of the body with the packets' bytes and padding \[byte\].
    pub body_bytes: usize,
}

impl Columns {
    /// Lays out the rows. Their sums must hold, and no buffer may exceed 2 GiB (`for_each_piece`).
    pub fn fill(&mut self, piece: &Piece<'_>) {
        self.bytes.clear();
        self.nodes.clear();
        self.buffers.clear();
        self.events(piece);
        self.packets(piece.packets);
        let (start, len) = (self.bytes.len(), piece.bytes.len());
        self.buffers.push(Buffer::new(start as i64, len as i64));
        self.body_bytes = (start + len).next_multiple_of(ALIGNMENT);
        debug_assert_eq!((self.nodes.len(), self.buffers.len()), (NODES, BUFFERS));
    }

    /// Returns the number of zeros behind the packets' bytes.
    pub fn padding(&self, piece: &Piece<'_>) -> usize {
        self.body_bytes - self.bytes.len() - piece.bytes.len()
    }

    fn events(&mut self, piece: &Piece<'_>) {
        let rows = piece.events;
        self.optional(rows, |row| row.key.map(u64::to_le_bytes));
        self.required(rows.len());
        self.values(rows, |row| row.generation.to_le_bytes());
        self.optional(rows, |row| row.source.map(u32::to_le_bytes));
        self.required(rows.len());
        self.offsets(rows.iter().map(|row| row.status.as_str().len()));
        let start = self.bytes.len();
        for row in rows {
            self.bytes.extend_from_slice(row.status.as_str().as_bytes());
        }
        self.close(start);
        self.required(rows.len());
        self.offsets(rows.iter().map(|row| row.missing_bytes as usize));
        let start = self.bytes.len();
        self.bytes.extend_from_slice(piece.missing.as_bytes());
        self.close(start);
        let times: [fn(&EventRow) -> Moment; 3] =
            [|row| row.first, |row| row.last, |row| row.built];
        for time in times {
            self.required(rows.len());
            self.values(rows, |row| time_ns(time(row)).to_le_bytes());
        }
        self.required(rows.len());
        self.offsets(rows.iter().map(|row| row.packets as usize));
        self.required(piece.packets.len());
    }

    fn packets(&mut self, rows: &[PacketRow]) {
        self.required(rows.len());
        self.values(rows, |row| row.source.to_le_bytes());
        self.required(rows.len());
        self.values(rows, |row| [row.packet_type]);
        self.optional(rows, |row| row.sequence.map(u64::to_le_bytes));
        self.required(rows.len());
        self.values(rows, |row| time_ns(row.time).to_le_bytes());
        self.optional(rows, |row| row.sensor_time_ns.map(u64::to_le_bytes));
        self.required(rows.len());
        self.values(rows, |row| row.part.to_le_bytes());
        self.required(rows.len());
        self.values(rows, |row| row.payload_start.to_le_bytes());
        self.required(rows.len());
        self.values(rows, |row| row.payload_bytes.to_le_bytes());
        self.required(rows.len());
        self.offsets(rows.iter().map(|row| row.bytes as usize));
    }

    /// Adds a column without absent values: its validity buffer is empty.
    fn required(&mut self, rows: usize) {
        self.nodes.push(FieldNode::new(rows as i64, 0));
        self.buffers.push(Buffer::new(self.bytes.len() as i64, 0));
    }

    /// Adds a column of numbers that may be absent; absent ones are 0 and have no bit.
    fn optional<R, const WIDTH: usize>(
        &mut self,
        rows: &[R],
        value: impl Fn(&R) -> Option<[u8; WIDTH]>,
    ) {
        let nulls = rows.iter().filter(|row| value(row).is_none()).count();
        if nulls == 0 {
            self.required(rows.len());
        } else {
            self.nodes.push(FieldNode::new(rows.len() as i64, nulls as i64));
            let start = self.bytes.len();
            for eight in rows.chunks(8) {
                let bit = |(at, row)| u8::from(value(row).is_some()) << at;
                self.bytes.push(eight.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit));
            }
            self.close(start);
        }
        self.values(rows, |row| value(row).unwrap_or([0; WIDTH]));
    }

    fn values<R, const WIDTH: usize>(&mut self, rows: &[R], value: impl Fn(&R) -> [u8; WIDTH]) {
        let start = self.bytes.len();
        self.bytes.resize(start + rows.len() * WIDTH, 0);
        for (place, row) in self.bytes[start..].chunks_exact_mut(WIDTH).zip(rows) {
            place.copy_from_slice(&value(row));
        }
        self.close(start);
    }

    fn offsets(&mut self, lengths: impl Iterator<Item = usize>) {
        let start = self.bytes.len();
        let mut offset = 0;
        self.bytes.extend_from_slice(&0u32.to_le_bytes());
        for length in lengths {
            offset += length as u32;
            self.bytes.extend_from_slice(&offset.to_le_bytes());
        }
        self.close(start);
    }

    /// Notes the buffer that began at `start` and pads it.
    fn close(&mut self, start: usize) {
        let end = self.bytes.len();
        self.buffers.push(Buffer::new(start as i64, (end - start) as i64));
        self.bytes.resize(end.next_multiple_of(ALIGNMENT), 0);
    }
}

/// Returns a time as Arrow has it, signed: moments beyond the year 2262 become its end.
fn time_ns(moment: Moment) -> i64 {
    i64::try_from(moment.as_ns()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventStatus;

    fn batch(sizes: &[u32]) -> EventBatch {
        let mut batch = EventBatch::default();
        let time = Moment::from_ns(0);
        for (number, bytes) in sizes.iter().enumerate() {
            let (key, status) = (Some(number as u64), EventStatus::Complete);
            let (first, last, built) = (time, time, time);
            batch.events.push(EventRow {
                key,
                status,
                first,
                last,
                built,
                packets: 1,
                missing_bytes: 2,
                ..EventRow::default()
            });
            batch.missing.push('é');
            batch.bytes.extend((0..*bytes).map(|_| number as u8));
            let (sequence, sensor_time_ns, part) = (None, None, 0);
            batch.packets.push(PacketRow {
                source: 0,
                packet_type: 0,
                sequence,
                time,
                sensor_time_ns,
                part,
                payload_start: 0,
                payload_bytes: *bytes,
                bytes: *bytes,
            });
        }
        batch
    }

    #[test]
    fn a_batch_beyond_the_limit_is_split_between_events() {
        let batch = batch(&[30, 40, 50, 64, 1, 2]);
        let mut joined = EventBatch::default();
        let mut sizes = Vec::new();
        let split = for_each_piece(&batch, 64, |piece| {
            sizes.push(piece.events.len());
            assert!(piece.bytes.len() <= 64);
            joined.events.extend_from_slice(piece.events);
            joined.packets.extend_from_slice(piece.packets);
            joined.bytes.extend_from_slice(piece.bytes);
            joined.missing.push_str(piece.missing);
            Ok::<(), RowFault>(())
        });
        assert_eq!(split, Ok(()));
        assert_eq!(joined, batch);
        assert_eq!(sizes, [1, 1, 1, 1, 2]);
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused() {
        let mut pieces = 0;
        let split = for_each_piece(&batch(&[10, 65, 10]), 64, |_| {
            pieces += 1;
            Ok::<(), RowFault>(())
        });
        assert_eq!((split, pieces), (Err(RowFault::TooLarge), 1));
    }
}
