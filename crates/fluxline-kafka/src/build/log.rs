//! The log between readout nodes and builders, and one in memory for tests.
//!
//! A log has partitions; each keeps its records in order under numbers without gaps, the offsets.
//! Beside the records, it keeps for each partition which builder owns it and what that builder has
//! committed. A builder that lost a partition cannot commit any more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_cluster::ReadoutNode;

use super::checkpoint::Checkpoint;
use super::sink_sums::SinkSums;
use crate::changed::PartitionsChanged;
use crate::cut::ContentType;

/// The reason why the log did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Another builder owns the partition now.
    #[error("partition {partition} belongs to another builder now; this one stops writing it")]
    Fenced {
        /// The partition.
        partition: u32,
    },
    /// Records were removed before they were read.
    #[error(
        "partition {partition}: the records before offset {first} are gone, by the topic's \
        retention; {missing} records of this run are lost; raise retention.ms"
    )]
    Hole {
        /// The partition.
        partition: u32,
        /// The first offset that is there.
        first: u64,
        /// Records that are missing.
        missing: u64,
    },
    /// Commits of the run were removed.
    #[error(
        "partition {partition}: the commits before offset {first} of topic `{topic}` are gone, by \
        retention or deleted records, so nobody knows which batches the run has; let the topic \
        keep its records (retention.ms=-1)"
    )]
    CommitsGone {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The first offset that is there.
        first: u64,
    },
    /// The number of partitions is another one than at the beginning of the run.
    #[error("{0}")]
    PartitionsChanged(#[from] PartitionsChanged),
    /// Two different commits of one batch are in the log.
    #[error(
        "partition {partition}: the log has two different commits of batch {batch}: another \
        program writes to the topic of commits; let only builders write to it, and start a new run"
    )]
    Contradicts {
        /// The partition.
        partition: u32,
        /// The batch.
        batch: u64,
    },
    /// The brokers refuse every commit of this builder; the sentence has the remedy.
    #[error("{0}")]
    Refused(String),
    /// The log is away for now.
    #[error("the log cannot be reached ({0}); check the brokers")]
    Away(String),
}

/// A record as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number in the partition.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// A batch that a builder has made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The partition.
    pub partition: u32,
    /// Number of the batch in the partition, from 0.
    pub batch: u64,
    /// The records before this offset are covered: their events that closed are in this batch or in
    /// earlier ones.
    pub covers: u64,
    /// Check sum of the batch and its number ([`fluxline_daq::record::BatchDigest`]).
    pub crc: u32,
    /// Number of its events.
    pub events: u64,
    /// Number of its packets.
    pub packets: u64,
    /// Events that are larger than a record may be: they are not in the topic of events.
    pub refused: u64,
    /// The events by their place in the topic of `[sink.kafka]`; zeros without it.
    pub sink: SinkSums,
    /// The builder that has it.
    pub builder: String,
}

/// The topic of a record with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordTopic {
    /// `NAME.events`.
    Events,
    /// The topic of `[sink.kafka]`.
    Sink,
}

/// A record with events, which becomes visible together with a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its topic.
    pub topic: RecordTopic,
    /// Its key.
    pub key: String,
    /// The form of its value.
    pub content: ContentType,
    /// Number of events in it.
    pub events: u64,
    /// Its value.
    pub value: Vec<u8>,
}

/// A batch that is ready to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its commit.
    pub commit: Commit,
    /// Its records for the topic of events.
    pub records: Vec<EventRecord>,
}

/// The right to commit batches of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The partition.
    pub partition: u32,
    /// Number of claims of the partition so far; a later claim ends this one.
    pub epoch: u64,
    /// The newest two checkpoints that are complete, the newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The batches that are committed, in order: all behind the older checkpoint, and perhaps some
    /// before it. Without a checkpoint, all of the run ([`Log::commits`]).
    pub committed: Vec<Commit>,
}

/// A log with partitions.
pub trait Log {
    /// Returns the number of partitions.
    fn partitions(&self) -> u32;

    /// Returns the offset at which the run begins in a partition.
    fn beginning(&self, _partition: u32) -> u64 {
        0
    }

    /// Appends a record. After an error the record may be there or not: append it again, readers
    /// take it once.
    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError>;

    /// Returns the record at `offset` or the first one behind; `None`: there is none yet.
    ///
    /// Errors: [`LogError::Hole`] when the record at `offset` was removed.
    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError>;

    /// Returns the record at `offset`, which was read before.
    ///
    /// Errors: as [`Log::read`].
    fn read_again(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.read(partition, offset)
    }

    /// Returns the record at `offset` or the first one behind, if it is here without a wait.
    ///
    /// Errors: as [`Log::read`].
    fn read_at_once(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.read(partition, offset)
    }

    /// Takes a partition; the builder that had it before can commit no more.
    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError>;

    /// Commits batches that follow each other, each together with records of its events: readers
    /// see all records of a batch, or none. After an error, the first few batches may be committed.
    ///
    /// Errors: [`LogError::Fenced`] when the claim has ended; nothing is committed then.
    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError>;

    /// Keeps a checkpoint by a claim, and the one before it.
    ///
    /// Errors: [`LogError::Fenced`] when the claim has ended; nothing is kept then.
    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError>;

    /// Returns all committed batches of the run in a partition, in order.
    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError>;
}

/// Hands the waiting records of a readout node to the log, in order.
///
/// Errors: the log's; the record and those behind it wait. Call it again.
pub fn hand_over(node: &mut ReadoutNode, log: &mut impl Log) -> Result<(), LogError> {
    node.hand_over(|partition, bytes| log.append(partition, bytes))
}

/// A log in memory, which several nodes and builders of a test share.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    shared: Arc<Mutex<Vec<Partition>>>,
}

#[derive(Debug, Default)]
struct Partition {
    /// Offset of the first record.
    first: u64,
    records: VecDeque<Arc<[u8]>>,
    epoch: u64,
    committed: Vec<Commit>,
    events: Vec<EventRecord>,
    /// The newest two, the newest first.
    checkpoints: VecDeque<Checkpoint>,
}

impl MemoryLog {
    /// Makes a log with this many partitions.
    #[must_use]
    pub fn new(partitions: u32) -> MemoryLog {
        let list = (0..partitions).map(|_| Partition::default()).collect();
        MemoryLog { shared: Arc::new(Mutex::new(list)) }
    }

    /// Removes the records of a partition before `offset`, as retention does.
    pub fn forget_before(&self, partition: u32, offset: u64) {
        if let Some(of) = self.lock().get_mut(partition as usize) {
            while of.first < offset && of.records.pop_front().is_some() {
                of.first += 1;
            }
        }
    }

    /// Returns the batches committed in a partition.
    #[must_use]
    pub fn committed(&self, partition: u32) -> Vec<Commit> {
        self.lock().get(partition as usize).map_or(Vec::new(), |of| of.committed.clone())
    }

    /// Returns the records of events of a partition.
    #[must_use]
    pub fn events(&self, partition: u32) -> Vec<EventRecord> {
        self.lock().get(partition as usize).map_or(Vec::new(), |of| of.events.clone())
    }

    /// Returns the newest two checkpoints of a partition, the newest first.
    #[must_use]
    pub fn checkpoints(&self, partition: u32) -> Vec<Checkpoint> {
        let list = self.lock();
        let found = list.get(partition as usize).map(|of| of.checkpoints.iter().cloned());
        found.into_iter().flatten().collect()
    }

    /// Returns the offset behind the last record of a partition.
    #[must_use]
    pub fn end(&self, partition: u32) -> u64 {
        self.lock().get(partition as usize).map_or(0, |of| of.first + of.records.len() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Partition>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(partition: u32) -> LogError {
    LogError::Away(format!("partition {partition} does not exist"))
}

impl Log for MemoryLog {
    fn partitions(&self) -> u32 {
        self.lock().len() as u32
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        let mut list = self.lock();
        let of = list.get_mut(partition as usize).ok_or_else(|| unknown(partition))?;
        of.records.push_back(bytes.into());
        Ok(())
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        let list = self.lock();
        let of = list.get(partition as usize).ok_or_else(|| unknown(partition))?;
        let Some(at) = offset.checked_sub(of.first) else {
            let (first, missing) = (of.first, of.first - offset);
            return Err(LogError::Hole { partition, first, missing });
        };
        let found = of.records.get(at as usize);
        Ok(found.map(|bytes| Stored { offset, bytes: Arc::clone(bytes) }))
    }

    fn claim(&mut self, partition: u32, _builder: &str) -> Result<Claim, LogError> {
        let mut list = self.lock();
        let of = list.get_mut(partition as usize).ok_or_else(|| unknown(partition))?;
        of.epoch += 1;
        let checkpoints: Vec<Checkpoint> = of.checkpoints.iter().cloned().collect();
        let first = checkpoints.last().map_or(0, |oldest| oldest.batch as usize);
        let committed = of.committed.get(first..).unwrap_or_default().to_vec();
        Ok(Claim { partition, epoch: of.epoch, checkpoints, committed })
    }

    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError> {
        let mut list = self.lock();
        let partition = claim.partition;
        let of = list.get_mut(partition as usize).ok_or_else(|| unknown(partition))?;
        for Ready { commit, records } in batches {
            let is_next = commit.batch == of.committed.len() as u64;
            if of.epoch != claim.epoch || !is_next {
                return Err(LogError::Fenced { partition });
            }
            of.committed.push(commit.clone());
            of.events.extend_from_slice(records);
        }
        Ok(())
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        let mut list = self.lock();
        let partition = claim.partition;
        let of = list.get_mut(partition as usize).ok_or_else(|| unknown(partition))?;
        if of.epoch != claim.epoch {
            return Err(LogError::Fenced { partition });
        }
        let committed = of.committed.len() as u64;
        assert_eq!(checkpoint.batch, committed, "batches before a checkpoint are not made again");
        of.checkpoints.push_front(checkpoint.clone());
        of.checkpoints.truncate(2);
        Ok(())
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        Ok(self.committed(partition))
    }
}
