//! The rule by which a builder saves checkpoints of its partition.

use fluxline_core::{Moment, Span};

pub use fluxline_cluster::checkpoint::{CHECKPOINT_BYTES_MAX, Checkpoint, Refused, VERSION};

/// The rule by which a builder saves checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Bytes of records after which one is due, at the next committed batch.
    pub bytes: u64,
    /// It is due only after this many times its own size in records, so that it costs little.
    pub times_its_size: u64,
    /// Age of the last one, by the marks in the records, at which one is due in any case.
    pub age: Span,
}

impl Default for CheckpointPolicy {
    fn default() -> CheckpointPolicy {
        CheckpointPolicy { bytes: 512 << 20, times_its_size: 64, age: Span::from_ms(20_000) }
    }
}

/// Most times that the wait for the next checkpoint is doubled: from 20 s to 243 days.
const DOUBLED_MAX: u32 = 20;

impl CheckpointPolicy {
    /// Returns the rule after this many checkpoints that could not be saved, one after the other.
    /// Each doubles what must pass before the next one, so that builders get on with the batches.
    pub(super) fn put_off(self, failed: u32) -> CheckpointPolicy {
        let times = 1 << failed.min(DOUBLED_MAX);
        CheckpointPolicy {
            bytes: self.bytes.saturating_mul(times),
            times_its_size: self.times_its_size,
            age: Span::from_ns(self.age.as_ns().saturating_mul(times)),
        }
    }
}

/// The progress of a builder since its last checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceCheckpoint {
    /// Bytes of records.
    bytes: u64,
    /// Size of the last one.
    size: u64,
    /// The mark at the last one.
    mark: Moment,
}

impl SinceCheckpoint {
    /// Begins after a checkpoint of `size` bytes at `mark`.
    pub(super) fn begin(size: usize, mark: Moment) -> SinceCheckpoint {
        SinceCheckpoint { bytes: 0, size: size as u64, mark }
    }

    /// Notes a record; returns true when a checkpoint is due behind it.
    pub(super) fn is_due(
        &mut self,
        policy: CheckpointPolicy,
        record_bytes: usize,
        mark: Moment,
        has_batch: bool,
    ) -> bool {
        self.bytes += record_bytes as u64;
        if self.mark == Moment::default() {
            self.mark = mark;
        }
        let enough = policy.bytes.max(self.size.saturating_mul(policy.times_its_size));
        (has_batch && self.bytes >= enough) || mark.since(self.mark) >= policy.age
    }
}
