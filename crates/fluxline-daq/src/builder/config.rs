//! What the event builder is told: how packets join, when events close, how much may be open.

use fluxline_proto::Span;

/// How packets become events, when events close, and the bounds of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuilderConfig {
    /// What makes packets one event.
    pub mode: Mode,
    /// Which sources an event must have; counts in [`Scope::Global`] and windows only.
    pub expectation: Expectation,
    /// An event closes so long after its first packet, whatever is missing.
    pub time_out: Span,
    /// So long an event waits for optional sources after everything required came.
    pub optional_wait: Span,
    /// How many events may be open.
    pub events_open_max: u32,
    /// What becomes of packets that come after their event was closed.
    pub late: Late,
    /// How much the packets of open events and of the batch not yet taken may take, rows and tables
    /// included \[byte\]. Vectors grow by doubling, so up to twice as much may be allocated.
    pub bytes_open_max: u64,
    /// How many packets an event may have; also the largest count that a fragment may announce.
    pub packets_per_event_max: u32,
    /// So many closed keys are remembered, of all sources together; packets of older ones are late
    /// even if they came before. Keys should grow, as counters and time stamps do.
    pub closed_keys_max: u32,
    /// A batch is due when it has so many bytes of packets.
    pub batch_bytes: usize,
    /// A batch is due when its first event is so old.
    pub batch_age: Span,
}

impl Default for BuilderConfig {
    fn default() -> BuilderConfig {
        BuilderConfig {
            mode: Mode::Packet,
            expectation: Expectation::Joined,
            late: Late::Record,
            time_out: Span::from_ms(1000),
            optional_wait: Span::ZERO,
            events_open_max: 4096,
            bytes_open_max: 256 << 20,
            packets_per_event_max: 1 << 16,
            closed_keys_max: 1 << 16,
            batch_bytes: 4 << 20,
            batch_age: Span::from_ms(200),
        }
    }
}

/// What makes packets one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each packet is an event.
    Packet,
    /// The event key; a packet without one is an event of its own.
    Key(Scope),
    /// A window of time.
    Window {
        /// How long a window is.
        width: Span,
        /// How long after a window's end its packets are waited for.
        lateness: Span,
        /// By whose clock.
        clock: WindowClock,
    },
}

/// Whose keys are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Packets of all sources with one key are one event, with one fragment per source.
    Global,
    /// Each source has its own keys: an event is one fragment.
    PerSource,
}

/// By whose clock windows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowClock {
    /// When packets arrived.
    Arrival,
    /// The sensor's time; packets without one are events of their own.
    Sensor,
}

/// Which sources an event must have to be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// So many, whichever they are.
    Count(u32),
    /// Those with these labels; others are optional.
    Sources(Vec<String>),
    /// All that sent anything before the event began. A source that appears joins.
    Joined,
}

/// What becomes of packets that come after their event was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// They are recorded in rows of their own, with the event's key and generation.
    Record,
    /// They are dropped and counted.
    Drop,
}

/// Where the builder put a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    /// Into an event; it will come out in a batch.
    Stored,
    /// Into a row of its own, as late: its event is closed. It will come out in a batch.
    Late,
    /// Nowhere: its event is closed, and [`Late::Drop`] was asked for.
    LateDropped,
    /// Nowhere: its part of the event is there already.
    EventDuplicate,
    /// Nowhere: it contradicts the other packets of its fragment.
    Inconsistent,
    /// Nowhere: there is no room.
    BuilderFull,
}
