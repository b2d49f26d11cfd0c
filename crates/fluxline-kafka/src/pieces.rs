//! Cuts batches into records that brokers take: each a whole Arrow IPC stream with some events.
//!
//! The cuts depend on the batch and the largest record alone. So the records that a sink made and
//! those that are made from the files later are equal, byte for byte.

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::StreamEncoder;

/// One piece of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its number in the batch, from 0.
    pub number: u32,
    /// Number of events in it.
    pub events: u64,
    /// The stream; `None`: one event that is larger than the largest record.
    pub stream: Option<&'a [u8]>,
}

/// Makes the pieces of batches; its memory is reused.
#[derive(Debug)]
pub struct Pieces {
    encoder: StreamEncoder,
    bytes_max: usize,
    rows: EventBatch,
    stream: Vec<u8>,
}

/// The place of the next event in a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    packet: usize,
    byte: usize,
    missing: usize,
}

impl Pieces {
    /// Makes pieces of at most `bytes_max` for a run of this name and these descriptions.
    #[must_use]
    pub fn new(run: &str, formats: &[String], bytes_max: usize) -> Pieces {
        let encoder = StreamEncoder::new(run, formats);
        Pieces { encoder, bytes_max, rows: EventBatch::default(), stream: Vec::new() }
    }

    /// Calls `take` for each piece of batch `number`, in order.
    pub fn for_each(&mut self, number: u64, batch: &EventBatch, mut take: impl FnMut(Piece<'_>)) {
        let mut pieces = 0;
        let mut at = Cursor::default();
        self.rows.clear();
        for event in 0..batch.events.len() {
            let next = self.append(batch, event, at);
            let rows = &self.rows;
            if rows.events.len() > 1 && !self.fits(rows) {
                self.drop_last(batch, event, at);
                self.emit(number, &mut pieces, &mut take);
                self.append(batch, event, at);
            }
            at = next;
        }
        if !self.rows.is_empty() {
            self.emit(number, &mut pieces, &mut take);
        }
    }

    fn fits(&self, rows: &EventBatch) -> bool {
        let bytes = rows.bytes.len() + rows.missing.len();
        self.encoder.bytes_max(rows.events.len(), rows.packets.len(), bytes) <= self.bytes_max
    }

    /// Appends an event of `batch` to the rows; returns the place behind it.
    fn append(&mut self, batch: &EventBatch, event: usize, at: Cursor) -> Cursor {
        let row = batch.events[event];
        let packets = slice(&batch.packets, at.packet, row.packets as usize);
        let byte_count = packets.iter().map(|packet| packet.bytes as usize).sum();
        self.rows.events.push(row);
        self.rows.packets.extend_from_slice(packets);
        self.rows.bytes.extend_from_slice(slice(&batch.bytes, at.byte, byte_count));
        let missing = at.missing..at.missing + row.missing_bytes as usize;
        self.rows.missing.push_str(batch.missing.get(missing.clone()).unwrap_or_default());
        Cursor {
            packet: at.packet + packets.len(),
            byte: at.byte + byte_count,
            missing: missing.end,
        }
    }

    /// Removes the event that was appended last.
    fn drop_last(&mut self, batch: &EventBatch, event: usize, at: Cursor) {
        let row = batch.events[event];
        let packets = slice(&batch.packets, at.packet, row.packets as usize);
        let bytes: usize = packets.iter().map(|packet| packet.bytes as usize).sum();
        let rows = &mut self.rows;
        rows.events.pop();
        rows.packets.truncate(rows.packets.len() - packets.len());
        rows.bytes.truncate(rows.bytes.len() - bytes);
        rows.missing.truncate(rows.missing.len() - row.missing_bytes as usize);
    }

    fn emit(&mut self, number: u64, pieces: &mut u32, take: &mut impl FnMut(Piece<'_>)) {
        let events = self.rows.events.len() as u64;
        let encoded = self.encoder.encode(&self.rows, number, &mut self.stream);
        let is_sent = encoded.is_ok() && self.stream.len() <= self.bytes_max;
        let stream = is_sent.then_some(self.stream.as_slice());
        take(Piece { number: *pieces, events, stream });
        *pieces += 1;
        self.rows.clear();
    }
}

fn slice<T>(list: &[T], start: usize, count: usize) -> &[T] {
    list.get(start..start + count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxline_core::Moment;
    use fluxline_core::random::{Draw, test_seed};
    use fluxline_daq::event::{EventRow, EventStatus, PacketRow};

    fn batch(draw: &mut Draw, events: u64, bytes_max: u64) -> EventBatch {
        let mut batch = EventBatch::default();
        let time = Moment::from_ns(1);
        for key in 0..events {
            let packets = draw.below(4) as u32;
            let text = if draw.chance(0.3) { "é: lost" } else { "" };
            batch.missing.push_str(text);
            let row =
                EventRow { key: Some(key), status: EventStatus::Incomplete, ..EventRow::default() };
            batch.events.push(EventRow { packets, missing_bytes: text.len() as u32, ..row });
            for _ in 0..packets {
                let bytes = draw.below(bytes_max) as u32;
                batch.bytes.extend((0..bytes).map(|_| key as u8));
                let (sequence, sensor_time_ns) = (Some(key), None);
                let (source, packet_type, part, payload_start) = (0, 0, 0, 0);
                batch.packets.push(PacketRow {
                    source,
                    packet_type,
                    sequence,
                    time,
                    sensor_time_ns,
                    part,
                    payload_start,
                    payload_bytes: bytes,
                    bytes,
                });
            }
        }
        batch
    }

    #[test]
    fn pieces_fit_hold_every_event_once_and_are_the_same_each_time() {
        let mut draw = Draw::new(test_seed!(7));
        for _ in 0..30 {
            let batch = batch(&mut draw, 200, 3000);
            let mut events = 0;
            let mut refused = 0;
            let mut first = Vec::new();
            let mut pieces = Pieces::new("x", &["counter".to_owned()], 20_000);
            pieces.for_each(3, &batch, |piece| {
                assert_eq!(piece.number as usize, first.len());
                events += piece.events;
                refused += u64::from(piece.stream.is_none()) * piece.events;
                assert!(piece.stream.is_none_or(|stream| stream.len() <= 20_000));
                first.push(piece.stream.map(<[u8]>::to_vec));
            });
            assert_eq!(events, 200);
            assert!(refused == 0 && first.len() > 10, "{refused} of {}", first.len());
            let mut second = Vec::new();
            pieces.for_each(3, &batch, |piece| second.push(piece.stream.map(<[u8]>::to_vec)));
            assert_eq!(first, second);
        }
    }

    #[test]
    fn an_event_that_is_too_large_is_refused_alone() {
        let mut draw = Draw::new(1);
        let mut large = batch(&mut draw, 30, 100);
        let extra = 50_000;
        large.bytes.extend(vec![1; extra]);
        let mut last = large.packets.pop().expect("a packet");
        last.bytes += extra as u32;
        large.packets.push(last);
        let mut pieces = Pieces::new("x", &[], 20_000);
        let mut refused = Vec::new();
        pieces.for_each(0, &large, |piece| {
            if piece.stream.is_none() {
                refused.push(piece.events);
            }
        });
        assert_eq!(refused, [1]);
    }
}
