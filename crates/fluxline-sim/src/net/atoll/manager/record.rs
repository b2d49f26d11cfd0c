//! The work of the management: counts, and a log of what happened when.

use super::letter::Notice;
use super::serial::Serial;
use crate::Instant;

/// The counts of the management since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Letters that left a chip, by link; each hop counts.
    pub letters: u64,
    /// Their bytes.
    pub letter_bytes: u64,
    /// Letters that were dropped: no signal at the port, or too many before it.
    pub letters_dropped: u64,
    /// Greetings among the letters.
    pub hellos: u64,
    /// Probes of managers.
    pub probes: u64,
    /// Questions of managers to agents, repetitions included.
    pub questions: u64,
    /// Tables that agents took.
    pub tables: u64,
    /// Messages that were repeated.
    pub repeated: u64,
    /// Messages that arrived again and were dropped.
    pub duplicates: u64,
    /// Messages with acknowledgements.
    pub acknowledgements: u64,
    /// Messages that ended at their sender without an acknowledgement.
    pub given_up: u64,
    /// Inputs that were blocked for too long: by a deadlock, or by other messages.
    pub alarms: u64,
    /// Messages that were removed from a blocked input.
    pub removed: u64,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time.
    pub at: Instant,
    /// The node of the manager.
    pub node: u32,
    /// The event.
    pub event: Event,
}

/// The manner of a change of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The first routes: none before.
    First,
    /// While messages flow: old and new routes together have no cycle.
    Running,
    /// After all senders had stopped and old messages had left the network.
    Stopped,
}

/// An event at a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A manager began to work: at the start, or because another one was silent.
    Began,
    /// A manager obeys a better one.
    StoodDown {
        /// The better one.
        chief: Serial,
    },
    /// The map is complete.
    Explored {
        /// Nodes that answered.
        nodes: u32,
        /// Links between them.
        links: u32,
        /// Probes that were sent.
        probes: u32,
    },
    /// A chip reported a change of its links.
    News(Notice),
    /// An agent did not answer.
    NoAnswer {
        /// The id of its node.
        id: u32,
    },
    /// Routes were computed.
    Planned {
        /// The algorithm.
        algorithm: &'static str,
        /// The cycle of channels in which messages can wait for each other, if there is one.
        cycle: Option<String>,
        /// The manner in which they replace the old ones.
        switch: Switch,
    },
    /// All old messages have left the network.
    Drained,
    /// Old messages stayed for too long; the new routes replace the old ones nevertheless.
    NotDrained,
    /// All agents have the new routes.
    Installed {
        /// The number of the set.
        epoch: u32,
        /// The manner.
        switch: Switch,
    },
    /// A defect: no routes could be computed.
    Defect(String),
}

/// Records that the log keeps. A choice: older ones are dropped.
const RECORDS_MAX: usize = 1 << 16;

/// The log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    records: std::collections::VecDeque<Record>,
}

impl Log {
    /// Adds a record.
    pub fn add(&mut self, record: Record) {
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// Returns the records, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }
}
