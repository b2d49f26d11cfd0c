//! The batch that closed events gather in until the recorder takes it.

use std::fmt::Write;

use fluxline_core::Moment;
use fluxline_packet::Part;
use serde::{Deserialize, Serialize};

use super::event_id::EventId;
use super::growth::make_room;
use super::slab::OpenEvent;
use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};

/// A batch that grows, and its age.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gathering {
    batch: EventBatch,
    begun: Option<Moment>,
}

/// An event that closes.
pub(super) struct ClosedEvent<'a> {
    pub(super) event: &'a OpenEvent,
    pub(super) key: u64,
    pub(super) status: EventStatus,
    pub(super) built: Moment,
    /// Length of the text about it that was appended to [`Gathering::missing`] \[byte\].
    pub(super) missing_bytes: u32,
}

/// A packet that has a row of its own.
pub(super) struct Alone<'a> {
    pub(super) row: PacketRow,
    pub(super) part: Part,
    pub(super) bytes: &'a [u8],
    pub(super) built: Moment,
}

/// A batch of this many packet rows is due, so that its offsets stay in 32 bits.
const PACKETS_MAX: usize = 1 << 20;

impl Gathering {
    /// Returns the number of packets.
    pub(super) fn packets(&self) -> u64 {
        self.batch.packets.len() as u64
    }

    /// Returns true when its tables fit each other, and its sources are below `sources`.
    pub(super) fn is_sound(&self, sources: u32) -> bool {
        let EventBatch { events, packets, bytes, missing } = &self.batch;
        let rows: u64 = events.iter().map(|row| u64::from(row.packets)).sum();
        let stored: u64 = packets.iter().map(|row| u64::from(row.bytes)).sum();
        let texts: u64 = events.iter().map(|row| u64::from(row.missing_bytes)).sum();
        (rows == packets.len() as u64 && stored == bytes.len() as u64)
            && texts == missing.len() as u64
            && self.begun.is_some() != events.is_empty()
            && packets.iter().all(|row| row.source < sources)
    }

    /// Adds an event. The text about its missing parts is already in [`Self::missing`].
    pub(super) fn add_event(&mut self, closed: ClosedEvent<'_>) {
        let ClosedEvent { event, key, status, built, missing_bytes } = closed;
        self.begun.get_or_insert(built);
        make_room(&mut self.batch.events, 1);
        self.batch.events.push(EventRow {
            key: Some(key),
            generation: event.id.position.generation,
            source: event.id.source(),
            status,
            first: event.first,
            last: event.last,
            built,
            packets: event.packets.len() as u32,
            missing_bytes,
        });
        make_room(&mut self.batch.packets, event.packets.len());
        self.batch.packets.extend_from_slice(&event.packets);
        make_room(&mut self.batch.bytes, event.bytes.len());
        self.batch.bytes.extend_from_slice(&event.bytes);
    }

    /// Adds a packet that is an event of its own.
    pub(super) fn add_packet(&mut self, packet: Alone<'_>) {
        let event = EventRow { source: Some(packet.row.source), ..EventRow::default() };
        self.add_alone(event, packet);
    }

    /// Adds a packet that came after its event `id` was closed; its text names the part that it is.
    pub(super) fn add_late(&mut self, id: EventId, key: u64, packet: Alone<'_>) {
        let before = self.batch.missing.len();
        // Writing into a String cannot fail.
        let _ = match packet.part {
            Part::Whole => Ok(()),
            Part::Index { index, count } => {
                write!(self.batch.missing, "packet {index} of {count}")
            }
            Part::Bytes { total, .. } if packet.row.payload_bytes == 0 => {
                write!(self.batch.missing, "no bytes of {total}")
            }
            Part::Bytes { offset, total } => {
                let last = offset + u64::from(packet.row.payload_bytes) - 1;
                write!(self.batch.missing, "bytes {offset}-{last} of {total}")
            }
        };
        let event = EventRow {
            key: Some(key),
            generation: id.position.generation,
            source: id.source(),
            status: EventStatus::Late,
            missing_bytes: (self.batch.missing.len() - before) as u32,
            ..EventRow::default()
        };
        self.add_alone(event, packet);
    }

    fn add_alone(&mut self, event: EventRow, Alone { row, bytes, built, .. }: Alone<'_>) {
        self.begun.get_or_insert(built);
        make_room(&mut self.batch.events, 1);
        self.batch.events.push(EventRow {
            first: row.time,
            last: row.time,
            built,
            packets: 1,
            ..event
        });
        make_room(&mut self.batch.packets, 1);
        self.batch.packets.push(row);
        make_room(&mut self.batch.bytes, bytes.len());
        self.batch.bytes.extend_from_slice(bytes);
    }

    /// Returns the batch so far.
    pub(super) fn batch(&self) -> &EventBatch {
        &self.batch
    }

    /// Returns the texts about incomplete events.
    pub(super) fn missing(&mut self) -> &mut String {
        &mut self.batch.missing
    }

    /// Returns the batch, and uses the memory of `spare` for the next one.
    pub(super) fn take(&mut self, mut spare: EventBatch) -> EventBatch {
        debug_assert!(self.is_sound(u32::MAX), "rows, bytes and texts of a batch fit each other");
        spare.clear();
        self.begun = None;
        core::mem::replace(&mut self.batch, spare)
    }

    /// Returns the time at which its first event was closed; `None` if it is empty.
    pub(super) fn begun(&self) -> Option<Moment> {
        self.begun
    }

    /// Returns true when it is as large as a batch should be.
    pub(super) fn is_large(&self, bytes: usize) -> bool {
        self.cost() >= bytes as u64 || self.batch.packets.len() >= PACKETS_MAX
    }

    /// Returns its memory \[byte\].
    pub(super) fn cost(&self) -> u64 {
        self.batch.cost()
    }
}
