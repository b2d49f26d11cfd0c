//! A log in memory with faults: a test says which.

use fluxline_kafka::build::{Checkpoint, Claim, Commit, Log, LogError, MemoryLog, Stored};

/// The fate of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and acknowledged.
    Done,
    /// It fails, and nothing is written.
    FailsBefore,
    /// It is done, and the writer sees a failure.
    FailsAfter,
    /// It is acknowledged, and nothing is written.
    Lost,
}

/// The faults of a log.
pub trait Faults {
    /// Returns the fate of a record.
    fn of_append(&mut self, _partition: u32, _bytes: &[u8]) -> Fate {
        Fate::Done
    }

    /// Returns the fate of a commit.
    fn of_commit(&mut self) -> Fate {
        Fate::Done
    }

    /// Returns the fate of a checkpoint.
    fn of_save(&mut self, _checkpoint: &Checkpoint) -> Fate {
        self.of_commit()
    }

    /// Returns the offset at which the run begins.
    fn beginning(&self) -> u64 {
        0
    }

    /// Changes what a new owner of a partition finds.
    fn of_claim(&mut self, _claim: &mut Claim) {}
}

/// A log in memory with these faults.
pub struct WrappedLog<F> {
    pub log: MemoryLog,
    pub faults: F,
}

fn with_fate(fate: Fate, write: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
    match fate {
        Fate::Done => write(),
        Fate::FailsBefore => Err(LogError::Away("before".to_owned())),
        Fate::FailsAfter => write().and(Err(LogError::Away("after".to_owned()))),
        Fate::Lost => Ok(()),
    }
}

impl<F: Faults> Log for WrappedLog<F> {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn beginning(&self, _partition: u32) -> u64 {
        self.faults.beginning()
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        let fate = self.faults.of_append(partition, bytes);
        with_fate(fate, || self.log.append(partition, bytes))
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.log.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        let mut claim = self.log.claim(partition, builder)?;
        self.faults.of_claim(&mut claim);
        Ok(claim)
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        with_fate(self.faults.of_commit(), || self.log.commit(claim, commit))
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        let fate = self.faults.of_save(checkpoint);
        with_fate(fate, || self.log.save(claim, checkpoint))
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.log.commits(partition)
    }
}
