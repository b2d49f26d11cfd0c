//! Batches that are written and not yet committed.
//!
//! A commit takes a transaction of some ten milliseconds. Batches that are ready meanwhile are
//! committed together, so a builder that is behind catches up at the speed of its disk.

use std::time::{Duration, Instant};

use super::log::Ready;

/// Largest number of batches of a group.
const BATCHES_MAX: usize = 256;
/// Bytes of packets at which a group is committed.
const BYTES_MAX: usize = 4 << 20;
/// Age at which a group is committed although more records are here.
const AGE_MAX: Duration = Duration::from_millis(200);

/// Batches of a partition that become valid together.
#[derive(Default)]
pub(super) struct CommitGroup {
    batches: Vec<Ready>,
    /// Bytes of their packets.
    bytes: usize,
    /// Time at which the first of them was added.
    since: Option<Instant>,
}

impl CommitGroup {
    /// Adds a batch whose packets have this many bytes.
    pub(super) fn push(&mut self, batch: Ready, bytes: usize) {
        self.since.get_or_insert_with(Instant::now);
        self.bytes += bytes;
        self.batches.push(batch);
    }

    /// Takes all batches.
    pub(super) fn take(&mut self) -> Vec<Ready> {
        std::mem::take(self).batches
    }

    /// Returns the number of batches that wait.
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Returns true when the group is committed without a look for more records.
    pub(super) fn is_due(&self) -> bool {
        self.batches.len() >= BATCHES_MAX
            || self.bytes >= BYTES_MAX
            || self.since.is_some_and(|since| since.elapsed() >= AGE_MAX)
    }
}
