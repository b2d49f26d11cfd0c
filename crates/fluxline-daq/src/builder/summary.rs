//! Summary of each source at the end of a run: plain data for reports and run.json.

use serde::{Deserialize, Serialize};

/// The state of a source, which decides whether events wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// It has sent nothing.
    #[default]
    Unseen,
    /// It sends: events from its first one on wait for it.
    Live,
    /// An event waited for it in vain, and it is still silent: events wait only for stragglers.
    Idle,
    /// It has missed too many events in a row for chance.
    Dead,
    /// Its input has ended.
    Ended,
}

/// The reason why a source is expected in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedBy {
    /// It joined by sending.
    #[default]
    Joining,
    /// The experiment names it.
    Name,
    /// The experiment requires a number of sources, and it is one of them.
    Count,
    /// It is not expected: the experiment requires others by name.
    Nobody,
}

/// A key and its generation, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventKey {
    /// Number of times that keys began anew before, or the spill number.
    pub generation: u32,
    /// The key, unwrapped.
    pub key: u64,
}

/// The summary of one source in the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSummary {
    /// Its label in reports.
    pub label: String,
    /// Its state at the end, before the end of the run closed open events.
    pub state: SourceState,
    /// The reason why events wait for it.
    pub expected_by: ExpectedBy,
    /// The first event that it is expected in.
    pub first: Option<EventKey>,
    /// The last event that it sent something for.
    pub last: Option<EventKey>,
    /// Fragments: events that it sent something for.
    pub fragments: u64,
    /// Fragments that were in their event when it was closed.
    pub on_time: u64,
    /// Packets that came after their event was closed.
    pub late: u64,
    /// Events for which it provably sent nothing.
    pub proven_absent: u64,
    /// Events that lack it because packets of it were lost.
    pub lost: u64,
    /// Events that lack it, for any reason; late fragments may fill them.
    pub missing: u64,
    /// At the end, no other source is in the generation of its keys.
    pub alone: bool,
}

impl SourceSummary {
    /// Adds the summary of the same source by another builder, which built other events.
    pub fn merge(&mut self, other: SourceSummary) {
        if self.label.is_empty() {
            *self = other;
            return;
        }
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
        self.fragments += other.fragments;
        self.on_time += other.on_time;
        self.late += other.late;
        self.proven_absent += other.proven_absent;
        self.lost += other.lost;
        self.missing += other.missing;
        self.alone &= other.alone;
    }
}

/// A finding about a source in a range of events after these were closed: its packet
/// counter proved that it had sent nothing for them, or that packets of it are lost there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amendment {
    /// Number of the source.
    pub source: u32,
    /// The last event before the range.
    pub after: EventKey,
    /// The first event after it.
    pub before: EventKey,
    /// True if packets are lost: events of the range lack the source, unless they have its packets.
    /// False if it sent nothing more: they do not lack it.
    pub lost: bool,
}
