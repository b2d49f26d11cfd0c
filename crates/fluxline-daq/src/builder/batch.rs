//! The batch that closed events gather in until the recorder takes it.

use fluxline_proto::Moment;

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
        self.batch.packets.extend_from_slice(&event.packets);
        self.batch.bytes.extend_from_slice(&event.bytes);
    }

    /// Adds a packet that is an event of its own.
    pub(super) fn add_packet(&mut self, packet: Alone<'_>) {
        let event = EventRow { source: Some(packet.row.source), ..EventRow::default() };
        self.add_alone(event, packet);
    }

    /// Adds a packet that came after its event `id` was closed.
    pub(super) fn add_late(&mut self, id: EventId, key: u64, packet: Alone<'_>) {
        let event = EventRow {
            key: Some(key),
            generation: id.position.generation,
            source: id.source(),
            status: EventStatus::Late,
            ..EventRow::default()
        };
        self.add_alone(event, packet);
    }

    fn add_alone(&mut self, event: EventRow, Alone { row, bytes, built }: Alone<'_>) {
        self.begun.get_or_insert(built);
        self.batch.events.push(EventRow {
            first: row.time,
            last: row.time,
            built,
            packets: 1,
            ..event
        });
        self.batch.packets.push(row);
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
        self.batch.bytes.len() >= bytes || self.batch.packets.len() >= PACKETS_MAX
    }

    /// What it takes \[byte\].
    pub(super) fn cost(&self) -> u64 {
        let rows = self.batch.packets.len() * size_of::<PacketRow>()
            + self.batch.events.len() * size_of::<EventRow>();
        (self.batch.bytes.len() + self.batch.missing.len() + rows) as u64
    }
}
