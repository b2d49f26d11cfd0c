//! The batch that closed events gather in until the recorder takes it.

use std::fmt::Write;

use fluxline_core::Moment;
use fluxline_packet::Part;

use super::growth::make_room;
use super::keys::EventId;
use super::slab::OpenEvent;
use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};

/// A batch in the making, and its age.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathering {
    batch: EventBatch,
    begun: Option<Moment>,
}

/// A packet that has a row of its own.
pub(super) struct Alone<'a> {
    pub(super) row: PacketRow,
    pub(super) part: Part,
    pub(super) bytes: &'a [u8],
    pub(super) built: Moment,
}

/// Rows from which on a batch is due, so that its offsets stay in 32 bits.
const PACKETS_MAX: usize = 1 << 20;

impl Gathering {
    /// Adds an event; what it lacks was appended to [`Self::missing`] already.
    pub(super) fn add_event(
        &mut self,
        event: &OpenEvent,
        key: u64,
        status: EventStatus,
        (built, missing_bytes): (Moment, u32),
    ) {
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

    /// Adds a packet that came after its event `id` was closed; its text says which part it is.
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

    /// Where texts about incomplete events gather.
    pub(super) fn missing(&mut self) -> &mut String {
        &mut self.batch.missing
    }

    /// Hands the batch out and goes on with the memory of `spare`.
    pub(super) fn take(&mut self, mut spare: EventBatch) -> EventBatch {
        spare.clear();
        self.begun = None;
        core::mem::replace(&mut self.batch, spare)
    }

    /// When its first event was closed; `None`: it is empty.
    pub(super) fn begun(&self) -> Option<Moment> {
        self.begun
    }

    /// Whether it is as large as a batch should get.
    pub(super) fn is_large(&self, bytes: usize) -> bool {
        self.cost() >= bytes as u64 || self.batch.packets.len() >= PACKETS_MAX
    }

    /// What it takes \[byte\].
    pub(super) fn cost(&self) -> u64 {
        self.batch.cost()
    }
}
