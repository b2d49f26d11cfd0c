//! Batches of events, column by column: the event builder fills them and the recorder writes them.
//!
//! One batch is one unit of safety on disk. Rows lie in plain vectors that are reused, so that a
//! run in steady state allocates nothing per event.

use fluxline_core::Moment;

/// Events that are recorded together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// One row per event.
    pub events: Vec<EventRow>,
    /// One row per packet; the packets of an event are neighbours, events in the order of `events`.
    pub packets: Vec<PacketRow>,
    /// The packets' bytes (whole UDP payloads), in the order of `packets`.
    pub bytes: Vec<u8>,
    /// The missing parts of incomplete events, in words; `EventRow::missing_bytes` is the length of
    /// each event's text, in order.
    pub missing: String,
}

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRow {
    /// The key that joined its packets, unwrapped to 64 bits; `None`: a packet on its own.
    pub key: Option<u64>,
    /// Number of times that keys began anew before; keys are unique within a generation.
    pub generation: u32,
    /// The only source whose packets it may hold; `None`: all sources share its key.
    pub source: Option<u32>,
    /// Its status: complete, or the reason why not.
    pub status: EventStatus,
    /// Time of arrival of its first packet.
    pub first: Moment,
    /// Time of arrival of its last packet.
    pub last: Moment,
    /// Time at which it was closed.
    pub built: Moment,
    /// Number of rows of `packets` that belong to it.
    pub packets: u32,
    /// Number of bytes of `missing` that belong to it.
    pub missing_bytes: u32,
}

/// The status of an event: complete, or the reason why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventStatus {
    /// Nothing that was sent for it is known to be missing.
    #[default]
    Complete,
    /// It was closed although something is missing; `missing` names it.
    Incomplete,
    /// The run was stopped first.
    Stopped,
    /// No event: packets that came after their event was closed. They have the event's key and
    /// generation.
    Late,
}

impl EventStatus {
    /// All statuses.
    pub const ALL: [EventStatus; 4] =
        [EventStatus::Complete, EventStatus::Incomplete, EventStatus::Stopped, EventStatus::Late];

    /// Returns the word in files and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EventStatus::Complete => "complete",
            EventStatus::Incomplete => "incomplete",
            EventStatus::Stopped => "stopped",
            EventStatus::Late => "late",
        }
    }
}

/// One packet of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRow {
    /// The source's number in the run's table of sources.
    pub source: u32,
    /// The packet type's number in the source's description.
    pub packet_type: u8,
    /// The packet counter, unwrapped to 64 bits.
    pub sequence: Option<u64>,
    /// Time of arrival.
    pub time: Moment,
    /// The sensor's time \[ns since its epoch\].
    pub sensor_time_ns: Option<u64>,
    /// Packet index or byte offset within its source's fragment of the event; 0 for a whole one.
    pub part: u64,
    /// Start of the payload in the packet \[byte\].
    pub payload_start: u32,
    /// Length of the payload \[byte\].
    pub payload_bytes: u32,
    /// Number of bytes of `EventBatch::bytes` that are the packet's.
    pub bytes: u32,
}

impl EventBatch {
    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.packets.clear();
        self.bytes.clear();
        self.missing.clear();
    }

    /// Returns the memory of its rows, bytes and texts \[byte\].
    #[must_use]
    pub fn cost(&self) -> u64 {
        let rows =
            self.packets.len() * size_of::<PacketRow>() + self.events.len() * size_of::<EventRow>();
        (self.bytes.len() + self.missing.len() + rows) as u64
    }

    /// Removes all rows, and keeps the memory unless that is more than `bytes`.
    pub fn clear_to(&mut self, bytes: u64) {
        self.clear();
        let rows = self.packets.capacity() * size_of::<PacketRow>()
            + self.events.capacity() * size_of::<EventRow>();
        if (self.bytes.capacity() + self.missing.capacity() + rows) as u64 > bytes {
            *self = EventBatch::default();
        }
    }

    /// Returns true when it has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
