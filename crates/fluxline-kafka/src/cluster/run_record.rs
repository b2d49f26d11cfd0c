//! A run of a cluster, as the control topic has it.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Begin;

/// Most pauses and resumptions of a run.
const PAUSES_MAX: usize = 10_000;

/// A run of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// Its beginning.
    pub begin: Begin,
    /// The brokers' time of its beginning \[ms since 1970\].
    pub began_ms: i64,
    /// Its readout nodes.
    pub readouts: BTreeMap<String, RunReadout>,
    /// An operator or a node asked its readout nodes to finish.
    pub stopped: bool,
    /// Times of pauses and resumptions in turn, by the operators' clocks \[ns since 1970\].
    pub pauses: Vec<u64>,
    /// The message of the start is in the topic of `[sink.kafka]`.
    pub has_start: bool,
    /// The message of the stop is there.
    pub has_stop: bool,
    /// The shot number.
    pub shot: Option<u64>,
    /// The operators' notes: time and text.
    pub notes: Vec<(u64, String)>,
    /// Partitions whose batches are all committed.
    pub built: BTreeSet<u32>,
    /// An operator abandoned it: it ends, although partitions are not built.
    pub abandoned: bool,
}

/// A readout node in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReadout {
    /// The process that reads out.
    pub incarnation: u64,
    /// Number of starts of the node in the run before this one.
    pub start: u32,
    /// The process has finished, or an operator has ended the node.
    pub ended: bool,
}

impl RunRecord {
    /// Returns the run's number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.begin.run
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.begin.fragments.len() as u32
    }

    /// Returns true when all batches of all partitions are committed, or the run was abandoned.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.abandoned || self.built.len() == self.begin.fragments.len()
    }

    /// Returns true while the builders count events and record none.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pauses.len() % 2 == 1
    }

    /// Returns the run's state in a word.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.is_over(), self.stopped, self.is_paused()) {
            (true, ..) => "ended",
            (_, true, _) => "stopping",
            (_, _, true) => "paused",
            (_, _, false) => "running",
        }
    }

    /// Pauses or resumes the run; false when it is so already, or the run is being stopped.
    pub(super) fn change(&mut self, to_paused: bool, at_ns: u64) -> bool {
        let fits = !self.stopped && self.is_paused() != to_paused && self.pauses.len() < PAUSES_MAX;
        if fits {
            self.pauses.push(at_ns);
        }
        fits
    }

    /// Returns the number of a readout node in records.
    #[must_use]
    pub fn number_of(&self, node: &str) -> Option<u16> {
        let place = self.begin.readouts.iter().position(|name| name == node)?;
        u16::try_from(place).ok()
    }
}
