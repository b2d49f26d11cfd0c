//! The things that somebody outside sees of a run: the newest block of each process, and the
//! commits.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::block::NodeBlock;
use crate::build::{Commit, SinkSums};

/// Time without a block, by the observer's clock, after which a node counts as dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(3);

/// Batches whose sums are kept for each partition: a builder's block is older than the newest
/// commit by fewer batches.
const SUMS_MAX: usize = 1 << 12;

/// The newest block of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The block.
    pub block: NodeBlock,
    /// Time since it came, by the observer's clock.
    pub quiet: Duration,
}

/// The sums over the first batches of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSums {
    /// Number of batches.
    pub batches: u64,
    /// Events and late fragments in them.
    pub events: u64,
    /// Packets in them.
    pub packets: u64,
    /// Events that are larger than a record may be: they are not in the topic of events.
    pub refused: u64,
    /// The events by their place in the topic of `[sink.kafka]`.
    pub sink: SinkSums,
    /// The records before this offset are covered.
    pub covers: u64,
}

/// The committed batches of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    total: BatchSums,
    recent: VecDeque<BatchSums>,
}

impl Committed {
    /// Adds the commit of the next batch. Returns false for one that does not fit: its number or
    /// its offset leaves something out.
    pub fn add(&mut self, commit: &Commit) -> bool {
        if commit.batch < self.total.batches {
            return true;
        }
        if commit.batch > self.total.batches || commit.covers < self.total.covers {
            return false;
        }
        self.recent.push_back(self.total);
        let mut sink = self.total.sink;
        sink.add(&commit.sink);
        if self.recent.len() > SUMS_MAX {
            self.recent.pop_front();
        }
        self.total = BatchSums {
            batches: self.total.batches + 1,
            events: self.total.events.saturating_add(commit.events),
            packets: self.total.packets.saturating_add(commit.packets),
            refused: self.total.refused.saturating_add(commit.refused),
            sink,
            covers: commit.covers,
        };
        true
    }

    /// Returns the sums over all batches.
    #[must_use]
    pub fn total(&self) -> BatchSums {
        self.total
    }

    /// Returns the sums over the first `batches`, or over all when there are fewer. `None`:
    /// the sums are forgotten, because too many batches followed.
    #[must_use]
    pub fn first(&self, batches: u64) -> Option<BatchSums> {
        if batches >= self.total.batches {
            return Some(self.total);
        }
        let back = (self.total.batches - batches) as usize;
        let place = self.recent.len().checked_sub(back)?;
        self.recent.get(place).copied()
    }
}

/// A run as seen from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The cluster's name.
    pub cluster: String,
    /// The run.
    pub run: u64,
    /// Number of partitions.
    pub partitions: u32,
    /// Names of the readout nodes, in the order of their numbers; empty: not known.
    pub readouts: Vec<String>,
    /// The newest block of each process.
    pub blocks: Vec<Seen>,
    /// The committed batches of each partition.
    pub commits: BTreeMap<u32, Committed>,
    /// Records in the topics of blocks and commits that are of somebody else.
    pub foreign: u64,
    /// An operator abandoned the run.
    pub abandoned: bool,
    /// An operator paused the run.
    pub paused: bool,
}

#[cfg(test)]
mod tests {
    use super::{Commit, Committed, SUMS_MAX, SinkSums};

    #[test]
    fn sums_of_first_batches_are_those_of_their_number() {
        let mut committed = Committed::default();
        let commit = |batch| Commit {
            partition: 0,
            batch,
            covers: batch.saturating_add(1),
            crc: 0,
            events: 1,
            packets: batch,
            refused: 0,
            sink: SinkSums::default(),
            builder: String::new(),
        };
        for batch in 0..2 * SUMS_MAX as u64 {
            assert!(committed.add(&commit(batch)));
        }
        let before = committed.clone();
        assert!(committed.add(&commit(7)), "a batch that is known");
        assert!(!committed.add(&commit(u64::MAX)), "a batch of the future");
        assert_eq!(committed, before);
        let all = committed.total().batches;
        assert_eq!(committed.first(all + 5), Some(committed.total()));
        assert_eq!(committed.first(all - 1).map(|sums| sums.events), Some(all - 1));
        let first = all - SUMS_MAX as u64;
        assert_eq!(committed.first(first).map(|sums| sums.batches), Some(first));
        assert_eq!(committed.first(first - 1), None, "forgotten");
    }
}
