//! A builder at work on one partition: reads records, writes batches, commits them.
//!
//! A builder that takes over goes on from the newest checkpoint. What it reads from there on gives
//! the committed batches once more, whose check sums are compared.
//!
//! A batch is written first and committed then. While a commit is under way, more records arrive.
//! The builder takes all that are here, and commits their batches together. After a death between
//! the two, the batch is in the output without a commit; the next builder makes the same batch
//! again and commits it. Readers take committed batches, each by its number, so no event is lost
//! or doubled. Records for the topic of events become visible with the commit, in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::record::BatchDigest;

use super::checkpoint::{
    CHECKPOINT_BYTES_MAX, Checkpoint, CheckpointPolicy, Refused, SinceCheckpoint,
};
use super::commit_group::CommitGroup;
use super::filtered::EventFilter;
use super::log::{Claim, Commit, EventRecord, Log, LogError, Ready};
use super::sink_sums::SinkSums;
use crate::changed::PartitionsChanged;
use fluxline_cluster::entry::{RecordHead, RecordWriter};
use fluxline_cluster::{Advance, BuiltSource, OutputBatch, PartitionBuilder};

/// The place that batches are written to.
pub trait Output {
    /// Writes a batch of a partition.
    fn write(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String>;

    /// Makes the written batches of a partition durable. They are committed afterwards.
    fn make_durable(&mut self, partition: u32) -> Result<(), String> {
        let _ = partition;
        Ok(())
    }

    /// Returns the records of a batch that become visible together with its commit; none by
    /// default.
    fn publish(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<Published, String> {
        let _ = (partition, sources, batch);
        Ok(Published::default())
    }
}

/// The records of a batch for the topic of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The records.
    pub records: Vec<EventRecord>,
    /// Events that are larger than a record may be: they are in none.
    pub refused: u64,
    /// The events by their place in the topic of `[sink.kafka]`.
    pub sink: SinkSums,
}

/// The reason why a builder stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The log failed, or another builder has the partition.
    #[error("{0}")]
    Log(#[from] LogError),
    /// A batch could not be written.
    #[error(
        "partition {partition}: batch {batch} cannot be written ({reason}); it is not committed, so \
        other builders make it again and go on; mend the disk of this builder, then start it again"
    )]
    Output {
        /// The partition.
        partition: u32,
        /// The batch.
        batch: u64,
        /// The system's message.
        reason: String,
    },
    /// The log has a commit of a batch that the run does not have.
    #[error(
        "partition {partition}: batch {batch} is committed, and the records of the run do not \
        give it: another program wrote to the topic of commits; let only builders write to it"
    )]
    Unmade {
        /// The partition.
        partition: u32,
        /// The first such batch.
        batch: u64,
    },
    /// The records give another batch than the committed one.
    #[error(
        "partition {partition}: batch {batch} differs from the committed one: the experiment \
        file or the program changed during the run (start the builder of the run's beginning), or \
        another program wrote to the topic of commits"
    )]
    Differs {
        /// The partition.
        partition: u32,
        /// The batch.
        batch: u64,
    },
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record was taken; step again.
    Worked,
    /// No record has arrived yet.
    Idle,
    /// The run has ended, and all its batches are committed.
    Over,
}

/// A builder at work on one partition.
pub struct Worker {
    name: String,
    claim: Claim,
    builder: PartitionBuilder,
    filter: EventFilter,
    digest: BatchDigest,
    policy: CheckpointPolicy,
    since: SinceCheckpoint,
    /// Checkpoints that could not be saved, one after the other.
    failed_saves: u32,
    group: CommitGroup,
    behind: Behind,
    /// The records about dead nodes that this builder wrote.
    stated: BTreeMap<u16, RecordHead>,
    notes: Vec<String>,
}

/// The work since the last record.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    /// Length of the record; 0: none was taken.
    record_bytes: usize,
    has_batch: bool,
}

/// The run that a builder works on.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The run.
    pub run: u64,
    /// The run's name in event files.
    pub name: String,
    /// Number of readout nodes.
    pub nodes: usize,
    /// Number of partitions.
    pub partitions: u32,
    /// Configuration of the builder.
    pub builder: BuilderConfig,
}

impl Worker {
    /// Takes over a partition: goes on from the newest checkpoint that fits, else from the
    /// beginning of the run. [`Worker::notes`] has the reasons for which a checkpoint was not used.
    ///
    /// Errors: the log's; [`LogError::PartitionsChanged`] when keys would change their partition.
    pub fn claim(
        log: &mut impl Log,
        plan: &RunPlan,
        partition: u32,
        name: &str,
    ) -> Result<Worker, WorkError> {
        let (expected, found) = (plan.partitions, log.partitions());
        if expected != found {
            let run = plan.run;
            return Err(LogError::from(PartitionsChanged { run, expected, found }).into());
        }
        let mut claim = log.claim(partition, name)?;
        let checkpoints = std::mem::take(&mut claim.checkpoints);
        let beginning = log.beginning(partition);
        let builder = PartitionBuilder::new(plan.run, plan.nodes, plan.builder.clone());
        let mut worker = Worker {
            name: name.to_owned(),
            claim,
            builder: builder.begin_at(beginning),
            filter: EventFilter::default(),
            digest: BatchDigest::default(),
            policy: CheckpointPolicy::default(),
            since: SinceCheckpoint::default(),
            failed_saves: 0,
            group: CommitGroup::default(),
            behind: Behind::default(),
            stated: BTreeMap::new(),
            notes: Vec::new(),
        };
        if !worker.resume(plan, beginning, &checkpoints) && !checkpoints.is_empty() {
            // Records from the run's beginning give all batches once more.
            worker.claim.committed = log.commits(partition)?;
        }
        Ok(worker)
    }

    /// Saves checkpoints by another rule.
    #[must_use]
    pub fn with_checkpoints(self, policy: CheckpointPolicy) -> Worker {
        Worker { policy, ..self }
    }

    /// Puts the next checkpoint off, because this many could not be saved before
    /// ([`Worker::failed_saves`]).
    #[must_use]
    pub fn after_failed_saves(self, failed_saves: u32) -> Worker {
        Worker { failed_saves, ..self }
    }

    /// Returns the number of checkpoints that could not be saved, one after the other. A builder
    /// that claims the partition again begins with it.
    #[must_use]
    pub fn failed_saves(&self) -> u32 {
        self.failed_saves
    }

    /// Records only the events that a filter keeps: the same one for all builders of the run.
    #[must_use]
    pub fn with_filter(self, filter: EventFilter) -> Worker {
        Worker { filter, ..self }
    }

    /// Goes on from the first checkpoint that fits; false when none does. The run begins at the
    /// offset `beginning`.
    fn resume(&mut self, plan: &RunPlan, beginning: u64, checkpoints: &[Checkpoint]) -> bool {
        let restore = |bytes: &[u8]| {
            let builder = Checkpoint::restore(plan.run, plan.nodes, &plan.builder, bytes)?;
            // Without the control topic, runs are numbered from 1 again.
            let is_its = builder.next_offset() > beginning;
            is_its.then_some(builder).ok_or(Refused::Earlier)
        };
        for Checkpoint { offset, bytes, .. } in checkpoints {
            match restore(bytes) {
                Ok(builder) => {
                    self.since = SinceCheckpoint::begin(bytes.len(), builder.now());
                    self.builder = builder;
                    return true;
                }
                Err(refused) => self.notes.push(format!(
                    "partition {}: the checkpoint at offset {offset} is not used: {refused}; the \
                     builder reads the records before it once more",
                    self.claim.partition
                )),
            }
        }
        false
    }

    /// Returns the reasons for which checkpoints were not used or not saved, or the filter failed.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the sentences about sources since the last call: joined, silent, behind the others.
    /// None while batches are made again that another builder has committed, since it said them.
    pub fn take_reports(&mut self) -> Vec<String> {
        let next = self.builder.next_batch();
        let repeats = self.claim.committed.last().is_some_and(|its| its.batch >= next);
        let reports = self.builder.take_reports();
        if repeats { Vec::new() } else { reports }
    }

    /// Makes events wait for inputs that read files: for each, the node and its number there.
    pub fn read_on_demand(&mut self, inputs: &[(u16, u16)]) {
        inputs.iter().for_each(|(node, input)| self.builder.read_on_demand(*node, *input));
    }

    /// Takes one record, or writes a batch that is due. Commits the written batches when no further
    /// record is here, or enough of them wait.
    ///
    /// Errors: [`WorkError`]; claim the partition again then, or leave it to another builder.
    pub fn step(
        &mut self,
        log: &mut impl Log,
        output: &mut (impl Output + ?Sized),
    ) -> Result<Step, WorkError> {
        let partition = self.claim.partition;
        let advance = self.builder.advance(&mut self.filter);
        self.notes.extend(self.filter.take_notes());
        match advance {
            Advance::Batch(batch) => {
                self.put(output, &batch)?;
                self.behind.has_batch = true;
                if self.group.is_due() {
                    self.commit(log, output)?;
                }
                return Ok(Step::Worked);
            }
            Advance::Again(offset) => {
                let Some(record) = log.read_again(partition, offset)? else {
                    self.commit(log, output)?;
                    return Ok(Step::Idle);
                };
                if !self.builder.supply(offset, &record.bytes) {
                    let (first, missing) = (record.offset.max(offset + 1), 1);
                    return Err(LogError::Hole { partition, first, missing }.into());
                }
                return Ok(Step::Worked);
            }
            Advance::Next => {}
        }
        let Behind { record_bytes, has_batch } = std::mem::take(&mut self.behind);
        if record_bytes > 0 {
            self.save_when_due(log, output, record_bytes, has_batch)?;
        }
        if self.builder.is_ended() {
            self.commit(log, output)?;
            self.check_end()?;
            return Ok(Step::Over);
        }
        let offset = self.builder.next_offset();
        let record = match self.group.len() {
            0 => log.read(partition, offset)?,
            _ => log.read_at_once(partition, offset)?,
        };
        let Some(record) = record else {
            self.commit(log, output)?;
            return Ok(Step::Idle);
        };
        self.builder.put(record.offset, &record.bytes);
        self.behind.record_bytes = record.bytes.len();
        Ok(Step::Worked)
    }

    /// Lets events go on without these readout nodes, which have died. Every builder that reads the
    /// record does it at the same place; a node that comes back is waited for again.
    ///
    /// Errors: the log's.
    pub fn leave_out(&mut self, log: &mut impl Log, dead: &BTreeSet<u16>) -> Result<(), WorkError> {
        for node in dead {
            let Some(head) = self.builder.absence_of(*node) else { continue };
            if self.stated.insert(*node, head) != Some(head) {
                log.append(self.claim.partition, &RecordWriter::default().finish(&head))?;
            }
        }
        Ok(())
    }

    /// Saves a checkpoint behind a record when one is due, and at the end of the run.
    ///
    /// Errors: the log's. The claim may have ended then: the next one puts its first save off.
    fn save_when_due(
        &mut self,
        log: &mut impl Log,
        output: &mut (impl Output + ?Sized),
        record_bytes: usize,
        has_batch: bool,
    ) -> Result<(), WorkError> {
        let mark = self.builder.now();
        let policy = self.policy.put_off(self.failed_saves);
        let is_due = self.since.is_due(policy, record_bytes, mark, has_batch);
        // Batches that were committed before are behind an earlier checkpoint already.
        let is_new =
            self.claim.committed.last().is_none_or(|its| its.batch < self.builder.next_batch());
        if self.failed_saves > 0 && !is_new {
            // New batches come first, then the next try.
            self.since = SinceCheckpoint::begin(0, mark);
        }
        let is_last = self.builder.is_ended() && self.failed_saves == 0;
        if !is_new || !(is_due || is_last) {
            return Ok(());
        }
        // The batches before a checkpoint are not made again.
        self.commit(log, output)?;
        let Some(checkpoint) = Checkpoint::of(&self.builder) else {
            self.since = SinceCheckpoint::begin(CHECKPOINT_BYTES_MAX, mark);
            let partition = self.claim.partition;
            let note = format!(
                "partition {partition}: the builder's state is too long for a checkpoint; lower \
                 `bytes-max` in [events]"
            );
            if self.notes.last() != Some(&note) {
                self.notes.push(note);
            }
            return Ok(());
        };
        self.since = SinceCheckpoint::begin(checkpoint.bytes.len(), mark);
        let saved = log.save(&self.claim, &checkpoint);
        match &saved {
            Ok(()) => self.failed_saves = 0,
            Err(LogError::Fenced { .. }) => {}
            Err(error) => self.note_failed_save(checkpoint.bytes.len(), error),
        }
        Ok(saved?)
    }

    fn note_failed_save(&mut self, bytes: usize, error: &LogError) {
        self.failed_saves = self.failed_saves.saturating_add(1);
        let wait = self.policy.put_off(self.failed_saves).age.as_ns() / 1_000_000_000;
        self.notes.push(format!(
            "partition {}: a checkpoint of {} MB was not saved: {error}; the builder claims the \
             partition again, and saves the next one after {wait} s of the run; if that happens \
             again, lower `bytes-max` in [events]",
            self.claim.partition,
            bytes.div_ceil(1_000_000)
        ));
    }

    /// Returns true when the run has ended, and all its batches are committed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.builder.is_ended() && self.group.len() == 0
    }

    /// Returns the builder of the partition.
    #[must_use]
    pub fn partition(&self) -> &PartitionBuilder {
        &self.builder
    }

    /// Checks that no batch is committed behind the last one of the run.
    fn check_end(&self) -> Result<(), WorkError> {
        let last = self.builder.next_batch();
        match self.claim.committed.last().filter(|commit| commit.batch >= last) {
            None => Ok(()),
            Some(_) => Err(WorkError::Unmade { partition: self.claim.partition, batch: last }),
        }
    }

    /// Commits the written batches.
    ///
    /// Errors: as [`Worker::step`].
    pub fn commit(
        &mut self,
        log: &mut impl Log,
        output: &mut (impl Output + ?Sized),
    ) -> Result<(), WorkError> {
        let group = self.group.take();
        let Some(last) = group.last() else { return Ok(()) };
        let (partition, batch) = (self.claim.partition, last.commit.batch);
        output.make_durable(partition).map_err(|reason| WorkError::Output {
            partition,
            batch,
            reason,
        })?;
        Ok(log.commit_all(&self.claim, &group)?)
    }

    /// Writes a batch and puts it into the group, unless it was committed before the claim.
    fn put(
        &mut self,
        output: &mut (impl Output + ?Sized),
        batch: &OutputBatch,
    ) -> Result<(), WorkError> {
        let partition = self.claim.partition;
        let mut commit = self.commit_of(batch)?;
        if let Some(committed) = self.committed(batch.number) {
            let is_same = committed.crc == commit.crc && committed.covers == commit.covers;
            let differs = WorkError::Differs { partition, batch: batch.number };
            return if is_same { Ok(()) } else { Err(differs) };
        }
        let sources = self.builder.sources();
        let published = output
            .write(partition, sources, batch)
            .and_then(|()| output.publish(partition, sources, batch))
            .map_err(|reason| WorkError::Output { partition, batch: batch.number, reason })?;
        (commit.refused, commit.sink) = (published.refused, published.sink);
        let bytes = batch.events.bytes.len();
        self.group.push(Ready { commit, records: published.records }, bytes);
        Ok(())
    }

    /// Returns the commit of a batch, if it was committed before the claim.
    fn committed(&self, batch: u64) -> Option<&Commit> {
        let first = self.claim.committed.first()?.batch;
        self.claim.committed.get(batch.checked_sub(first)? as usize)
    }

    fn commit_of(&mut self, batch: &OutputBatch) -> Result<Commit, WorkError> {
        let partition = self.claim.partition;
        let crc = self.digest.of(&batch.events, batch.number).map_err(|fault| {
            WorkError::Output { partition, batch: batch.number, reason: fault.to_string() }
        })?;
        Ok(Commit {
            partition,
            batch: batch.number,
            covers: batch.covers,
            crc,
            events: batch.events.events.len() as u64,
            packets: batch.events.packets.len() as u64,
            refused: 0,
            sink: SinkSums::default(),
            builder: self.name.clone(),
        })
    }
}
