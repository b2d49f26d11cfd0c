//! The builder node: records of all readouts in, batches of events out.
//!
//! `heir.rs` decides when it goes on for another builder that has died.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxline_core::{Span, planted};

use crate::edges::{Inlets, Taking};
use crate::entry::{RecordHead, RecordWriter};
use crate::heir::{Heard, Heir, TakenOver};
use crate::partition::Advance;
use crate::succession::Message;
use crate::{KeepAll, OutputBatch, PartitionBuilder};

/// Records of one lane that are taken before the next has its turn.
const RECORDS_PER_TURN: usize = 16;

/// Takes a batch of the partition with this number.
pub type Put<'a> = dyn FnMut(u32, &PartitionBuilder, OutputBatch) + 'a;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Records were taken; step again.
    Worked,
    /// No record has come.
    Idle,
    /// All readouts have ended, and the last batch was made.
    Over,
}

/// A builder with its edges: of its own partition, and of those that it took over.
pub struct BuilderNode<I> {
    inlets: I,
    own: u32,
    partitions: BTreeMap<u32, PartitionBuilder>,
    /// For each readout: its lane is over.
    is_over: Vec<bool>,
    /// Readouts whose lane ended before they did.
    dead: Vec<u16>,
    /// Bytes of records.
    bytes: u64,
    heir: Option<Heir>,
}

impl<I: Inlets> BuilderNode<I> {
    /// Makes the builder of `partition`, which has a lane in `inlets` for each readout.
    pub fn new(inlets: I, partition: PartitionBuilder) -> BuilderNode<I> {
        let is_over = vec![false; partition.nodes_expected()];
        let partitions = BTreeMap::from([(0, partition.keep_all())]);
        BuilderNode { inlets, own: 0, partitions, is_over, dead: Vec::new(), bytes: 0, heir: None }
    }

    /// Sets the number of its partition.
    #[must_use]
    pub fn numbered(mut self, own: u32) -> BuilderNode<I> {
        let partition = self.partitions.remove(&self.own);
        self.partitions.extend(partition.map(|partition| (own, partition)));
        self.own = own;
        self
    }

    /// Takes over from the builder before it, if that one dies.
    #[must_use]
    pub fn with_heir(mut self, heir: Heir) -> BuilderNode<I> {
        self.heir = Some(heir);
        self
    }

    /// Returns the builder of its own partition.
    pub fn partition(&self) -> &PartitionBuilder {
        &self.partitions[&self.own]
    }

    /// Returns the builders of all its partitions, by their numbers.
    pub fn partitions(&self) -> impl Iterator<Item = (u32, &PartitionBuilder)> {
        self.partitions.iter().map(|(number, partition)| (*number, partition))
    }

    /// Returns the builders of all its partitions, to set them up, and for their reports.
    pub fn partitions_mut(&mut self) -> impl Iterator<Item = (u32, &mut PartitionBuilder)> {
        self.partitions.iter_mut().map(|(number, partition)| (*number, partition))
    }

    /// Returns the readouts that died: their lanes ended before they did.
    pub fn dead(&self) -> &[u16] {
        &self.dead
    }

    /// Returns the bytes of the records that it took.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the edges.
    pub fn inlets(&mut self) -> &mut I {
        &mut self.inlets
    }

    /// Returns the next message for all readouts.
    pub fn next_message(&mut self) -> Option<Message<'static>> {
        self.heir.as_mut()?.messages.pop_front()
    }

    /// Returns the builder whose partitions it may take over, once. Call [`Self::go_on`] then.
    pub fn take_over(&mut self) -> Option<TakenOver> {
        self.heir.as_mut()?.taken_over.take()
    }

    /// Goes on with the partitions of the builder that [`Self::take_over`] named.
    pub fn go_on(&mut self, put: &mut Put<'_>) {
        let Some(heir) = &mut self.heir else { return };
        let (made, records) = (std::mem::take(&mut heir.made), std::mem::take(&mut heir.records));
        for (number, partition) in made {
            self.partitions.insert(number, partition.keep_all());
        }
        for (partition, record) in records {
            self.feed(partition, &record, put);
        }
        for lane in 0..self.is_over.len() {
            if self.is_over[lane] {
                self.end_partitions(lane, put);
            }
        }
    }

    /// Returns the number of moves that a readout asked for.
    pub fn moves_of(&self, readout: usize) -> u32 {
        self.heir.as_ref().map_or(0, |heir| u32::from(heir.heard[readout] != Heard::Nothing))
    }

    /// Returns true when everything that came was built, and no partition is on its way.
    pub fn is_built(&self) -> bool {
        let is_moving = self.heir.as_ref().is_some_and(Heir::is_moving);
        !is_moving && self.partitions.values().all(PartitionBuilder::is_ended)
    }

    /// Takes a turn of each lane; `put` gets the batches with the numbers of their partitions.
    ///
    /// While memory for records that wait for other readouts is short, only the readout is heard
    /// that the others wait for: theirs stay in the edges, and hold the readouts back.
    pub fn step(&mut self, put: &mut Put<'_>) -> Progress {
        self.inlets.progress();
        let mut worked = false;
        for lane in 0..self.is_over.len() {
            for _ in 0..RECORDS_PER_TURN {
                if self.is_over[lane] || !self.may_take(lane as u16) {
                    break;
                }
                match self.inlets.take(lane) {
                    Taking::Record(record) => self.take(lane, &record, put),
                    Taking::Empty => break,
                    Taking::Gone => self.end_lane(lane, put),
                }
                worked = true;
                if self.has_news() {
                    return Progress::Worked;
                }
            }
        }
        // With an heir, readouts may need this builder until they have gone.
        let waits = self.heir.is_some() && self.is_over.contains(&false);
        match worked {
            _ if self.is_built() && !waits => Progress::Over,
            true => Progress::Worked,
            false => Progress::Idle,
        }
    }

    fn has_news(&self) -> bool {
        self.heir.as_ref().is_some_and(|heir| heir.taken_over.is_some())
    }

    /// Ends the lanes of readouts that have not ended, and all events; returns their numbers. Open
    /// events are stopped then: what these readouts had not sent is in none.
    pub fn stop(&mut self, put: &mut Put<'_>) -> Vec<u16> {
        let has_ended = |lane: usize| self.partition().end_of(lane as u16).is_none();
        let open = (0..self.is_over.len()).filter(|lane| !self.is_over[*lane] && !has_ended(*lane));
        let open: Vec<u16> = open.map(|lane| lane as u16).collect();
        if !open.is_empty() {
            self.partitions.values_mut().for_each(PartitionBuilder::cut_off);
        }
        for lane in &open {
            self.end_lane(usize::from(*lane), put);
        }
        self.dead.retain(|readout| !open.contains(readout));
        open
    }

    /// Sleeps until a record may have come, at most `most`.
    pub fn rest(&mut self, most: Span) {
        self.inlets.rest(most);
    }

    /// Returns true while the records of a readout may be taken.
    fn may_take(&self, lane: u16) -> bool {
        let mut short = self.partitions.values().filter(|of| !of.has_room()).peekable();
        short.peek().is_none() || short.any(|partition| partition.may_take(lane))
    }

    fn take(&mut self, lane: usize, record: &Arc<[u8]>, put: &mut Put<'_>) {
        self.bytes += record.len() as u64;
        match Message::parse(record) {
            None => self.feed(self.own, record, put),
            Some(Message::Record(partition, bytes)) => {
                let record: Arc<[u8]> = bytes.into();
                if self.partitions.contains_key(&partition) {
                    self.feed(partition, &record, put);
                } else if let Some(heir) = &mut self.heir {
                    heir.keep(partition, record);
                }
            }
            Some(message) => {
                if let Some(heir) = &mut self.heir {
                    heir.hear(lane, message);
                    heir.decide(self.inlets.has_crashed());
                }
            }
        }
    }

    fn feed(&mut self, partition: u32, record: &Arc<[u8]>, put: &mut Put<'_>) {
        let Some(of) = self.partitions.get_mut(&partition) else { return };
        of.put(of.next_offset(), record);
        while let Advance::Batch(batch) = of.advance(&mut KeepAll) {
            put(partition, of, batch);
        }
    }

    /// Ends a lane. A readout that has not said its end is dead: events go on without it.
    fn end_lane(&mut self, lane: usize, put: &mut Put<'_>) {
        self.is_over[lane] = true;
        let has_ended = self.partition().end_of(lane as u16).is_none();
        if let Some(heir) = &mut self.heir {
            heir.end(lane, has_ended);
        }
        if !has_ended {
            // A builder that crashed itself hears nobody: that says nothing about the readouts.
            let has_crashed = self.inlets.has_crashed();
            if has_crashed {
                self.partitions.values_mut().for_each(PartitionBuilder::cut_off);
            }
            if !has_crashed || planted!(22) {
                self.dead.push(lane as u16);
            }
        }
        self.end_partitions(lane, put);
        if let Some(heir) = &mut self.heir {
            heir.decide(self.inlets.has_crashed());
        }
    }

    fn end_partitions(&mut self, lane: usize, put: &mut Put<'_>) {
        let numbers: Vec<u32> = self.partitions.keys().copied().collect();
        for number in numbers {
            if let Some(head) = self.partitions[&number].end_of(lane as u16) {
                let record: Arc<[u8]> = RecordWriter::default().finish(&head).into();
                self.feed(number, &record, put);
            }
        }
    }
}

impl PartitionBuilder {
    /// Returns the record that ends a readout which has died and will not start again; `None`: it
    /// has ended by itself.
    fn end_of(&self, number: u16) -> Option<RecordHead> {
        let node = self.nodes.get(&number).filter(|node| !node.end_came)?;
        let start = node.newest_start;
        let (sequence, packets_before) = self.arrived_of(number, start);
        let mark = node.mark.max(self.now());
        let (run, node, is_end) = (self.run(), number, true);
        let changes = self.changes;
        Some(RecordHead {
            run,
            node,
            start,
            sequence,
            packets_before,
            mark,
            changes,
            is_end,
            ..RecordHead::default()
        })
    }

    /// Returns true while there is memory for records that wait.
    fn has_room(&self) -> bool {
        self.held_bytes <= self.held_bytes_max()
    }

    /// Returns true while the records of a readout may be taken: there is memory, or the others
    /// wait for it.
    fn may_take(&self, number: u16) -> bool {
        let Some(node) = self.nodes.get(&number) else { return true };
        if self.has_room() || node.queue.len() == 0 {
            return true;
        }
        let open = self.nodes.values().filter(|node| node.holds_others());
        open.map(|node| node.mark).min().is_none_or(|lowest| node.mark <= lowest)
    }
}
