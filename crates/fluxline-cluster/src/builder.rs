//! The builder node: records of all readouts in, batches of events out.

use std::sync::Arc;

use fluxline_core::Span;

use crate::edges::{Inlets, Taking};
use crate::entry::{RecordHead, RecordWriter};
use crate::partition::Advance;
use crate::{KeepAll, OutputBatch, PartitionBuilder};

/// Records of one lane that are taken before the next has its turn.
const RECORDS_PER_TURN: usize = 16;

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

/// A builder of one partition with its edges.
pub struct BuilderNode<I> {
    inlets: I,
    partition: PartitionBuilder,
    /// For each readout: its lane is over.
    is_over: Vec<bool>,
    /// Readouts whose lane ended before they did.
    dead: Vec<u16>,
    taken: u64,
}

impl<I: Inlets> BuilderNode<I> {
    /// Makes the builder of `partition`, which has a lane in `inlets` for each readout.
    pub fn new(inlets: I, partition: PartitionBuilder) -> BuilderNode<I> {
        let is_over = vec![false; partition.nodes_expected()];
        BuilderNode { inlets, partition: partition.keep_all(), is_over, dead: Vec::new(), taken: 0 }
    }

    /// Returns the builder of the partition.
    pub fn partition(&self) -> &PartitionBuilder {
        &self.partition
    }

    /// Returns the builder of the partition, to set it up before the first record, and for its
    /// reports.
    pub fn partition_mut(&mut self) -> &mut PartitionBuilder {
        &mut self.partition
    }

    /// Returns the readouts that died: their lanes ended before they did.
    pub fn dead(&self) -> &[u16] {
        &self.dead
    }

    /// Returns the edges.
    pub fn inlets(&mut self) -> &mut I {
        &mut self.inlets
    }

    /// Takes a turn of each lane; `put` gets the batches.
    ///
    /// While memory for records that wait for other readouts is short, only the readout is heard
    /// that the others wait for: theirs stay in the edges, and hold the readouts back.
    pub fn step(&mut self, put: &mut dyn FnMut(&PartitionBuilder, OutputBatch)) -> Progress {
        self.inlets.progress();
        let mut worked = false;
        for lane in 0..self.is_over.len() {
            for _ in 0..RECORDS_PER_TURN {
                if self.is_over[lane] || !self.partition.may_take(lane as u16) {
                    break;
                }
                match self.inlets.take(lane) {
                    Taking::Record(record) => self.take(&record, put),
                    Taking::Empty => break,
                    Taking::Gone => self.end_lane(lane, put),
                }
                worked = true;
            }
        }
        match worked {
            _ if self.partition.is_ended() => Progress::Over,
            true => Progress::Worked,
            false => Progress::Idle,
        }
    }

    /// Ends the lanes of readouts that have not ended, and all events; returns their numbers. Open
    /// events are stopped then: what these readouts had not sent is in none.
    pub fn stop(&mut self, put: &mut dyn FnMut(&PartitionBuilder, OutputBatch)) -> Vec<u16> {
        let open = (0..self.is_over.len())
            .filter(|lane| !self.is_over[*lane] && self.partition.end_of(*lane as u16).is_some());
        let open: Vec<u16> = open.map(|lane| lane as u16).collect();
        if !open.is_empty() {
            self.partition.cut_off();
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

    fn take(&mut self, record: &Arc<[u8]>, put: &mut dyn FnMut(&PartitionBuilder, OutputBatch)) {
        self.partition.put(self.taken, record);
        self.taken += 1;
        while let Advance::Batch(batch) = self.partition.advance(&mut KeepAll) {
            put(&self.partition, batch);
        }
    }

    /// Ends a lane. A readout that has not said its end is dead: events go on without it.
    fn end_lane(&mut self, lane: usize, put: &mut dyn FnMut(&PartitionBuilder, OutputBatch)) {
        self.is_over[lane] = true;
        if let Some(head) = self.partition.end_of(lane as u16) {
            // A builder that crashed itself hears nobody: that says nothing about the readouts.
            if self.inlets.has_crashed() {
                self.partition.cut_off();
            } else {
                self.dead.push(lane as u16);
            }
            let record: Arc<[u8]> = RecordWriter::default().finish(&head).into();
            self.take(&record, put);
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

    /// Returns true while the records of a readout may be taken: there is memory, or the others
    /// wait for it.
    fn may_take(&self, number: u16) -> bool {
        let Some(node) = self.nodes.get(&number) else { return true };
        if self.held_bytes <= self.held_bytes_max() || node.queue.len() == 0 {
            return true;
        }
        let open = self.nodes.values().filter(|node| node.holds_others());
        open.map(|node| node.mark).min().is_none_or(|lowest| node.mark <= lowest)
    }
}
