//! What the builder says of each source at the end: plain data for reports and run.json.

use serde::{Deserialize, Serialize};

/// Whether events wait for a source.
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
    /// It has missed so many events in a row that chance is excluded.
    Dead,
    /// Its input has ended.
    Ended,
}

/// Why a source is expected in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedBy {
    /// It joined by sending.
    #[default]
    Joining,
    /// The experiment names it.
    Name,
    /// It is one of so many that the experiment requires.
    Count,
    /// It is not: the experiment requires others by name.
    Nobody,
}

/// A key and its generation, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventKey {
    /// How often keys had counted anew before, or the spill number.
    pub generation: u32,
    /// The key, unwrapped.
    pub key: u64,
}

/// One source, as events saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSummary {
    /// What people call it.
    pub label: String,
    /// Its state at the end, before the end of the run closed what was open.
    pub state: SourceState,
    /// Why events wait for it.
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
    /// Events that lack it, for whatever reason; late fragments may fill them.
    pub missing: u64,
    /// Whether its keys are, at the end, in a generation that no other source is in.
    pub alone: bool,
}

/// A source was silent over some events, and its packet counter later proved that it had sent
/// nothing for them: they do not lack it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amendment {
    /// Number of the source.
    pub source: u32,
    /// The last event before the silence.
    pub after: EventKey,
    /// The first event after it.
    pub before: EventKey,
}
