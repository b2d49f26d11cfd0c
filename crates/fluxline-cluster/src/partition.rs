//! The builder of one partition: records in, numbered batches of events out.
//!
//! It is a pure function of the records in the partition: time comes from the marks in them, and
//! batches are cut between records. So two builders that read the same records make the same
//! batches, byte for byte, and a batch is known by its number.
//!
//! Packets are taken in the order of their times, whatever the order of the records: those of a
//! node wait until every other node has come as far (`turn.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_daq::builder::{Builder, BuilderConfig, Unfit};
use fluxline_daq::event::EventBatch;
use fluxline_daq::merge::Times;
use serde::{Deserialize, Serialize};

use crate::edge::Taken;
use crate::entry::read_record;
use crate::filtered::{ChooseEvents, Filtered, KeepAll};
use crate::held::Queue;
use crate::source::BuiltSource;

/// Most sources of a node.
pub(crate) const SOURCES_MAX: usize = 1 << 16;

/// Counts of the builder of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionCounts {
    /// Records of the run.
    pub records: u64,
    /// Packets taken from them.
    pub taken: u64,
    /// Packets of other partitions that were followed.
    pub followed: u64,
    /// Records that came twice; the second one was left out.
    pub repeated: u64,
    /// Records of another program or run.
    pub foreign: u64,
    /// Records of an earlier start of a node that came after a later start.
    pub outdated: u64,
    /// Records that are missing, by the numbers of those that came.
    pub missing: u64,
    /// Records of which an entry could not be read; it and those behind it are left out.
    pub torn: u64,
    /// Records after every node had ended; they are in no event.
    pub after_end: u64,
    /// Number of times that events went on without a node, because it was dead or too far behind.
    pub left_out: u64,
}

/// A batch of closed events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputBatch {
    /// Its number in the partition, from 0.
    pub number: u64,
    /// The records before this offset are covered.
    pub covers: u64,
    /// The events.
    pub events: EventBatch,
}

/// The next thing to do for a builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A batch is due.
    Batch(OutputBatch),
    /// The record at this offset is needed again.
    Again(u64),
    /// The next record of the partition is needed.
    Next,
}

/// The state of a readout node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Node {
    /// The newest start of which a record came.
    pub(crate) newest_start: u32,
    /// Everything that the node received before has come.
    pub(crate) mark: Moment,
    /// Its last record came.
    pub(crate) end_came: bool,
    /// Events do not wait for it: it died, or is too far behind.
    pub(crate) left_out: bool,
    /// Records of it are missing: its packet counters show which packets were in them.
    pub(crate) has_gaps: bool,
    /// It reads files: its packets move its clock, and events wait for it.
    pub(crate) reads_files: bool,
    /// Records that wait for other nodes.
    pub(crate) queue: Queue,
    /// The start whose packets are taken.
    pub(crate) start: u32,
    /// All its packets were taken.
    pub(crate) ended: bool,
    /// Numbers of its sources here, by its own numbers.
    pub(crate) sources: Vec<Option<u32>>,
    /// Numbers of its inputs here, by its own numbers.
    pub(crate) inputs: BTreeMap<u16, u16>,
}

/// The builder of one partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionBuilder {
    pub(crate) run: u64,
    pub(crate) nodes_expected: usize,
    pub(crate) builder: Builder,
    pub(crate) nodes: BTreeMap<u16, Node>,
    /// Packets by node and start.
    pub(crate) edges: BTreeMap<u64, Taken>,
    pub(crate) sources: Vec<BuiltSource>,
    pub(crate) inputs: u16,
    /// Memory of records that wait for other nodes \[byte\].
    pub(crate) held_bytes: u64,
    pub(crate) now: Moment,
    next_offset: u64,
    next_batch: u64,
    in_batches: InBatches,
    filtered: Filtered,
    /// Number of pauses and resumptions of the run, by the records: an odd number is a pause.
    pub(crate) changes: u32,
    /// Packets of events that closed during a pause.
    counted_only: u64,
    pub(crate) ended: bool,
    pub(crate) counts: PartitionCounts,
    /// Records come once and cannot be read again.
    #[serde(skip)]
    keeps_all: bool,
}

/// The reason why a builder does not go on from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresumed {
    /// The experiment is another one.
    #[error("the experiment has other [events] or another number of readout nodes")]
    Experiment,
    /// The state contradicts itself.
    #[error("{0}")]
    State(#[from] Unfit),
    /// The numbers of sources or nodes contradict each other.
    #[error("its sources contradict each other")]
    Sources,
}

/// The batches that were cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InBatches {
    /// Number of batches.
    pub batches: u64,
    /// Events and late fragments in them.
    pub events: u64,
    /// Packets in them.
    pub packets: u64,
    /// The records before this offset are covered.
    pub covers: u64,
}

impl PartitionBuilder {
    /// Makes the builder of a partition for a run of this many readout nodes.
    #[must_use]
    pub fn new(run: u64, nodes: usize, config: BuilderConfig) -> PartitionBuilder {
        PartitionBuilder {
            run,
            nodes_expected: nodes,
            builder: Builder::new(config),
            nodes: (0..nodes).map(|number| (number as u16, Node::default())).collect(),
            edges: BTreeMap::new(),
            sources: Vec::new(),
            inputs: 0,
            held_bytes: 0,
            now: Moment::default(),
            next_offset: 0,
            next_batch: 0,
            in_batches: InBatches::default(),
            filtered: Filtered::default(),
            changes: 0,
            counted_only: 0,
            ended: false,
            counts: PartitionCounts::default(),
            keeps_all: false,
        }
    }

    /// Begins with the record at `offset`, the first one of the run.
    #[must_use]
    pub fn begin_at(mut self, offset: u64) -> PartitionBuilder {
        self.next_offset = offset;
        self
    }

    /// Keeps all records in memory until their turn: they come once. The caller bounds them.
    #[must_use]
    pub fn keep_all(mut self) -> PartitionBuilder {
        self.keeps_all = true;
        self
    }

    /// Declares that an input of a node reads files with times: no event closes before the input
    /// has passed it or the node has ended, however far ahead other nodes are.
    pub fn read_on_demand(&mut self, node: u16, input: u16) {
        let of = self.nodes.entry(node).or_default();
        of.reads_files = true;
        if of.inputs.contains_key(&input) {
            return;
        }
        of.inputs.insert(input, self.inputs);
        self.builder.note_backlog(self.inputs, true);
        if self.builder.has_common_order() {
            self.builder.read_on_demand(self.inputs, Times::Captured);
        }
        self.inputs += 1;
    }

    /// Takes the record at `offset`; returns the batches that are due, of all events.
    /// [`Self::advance`] does the same with a filter, and with records that must be read again.
    pub fn take(&mut self, offset: u64, bytes: &Arc<[u8]>) -> Vec<OutputBatch> {
        self.put(offset, bytes);
        let mut batches = Vec::new();
        while let Advance::Batch(batch) = self.advance(&mut KeepAll) {
            batches.push(batch);
        }
        batches
    }

    /// Adds the record at `offset`. Call [`Self::advance`] until it has nothing to do, first.
    pub fn put(&mut self, offset: u64, bytes: &Arc<[u8]>) {
        self.next_offset = offset + 1;
        let Some((head, _)) =
            read_record(bytes).filter(|record| record.0.run == self.run && self.knows(&record.0))
        else {
            self.counts.foreign += 1;
            return;
        };
        if head.is_absence {
            self.leave_out_dead(&head);
            return;
        }
        if !self.is_next(&head) {
            return;
        }
        self.counts.records += 1;
        self.edge(&head).held += u64::from(head.packets);
        let fits = self.held_bytes + bytes.len() as u64 <= self.held_bytes_max();
        let keeps = self.keeps_all || fits;
        let node = self.nodes.get_mut(&head.node).expect("every node of the run is there");
        node.mark = node.mark.max(head.mark);
        node.end_came |= head.is_end;
        if std::mem::take(&mut node.left_out) {
            let inputs = node.inputs.values();
            inputs.for_each(|input| self.builder.mark_input(*input, Moment::default()));
        }
        self.held_bytes += node.queue.push(offset, bytes, keeps);
        self.leave_out_slowest();
    }

    /// Gives the builder the record at `offset`, which it has asked for. Returns false if it is
    /// another one.
    pub fn supply(&mut self, offset: u64, bytes: &Arc<[u8]>) -> bool {
        let is_it = self.nodes.values_mut().any(|node| node.queue.supply(offset, bytes));
        self.held_bytes += if is_it { bytes.len() as u64 } else { 0 };
        is_it
    }

    /// Returns the most memory of records that wait for other nodes \[byte\].
    pub(crate) fn held_bytes_max(&self) -> u64 {
        self.builder.config().bytes_open_max / 4
    }

    /// Returns true when all nodes have ended and the last batch was returned.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns the offset of the next record.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Returns the first offset of which the record is still needed: the next one, or one that must
    /// be read again.
    #[must_use]
    pub fn needed_offset(&self) -> u64 {
        let forgotten = self.nodes.values().filter_map(|node| node.queue.forgotten());
        forgotten.chain([self.next_offset]).min().unwrap_or(self.next_offset)
    }

    /// Returns the number of the next batch.
    #[must_use]
    pub fn next_batch(&self) -> u64 {
        self.next_batch
    }

    /// Sets the time that events which close from now on have as their end. Without it, that is the
    /// mark up to which the readouts have come.
    pub fn end_events_at(&mut self, time: Moment) {
        self.builder.end_events_at(time);
    }

    /// Records that records on their way will not come: events that close from now on are stopped.
    pub(crate) fn cut_off(&mut self) {
        self.builder.cut();
    }

    /// Returns the time of the run: the latest mark.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Returns the number of readout nodes.
    #[must_use]
    pub fn nodes_expected(&self) -> usize {
        self.nodes_expected
    }

    /// Completes a builder that was read from a checkpoint, and checks it.
    ///
    /// Errors: [`Unresumed`].
    pub fn resume(
        mut self,
        nodes: usize,
        config: &BuilderConfig,
    ) -> Result<PartitionBuilder, Unresumed> {
        if self.nodes_expected != nodes {
            return Err(Unresumed::Experiment);
        }
        self.builder = self.builder.resume(config)?;
        let count = self.sources.len() as u32;
        let is_known = |number: &u32| *number < count;
        let is_node_sound = |node: &Node| {
            node.queue.is_sound()
                && node.sources.len() <= SOURCES_MAX
                && node.sources.iter().flatten().all(is_known)
                && node.inputs.values().all(|input| *input < self.inputs)
        };
        self.held_bytes = self.nodes.values().map(|node| node.queue.bytes()).sum();
        let are_nodes = self.nodes.keys().copied().map(usize::from).eq(0..nodes);
        let are_numbered = (0..).zip(&self.sources).all(|(number, its)| its.number == number);
        match are_numbered && are_nodes && self.nodes.values().all(is_node_sound) {
            true => Ok(self),
            false => Err(Unresumed::Sources),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> PartitionCounts {
        self.counts
    }

    /// Returns the packets by node and start.
    pub fn taken(&self) -> impl Iterator<Item = &Taken> {
        self.edges.values()
    }

    /// Returns the batches that were cut.
    #[must_use]
    pub fn in_batches(&self) -> InBatches {
        self.in_batches
    }

    /// Returns the results of the filter.
    #[must_use]
    pub fn filtered(&self) -> &Filtered {
        &self.filtered
    }

    /// Returns the packets of events that closed during a pause: they are in no batch.
    #[must_use]
    pub fn counted_only(&self) -> u64 {
        self.counted_only
    }

    /// Returns true while events are counted, and are not put into batches.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.changes % 2 == 1
    }

    /// Returns the sources, in the order of their numbers.
    #[must_use]
    pub fn sources(&self) -> &[BuiltSource] {
        &self.sources
    }

    /// Returns the builder with its counters.
    #[must_use]
    pub fn builder(&self) -> &Builder {
        &self.builder
    }

    /// Returns the sentences about sources that are due; at the end of the run, all.
    pub fn take_reports(&mut self) -> Vec<String> {
        match self.ended {
            true => self.builder.last_reports().map(|said| said.to_string()).collect(),
            false => self.builder.reports(self.now).map(|said| said.to_string()).collect(),
        }
    }

    /// Returns true when every node has ended. A node that died does not end the run: its records
    /// may only be late. It ends when it was started again.
    pub(crate) fn all_nodes_ended(&self) -> bool {
        self.nodes.values().all(|node| node.ended)
    }

    /// Returns the events that closed since the last batch and that the filter keeps, if there are
    /// any and the run is not paused.
    pub(crate) fn cut(&mut self, filter: &mut dyn ChooseEvents) -> Option<OutputBatch> {
        let mut events = self.builder.take_batch(EventBatch::default());
        filter.apply(&self.sources, &mut events, &mut self.filtered);
        if self.is_paused() {
            self.counted_only += events.packets.len() as u64;
            return None;
        }
        if events.is_empty() {
            return None;
        }
        let number = self.next_batch;
        self.next_batch += 1;
        self.in_batches = InBatches {
            batches: self.next_batch,
            events: self.in_batches.events + events.events.len() as u64,
            packets: self.in_batches.packets + events.packets.len() as u64,
            covers: self.next_offset,
        };
        Some(OutputBatch { number, covers: self.next_offset, events })
    }
}

impl Node {
    /// Returns true while the packets of other nodes wait for its packets.
    pub(crate) fn holds_others(&self) -> bool {
        !(self.end_came || self.left_out)
    }
}
