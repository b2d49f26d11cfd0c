//! The order in which a partition's builder takes packets: by time, as one machine receives them.
//!
//! Every node has a mark in its records: everything that it received before has come. Packets are
//! taken up to the lowest mark of all nodes, so a node that is behind holds the packets of the
//! others back, and none of its own is late. Nodes that have ended hold nothing back, nor do those
//! that a record states as dead.
//!
//! Files have no common clock. There, the next packet comes from the node whose files have the
//! lowest position, as on one machine.

use fluxline_core::{Moment, planted};

use crate::filtered::ChooseEvents;
use crate::held::Ready;
use crate::partition::{Advance, Node, PartitionBuilder};

/// The end of time.
const NEVER: Moment = Moment::from_ns(u64::MAX);

/// A node whose packets are taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    node: u16,
    /// Entries up to this time are taken.
    until: Moment,
    /// Most entries that are taken.
    entries: u32,
}

/// The next step, by the states of all nodes.
enum Chosen {
    Turn(Turn),
    Again(u64),
    Wait,
}

impl PartitionBuilder {
    /// Takes the packets whose turn has come, up to the next batch of events that the filter keeps.
    /// It must be the same filter for all records of a run.
    pub fn advance(&mut self, filter: &mut dyn ChooseEvents) -> Advance {
        while !self.ended {
            let turn = match self.choose() {
                Chosen::Turn(turn) => turn,
                Chosen::Again(offset) => return Advance::Again(offset),
                Chosen::Wait => return Advance::Next,
            };
            let Some(changes) = self.run_turn(turn) else { continue };
            // Events that closed before a pause or a resumption have the purpose of that time.
            let is_due =
                self.ended || changes > self.changes || self.builder.batch_is_due(self.now);
            let batch = is_due.then(|| self.cut(filter)).flatten();
            self.changes = self.changes.max(changes);
            if let Some(batch) = batch {
                return Advance::Batch(batch);
            }
        }
        Advance::Next
    }

    fn choose(&self) -> Chosen {
        let ready = self.nodes.values().map(|node| node.queue.ready());
        let forgotten = ready.filter_map(|ready| match ready {
            Ready::Forgotten(offset) => Some(offset),
            Ready::Empty | Ready::At(_) => None,
        });
        if let Some(offset) = forgotten.min() {
            return Chosen::Again(offset);
        }
        let are_files = self.nodes.values().any(|node| node.reads_files);
        let turn = match are_files && self.builder.has_common_order() {
            true => self.by_position(),
            false => self.by_time(),
        };
        turn.map_or(Chosen::Wait, Chosen::Turn)
    }

    /// Chooses the node with the earliest packet, if no other node can still send an earlier one.
    fn by_time(&self) -> Option<Turn> {
        let mut known = NEVER;
        let (mut first, mut second) = (None, (NEVER, u16::MAX));
        for (number, node) in &self.nodes {
            if node.holds_others() && !planted!(30) {
                known = known.min(node.mark);
            }
            let Ready::At(time) = node.queue.ready() else { continue };
            let head = (time, *number);
            match first {
                Some(earliest) if earliest <= head => second = second.min(head),
                before => (first, second) = (Some(head), before.unwrap_or(second)),
            }
        }
        let (time, node) = first?;
        // At the same time, the node with the lower number comes first.
        let before_second = match node < second.1 {
            true => second.0,
            false => Moment::from_ns(second.0.as_ns().saturating_sub(1)),
        };
        let until = known.min(before_second);
        (time <= until).then_some(Turn { node, until, entries: u32::MAX })
    }

    /// Chooses the node whose files are furthest behind in the order of events.
    fn by_position(&self) -> Option<Turn> {
        let mut first = None;
        for (number, node) in &self.nodes {
            let time = match node.queue.ready() {
                Ready::At(time) => Some(time),
                Ready::Empty if node.end_came => continue,
                Ready::Empty | Ready::Forgotten(_) => None,
            };
            let open = node.inputs.values().filter(|input| !self.builder.is_input_ended(**input));
            let reached = open.map(|input| self.builder.position(*input)).min();
            // A node without a packet at the lowest position comes first: it must be waited for.
            let order = (reached.flatten(), time, *number);
            if first.is_none_or(|before| order < before) {
                first = Some(order);
            }
        }
        let (_, time, node) = first?;
        time.map(|_| Turn { node, until: NEVER, entries: 1 })
    }

    /// Takes entries of a node. When a record was completed, it returns the number of pauses and
    /// resumptions that the record states.
    fn run_turn(&mut self, turn: Turn) -> Option<u32> {
        let queue = self.nodes.get_mut(&turn.node).map(|node| &mut node.queue);
        let (bytes, mut front) = queue.and_then(|queue| queue.take())?;
        let head = front.head;
        self.begin_start(turn.node, head.start);
        let (mut reached, taken_before) = (front.next(), self.counts.taken);
        let mut entries = front.entries(&bytes);
        let mut left = turn.entries;
        let is_complete = loop {
            let rest = entries.clone();
            let Some(entry) = entries.next() else {
                break reached.max(head.mark) <= turn.until;
            };
            let time = entry.time().map_or(reached, |time| time.max(reached));
            if time > turn.until || left == 0 {
                entries = rest;
                break false;
            }
            (reached, left) = (time, left - 1);
            self.apply(&head, &entry);
        };
        front.leave(&entries);
        let taken = self.counts.taken - taken_before;
        front.taken += taken;
        self.edge(&head).take(taken);
        let node = self.nodes.get_mut(&turn.node)?;
        if !is_complete {
            node.queue.put_back(&bytes, front, reached);
            return None;
        }
        self.held_bytes = self.held_bytes.saturating_sub(node.queue.pop(reached.max(head.mark)));
        self.counts.torn += u64::from(!entries.is_at_end());
        self.edge(&head).complete(&head, front.taken);
        self.pass_time(turn.node, head.mark, head.is_end);
        Some(head.changes)
    }

    /// Begins a new start of a node, which numbers its sources anew.
    fn begin_start(&mut self, number: u16, start: u32) {
        if let Some(node) = self.nodes.get_mut(&number).filter(|node| start > node.start) {
            (node.start, node.ended) = (start, false);
            node.sources.clear();
        }
    }

    /// Moves the time to a node's mark: everything that it received before was taken.
    fn pass_time(&mut self, number: u16, mark: Moment, is_end: bool) {
        self.now = self.now.max(mark);
        let node = self.nodes.get_mut(&number).expect("every node of the run is there");
        let Node { inputs, reads_files, left_out, .. } = node;
        if !*reads_files && !*left_out {
            inputs.values().for_each(|input| self.builder.mark_input(*input, mark));
        }
        if is_end {
            if node.has_gaps {
                self.builder.cut();
            }
            node.ended = true;
            node.inputs.values().for_each(|input| self.builder.end_input(*input));
        }
        if self.all_nodes_ended() {
            self.builder.finish(self.now);
            self.ended = true;
        } else {
            self.builder.poll(self.now);
        }
    }
}
