//! Configuration of the event builder: how packets join, when events close, how many may be open.

use fluxline_core::Span;
use serde::{Deserialize, Serialize};

use super::growth::with_growth;

/// The rule by which packets become events, the times at which events close, and the limits of
/// memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuilderConfig {
    /// The rule by which packets belong to one event.
    pub mode: Mode,
    /// The sources that an event must have; applies to [`Scope::Global`] and windows only.
    #[serde(with = "SavedExpectation")]
    pub expectation: Expectation,
    /// Time for which a source may be silent before events go on without it.
    pub time_out: Span,
    /// Time for which events wait for a source that sends and lags.
    pub lag_max: Span,
    /// Time by which packets may come out of order. It is raised when packets come later, up to
    /// half the time-out.
    pub lateness: Span,
    /// Time after a source joined during which events wait a lateness for others that may join.
    /// Zero where all sources come in order of time, as from files.
    pub settling: Span,
    /// The fate of packets that come after their event was closed.
    pub late: Late,
    /// Limit of open events; at three quarters of it, the oldest event is closed. 0: follows from
    /// `bytes_open_max`.
    pub events_open_max: u32,
    /// Limit of memory for the packets of open events and of the batch not yet taken, rows and
    /// tables included \[byte\]. When open events take half of it, the oldest is closed. The
    /// allocated memory is at most [`Self::memory_bytes_max`].
    pub bytes_open_max: u64,
    /// Most packets of an event; also the largest count that a fragment may announce.
    pub packets_per_event_max: u32,
    /// Closed keys that are remembered, of all sources together. Packets of older keys are late
    /// even if they came before.
    pub closed_keys_max: u32,
    /// Size of packets at which a batch is due \[byte\].
    pub batch_bytes: usize,
    /// Age of its first event at which a batch is due.
    pub batch_age: Span,
}

/// Memory for each open event where their number is not given \[byte\].
const BYTES_PER_EVENT: u64 = 4096;

impl BuilderConfig {
    /// Returns the most events that may be open.
    pub(super) fn events_max(&self) -> u64 {
        match self.events_open_max {
            0 => (self.bytes_open_max / BYTES_PER_EVENT).max(4),
            events => u64::from(events),
        }
    }

    /// Returns the most memory that a builder allocates \[byte\]: events in vectors that grow by a
    /// quarter, a slot for each open event, and the tables of open and closed keys.
    #[must_use]
    pub fn memory_bytes_max(&self) -> u64 {
        /// A slot in a vector that doubles, and its place in the table of keys.
        const OPEN_BYTES: u64 = 640;
        /// A place in the table of keys and in the ring of closed events.
        const CLOSED_BYTES: u64 = 160;
        /// The sets of sources of closed events, while they are widened.
        const SETS_BYTES: u64 = 16 << 20;
        with_growth(self.bytes_open_max)
            + self.events_max() * OPEN_BYTES
            + u64::from(self.closed_keys_max) * CLOSED_BYTES
            + SETS_BYTES
    }
}

impl Default for BuilderConfig {
    fn default() -> BuilderConfig {
        BuilderConfig {
            mode: Mode::Packet,
            expectation: Expectation::Joined,
            time_out: Span::from_ms(500),
            lag_max: Span::from_ms(10_000),
            lateness: Span::from_ms(10),
            settling: Span::from_ms(2000),
            late: Late::Record,
            events_open_max: 0,
            bytes_open_max: 256 << 20,
            packets_per_event_max: 1 << 16,
            closed_keys_max: 1 << 16,
            batch_bytes: 4 << 20,
            batch_age: Span::from_ms(200),
        }
    }
}

/// The rule by which packets belong to one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Each packet is an event.
    Packet,
    /// Packets of one event key are an event; a packet without a key is an event of its own.
    Key(Scope),
    /// Packets of one window of time are an event.
    Window {
        /// Length of a window.
        width: Span,
        /// Time after a window's end for which its packets are waited for.
        lateness: Span,
        /// The clock of the windows.
        clock: WindowClock,
    },
}

/// The sources whose keys mean the same event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Packets of all sources with one key are one event, with one fragment per source.
    Global,
    /// Each source has its own keys: an event is one fragment.
    PerSource,
}

/// The clock that cuts windows.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WindowClock {
    /// The time at which packets arrived.
    Arrival,
    /// The sensor's time; packets without one are events of their own.
    Sensor,
}

/// The sources that an event must have to be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// This many sources, any of them.
    Count(u32),
    /// The sources with these labels. Others are waited for while they send, and are not missed.
    Sources(Vec<String>),
    /// All sources that have sent anything so far; a new source joins.
    Joined,
}

/// The expectation in a saved state; experiments write it in words.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Expectation")]
pub(super) enum SavedExpectation {
    Count(u32),
    Sources(Vec<String>),
    Joined,
}

/// The fate of late fragments: packets whose event was closed before they came.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// They are recorded in rows of their own, with the event's key and generation.
    Record,
    /// They are dropped and counted.
    Drop,
}

impl Expectation {
    /// Returns the expectation of a number of sources; 0 stands for all that join.
    #[must_use]
    pub fn of_count(sources: u32) -> Expectation {
        match sources {
            0 => Expectation::Joined,
            sources => Expectation::Count(sources),
        }
    }
}

/// The place into which the builder put a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    /// Into an event; it will come out in a batch.
    Stored,
    /// Into a row of its own, as late: its event is closed. It will come out in a batch.
    Late,
    /// Dropped: its event is closed, and [`Late::Drop`] is configured.
    LateDropped,
    /// Dropped: the event already has its part.
    EventDuplicate,
    /// Dropped: it contradicts the other packets of its fragment.
    Inconsistent,
    /// Dropped: there is no room.
    BuilderFull,
}
