//! The builder of one partition: records in, numbered batches of events out.
//!
//! It is a pure function of the records in the partition: time comes from the marks in them, and
//! batches are cut between records. So two builders that read the same records make the same
//! batches, byte for byte, and a batch is known by its number.

use std::collections::BTreeMap;

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{Builder, BuilderConfig};
use fluxline_daq::event::EventBatch;
use fluxline_daq::merge::Times;
use fluxline_daq::readout::{Accepted, Counted};
use fluxline_run::RunSource;
use serde::{Deserialize, Serialize};

use super::edge::{ENTRIES_MAX, Taken};
use super::entry::{Entry, Passed, RecordHead, read_record};
use super::filtered::{EventFilter, Filtered};
use super::refused::Refused;

/// Time without a mark, by the marks of the others, after which a node counts as dead. Its sources
/// are then silent by the rules of a source that sends nothing.
pub const NODE_DEAD_AFTER: Span = Span::from_ms(3000);

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

/// A source as this builder numbers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltSource {
    /// Its number in the batches.
    pub number: u32,
    /// Its node.
    pub node: u16,
    /// Its input at the node.
    pub input: u16,
    /// Its label.
    pub label: String,
    /// Name of its packet description.
    pub format: String,
}

/// The state of a readout node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Node {
    start: u32,
    mark: Moment,
    ended: bool,
    /// It reads files: its packets move its clock, and events wait for it.
    reads_files: bool,
    /// Numbers of its sources here, by its own numbers.
    sources: Vec<Option<u32>>,
    /// Numbers of its inputs here, by its own numbers.
    inputs: BTreeMap<u16, u16>,
}

/// The builder of one partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionBuilder {
    run: u64,
    nodes_expected: usize,
    builder: Builder,
    nodes: BTreeMap<u16, Node>,
    /// Packets by node and start.
    edges: BTreeMap<u64, Taken>,
    sources: Vec<BuiltSource>,
    inputs: u16,
    now: Moment,
    next_offset: u64,
    next_batch: u64,
    in_batches: InBatches,
    filtered: Filtered,
    /// Number of pauses and resumptions of the run, by the records: an odd number is a pause.
    changes: u32,
    /// Packets of events that closed during a pause.
    counted_only: u64,
    ended: bool,
    counts: PartitionCounts,
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
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            sources: Vec::new(),
            inputs: 0,
            now: Moment::default(),
            next_offset: 0,
            next_batch: 0,
            in_batches: InBatches::default(),
            filtered: Filtered::default(),
            changes: 0,
            counted_only: 0,
            ended: false,
            counts: PartitionCounts::default(),
        }
    }

    /// Begins with the record at `offset`, the first one of the run.
    #[must_use]
    pub fn begin_at(mut self, offset: u64) -> PartitionBuilder {
        self.next_offset = offset;
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

    /// Takes the record at `offset`; returns a batch when one is due.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) -> Option<OutputBatch> {
        self.take_filtered(offset, bytes, &mut EventFilter::default())
    }

    /// Takes the record at `offset`; returns a batch of the events that the filter keeps when one
    /// is due. It must be the same filter for all records of a run.
    pub fn take_filtered(
        &mut self,
        offset: u64,
        bytes: &[u8],
        filter: &mut EventFilter,
    ) -> Option<OutputBatch> {
        self.next_offset = offset + 1;
        let Some((head, mut entries)) =
            read_record(bytes).filter(|record| record.0.run == self.run && self.knows(&record.0))
        else {
            self.counts.foreign += 1;
            return None;
        };
        if !self.is_next(&head) {
            return None;
        }
        self.counts.records += 1;
        let taken_before = self.counts.taken;
        // Times of arrival alone move the clocks of inputs that have more to come.
        entries.by_ref().for_each(|entry| self.apply(&head, &entry));
        self.counts.torn += u64::from(!entries.is_at_end());
        let taken = self.counts.taken - taken_before;
        self.edge(&head).read(&head, taken);
        self.pass_time(&head);
        if self.all_nodes_ended() {
            self.builder.finish(self.now);
            self.ended = true;
        }
        // Events that closed before a pause or a resumption have the purpose of that time.
        let changes = head.changes > self.changes;
        let is_due = self.ended || changes || self.builder.batch_is_due(self.now);
        let batch = is_due.then(|| self.cut(filter)).flatten();
        self.changes = self.changes.max(head.changes);
        batch
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

    /// Returns the number of the next batch.
    #[must_use]
    pub fn next_batch(&self) -> u64 {
        self.next_batch
    }

    /// Returns the time of the run: the latest mark.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Returns the run.
    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// Returns the number of readout nodes.
    pub(super) fn nodes_expected(&self) -> usize {
        self.nodes_expected
    }

    /// Completes a builder that was read from a checkpoint, and checks it.
    pub(super) fn resume(
        mut self,
        nodes: usize,
        config: &BuilderConfig,
    ) -> Result<PartitionBuilder, Refused> {
        if self.nodes_expected != nodes {
            return Err(Refused::Experiment);
        }
        self.builder = self.builder.resume(config)?;
        let count = self.sources.len() as u32;
        let is_known = |number: &u32| *number < count;
        let is_node_sound = |node: &Node| {
            node.sources.len() <= SOURCES_MAX
                && node.sources.iter().flatten().all(is_known)
                && node.inputs.values().all(|input| *input < self.inputs)
        };
        let are_numbered = (0..).zip(&self.sources).all(|(number, its)| its.number == number);
        match are_numbered && self.nodes.values().all(is_node_sound) {
            true => Ok(self),
            false => Err(Refused::Sources),
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

    /// Returns true when every node has ended. A node that died does not end the run: its records
    /// may only be late. It ends when it was started again.
    fn all_nodes_ended(&self) -> bool {
        self.nodes.len() >= self.nodes_expected && self.nodes.values().all(|node| node.ended)
    }

    /// Returns the events that closed since the last batch and that the filter keeps, if there are
    /// any and the run is not paused.
    fn cut(&mut self, filter: &mut EventFilter) -> Option<OutputBatch> {
        let mut events = self.builder.take_batch(EventBatch::default());
        let new = self.sources.iter().skip(filter.known());
        let new = new.map(|source| RunSource {
            number: source.number,
            input: source.input,
            label: source.label.clone(),
        });
        filter.apply(new, &mut events, &mut self.filtered);
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

    /// Returns false for a node and start beyond all that a run has.
    fn knows(&self, head: &RecordHead) -> bool {
        self.edges.len() < ENTRIES_MAX || self.edges.contains_key(&edge_key(head.node, head.start))
    }

    fn edge(&mut self, head: &RecordHead) -> &mut Taken {
        let RecordHead { node, start, .. } = *head;
        let new = Taken { node, start, ..Taken::default() };
        self.edges.entry(edge_key(node, start)).or_insert(new)
    }

    /// Returns true for the next record of a node; counts others.
    fn is_next(&mut self, head: &RecordHead) -> bool {
        let is_over = self.ended;
        let Some(missing) = self.edge(head).advance(head) else {
            self.counts.repeated += 1;
            return false;
        };
        let packets = u64::from(head.packets);
        if is_over {
            self.counts.after_end += 1;
            self.edge(head).after_end += packets;
            return false;
        }
        let node = self.nodes.entry(head.node).or_default();
        if head.start < node.start {
            self.counts.outdated += 1;
            self.edge(head).outdated += packets;
            return false;
        }
        if head.start > node.start {
            // A node that starts again numbers its sources and records anew.
            let (inputs, reads_files) = (std::mem::take(&mut node.inputs), node.reads_files);
            let mark = node.mark;
            *node = Node { start: head.start, mark, inputs, reads_files, ..Node::default() };
        }
        self.counts.missing = self.counts.missing.saturating_add(missing);
        true
    }

    fn apply(&mut self, head: &RecordHead, entry: &Entry<'_>) {
        match entry {
            Entry::Source { source, input, label, format } => {
                let (node, label, format) = (head.node, (*label).into(), (*format).into());
                let number = self.sources.len() as u32;
                self.know(*source, BuiltSource { number, node, input: *input, label, format });
            }
            Entry::Packet { accepted, parsed, time, bytes } => {
                let accepted = self.renumbered(head.node, accepted);
                let datagram = datagram(bytes, *time);
                self.now = self.now.max(*time);
                self.counts.taken += 1;
                self.builder.push(self.now, &accepted, &datagram, parsed);
            }
            Entry::Passed(passed) => self.follow(head.node, passed),
        }
    }

    fn follow(&mut self, node: u16, passed: &Passed) {
        let renumbered = self.renumbered(node, &passed.accepted);
        let datagram = datagram(&[], passed.time);
        self.now = self.now.max(passed.time);
        let (now, builder) = (self.now, &mut self.builder);
        passed.for_each(|accepted, parsed| {
            let Accepted { source, input, .. } = renumbered;
            let restarts = renumbered.counted.map_or(0, |counted| counted.restarts);
            let counted = accepted.counted.map(|counted| Counted { restarts, ..counted });
            let accepted = Accepted { source, input, counted, ..*accepted };
            builder.pass(now, &accepted, &datagram, parsed);
        });
        self.counts.followed += u64::from(passed.count);
    }

    /// Gives a source of a node its number here. A source with the same label at the same node, as
    /// after a new start of the node, keeps its number.
    fn know(&mut self, at_node: u32, source: BuiltSource) -> u32 {
        let is_it = |its: &&BuiltSource| its.node == source.node && its.label == source.label;
        let known = self.sources.iter().find(is_it).map(|its| its.number);
        let (number, node) = (known.unwrap_or(source.number), source.node);
        if known.is_none() {
            self.builder.name_source(number, &source.label);
            self.sources.push(source);
        }
        let list = &mut self.nodes.entry(node).or_default().sources;
        let place = at_node as usize;
        if place >= list.len() && place < SOURCES_MAX {
            list.resize(place + 1, None);
        }
        if let Some(of) = list.get_mut(place) {
            *of = Some(number);
        }
        number
    }

    /// Returns the findings about a packet with the numbers of source and input here.
    fn renumbered(&mut self, node: u16, accepted: &Accepted) -> Accepted {
        let of = self.nodes.entry(node).or_default();
        let known = of.sources.get(accepted.source as usize).copied().flatten();
        // The record that names the source is missing: it is counted there.
        let source = known.unwrap_or_else(|| {
            let (number, input) = (self.sources.len() as u32, accepted.input);
            let (label, format) = (format!("?{}", accepted.source), String::new());
            self.know(accepted.source, BuiltSource { number, node, input, label, format })
        });
        let input = self.sources[source as usize].input;
        let of = self.nodes.entry(node).or_default();
        let next = self.inputs;
        let input = *of.inputs.entry(input).or_insert(next);
        self.inputs += u16::from(input == next);
        // A node that started again follows the packet counters anew.
        let starts = of.start << RESTARTS_BITS;
        let counted = accepted.counted.map(|counted| Counted {
            restarts: starts | (counted.restarts & ((1 << RESTARTS_BITS) - 1)),
            ..counted
        });
        Accepted { source, input, counted, ..*accepted }
    }

    /// Moves the time to a node's mark.
    fn pass_time(&mut self, head: &RecordHead) {
        if let Some(node) = self.nodes.get_mut(&head.node) {
            node.mark = node.mark.max(head.mark);
            node.ended |= head.is_end;
        }
        self.now = self.now.max(head.mark);
        let now = self.now;
        for node in self.nodes.values() {
            let is_behind = now.since(node.mark) < NODE_DEAD_AFTER && node.mark < now;
            let waits = !node.ended && (node.reads_files || is_behind);
            node.inputs.values().for_each(|input| self.builder.note_backlog(*input, waits));
        }
        if head.is_end {
            let inputs = self.nodes.get(&head.node).map(|node| node.inputs.clone());
            inputs.unwrap_or_default().values().for_each(|input| self.builder.end_input(*input));
        }
        self.builder.poll(now);
    }
}

/// Bits of the number of restarts that count those of a packet counter; the rest has the starts of
/// its node.
const RESTARTS_BITS: u32 = 20;

/// Most sources of a node.
const SOURCES_MAX: usize = 1 << 16;

/// Returns the number under which the packets of a node and start are counted. It sorts by both.
fn edge_key(node: u16, start: u32) -> u64 {
    (u64::from(node) << 32) | u64::from(start)
}

fn datagram(bytes: &[u8], time: Moment) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 0, time }
}
