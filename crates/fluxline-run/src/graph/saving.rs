//! The way of a builder's state to the readouts, which keep what it does not have yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use fluxline_cluster::builder::BuilderNode;
use fluxline_cluster::edges::{Inlets, Offered};
use fluxline_cluster::succession::{Message, Saved, pieces};
use fluxline_core::{Moment, Span};

use super::from_node::FromNode;
use crate::record::{Mark, Settled};

/// The longest time without a state, while records come.
const SAVE_EVERY: Span = Span::from_ms(1_000);
/// The same in virtual time, where runs are short.
const SAVE_EVERY_VIRTUAL: Span = Span::from_ms(10);

/// The saves of one builder.
pub(crate) struct Saving {
    builder: usize,
    /// Bytes of records after which a state is due.
    share: u64,
    /// Batches of a simulated world need no disk.
    is_virtual: bool,
    number: u64,
    /// Bytes of records and time at the last state.
    saved_bytes: u64,
    saved: Moment,
    /// The state that waits until its batches are recorded.
    made: Option<Saved>,
    /// The last mark was set, behind everything.
    is_ending: bool,
    /// The readouts know the end: for each, the moves that it had asked for.
    told: Option<Vec<u32>>,
    /// The disk failed: nothing can be saved any more.
    has_failed: bool,
    /// For each readout: messages that it has no room for.
    waiting: Vec<VecDeque<Arc<[u8]>>>,
    settled: (Sender<Settled>, Receiver<Settled>),
}

impl Saving {
    /// Makes the saves of a builder for readouts that keep `keep_bytes` each, for all builders.
    pub fn new(builder: usize, sizes: Sizes, is_virtual: bool) -> Saving {
        let Sizes { readouts, builders, keep_bytes } = sizes;
        Saving {
            builder,
            share: (keep_bytes / 4 * readouts as u64 / builders.max(1) as u64).max(1),
            is_virtual,
            number: 0,
            saved_bytes: 0,
            saved: Moment::default(),
            made: None,
            is_ending: false,
            told: None,
            has_failed: false,
            waiting: vec![VecDeque::new(); readouts],
            settled: channel(),
        }
    }

    /// Does what is due, without waiting for anybody.
    pub fn go_on<I: Inlets>(&mut self, node: &mut BuilderNode<I>, to: &SyncSender<FromNode>) {
        while let Some(message) = node.next_message() {
            self.tell_all(&message);
        }
        self.settle(node);
        if node.is_built() {
            self.end(node, to);
        } else {
            (self.is_ending, self.told) = (self.is_ending && self.told.is_none(), None);
            self.save_when_due(node, to);
        }
        for (readout, waiting) in self.waiting.iter_mut().enumerate() {
            while let Some(message) = waiting.front() {
                match node.inlets().answer(readout as u32, message) {
                    Offered::Taken => drop(waiting.pop_front()),
                    Offered::Full => break,
                    Offered::Gone(_) => waiting.clear(),
                }
            }
        }
    }

    fn tell_all(&mut self, message: &Message<'_>) {
        let message: Arc<[u8]> = message.to_bytes().into();
        self.waiting.iter_mut().for_each(|waiting| waiting.push_back(Arc::clone(&message)));
    }

    fn save_when_due<I: Inlets>(&mut self, node: &BuilderNode<I>, to: &SyncSender<FromNode>) {
        let (bytes, now) = (node.bytes() - self.saved_bytes, node.partition().now());
        let age = if self.is_virtual { SAVE_EVERY_VIRTUAL } else { SAVE_EVERY };
        let is_due = bytes >= self.share || (bytes > 0 && now.since(self.saved) >= age);
        let is_busy = self.made.is_some()
            || self.is_ending
            || self.has_failed
            || self.waiting.iter().any(|waiting| !waiting.is_empty());
        if !is_due || is_busy {
            return;
        }
        let Some(saved) = Saved::of(self.number + 1, node.partitions()) else { return };
        (self.saved_bytes, self.saved) = (node.bytes(), now);
        self.number += 1;
        self.made = Some(saved);
        self.mark(to, false);
    }

    fn mark(&self, to: &SyncSender<FromNode>, is_last: bool) {
        // The collector lives as long as any builder.
        let _ = match self.is_virtual {
            true if is_last => Ok(()),
            true => to.send(FromNode::Saving { builder: self.builder, number: self.number }),
            false => to.send(FromNode::Mark(Mark { is_last, to: self.settled.0.clone() })),
        };
    }

    /// Sends the state whose batches are recorded.
    fn settle<I: Inlets>(&mut self, node: &BuilderNode<I>) {
        if self.made.is_none() && (!self.is_ending || self.told.is_some()) {
            return;
        }
        let settled = match self.is_virtual {
            true => Some(Settled { batches: 0, is_safe: true }),
            false => self.settled.1.try_recv().ok(),
        };
        let Some(Settled { batches, is_safe }) = settled else { return };
        self.has_failed |= !is_safe;
        if let Some(saved) = self.made.take() {
            if is_safe {
                let bytes = Saved { batches, ..saved }.to_bytes();
                pieces(&bytes).for_each(|piece| self.tell_all(&piece));
                self.tell_all(&Message::Saved);
            }
        } else if node.is_built() {
            let moves: Vec<u32> =
                (0..self.waiting.len()).map(|readout| node.moves_of(readout)).collect();
            for (waiting, moves) in self.waiting.iter_mut().zip(&moves) {
                waiting.push_back(Message::Done(*moves).to_bytes().into());
            }
            self.told = Some(moves);
        } else {
            self.is_ending = false;
        }
    }

    /// Tells the readouts that everything is built and recorded.
    fn end<I: Inlets>(&mut self, node: &BuilderNode<I>, to: &SyncSender<FromNode>) {
        if let Some(told) = &self.told {
            let is_same = told.iter().enumerate().all(|(of, moves)| *moves == node.moves_of(of));
            if is_same {
                return;
            }
            (self.told, self.is_ending) = (None, false);
        }
        // Marks are answered in their order: one for a state that waits comes first.
        if !self.is_ending {
            self.is_ending = true;
            self.mark(to, true);
        }
    }
}

/// The sizes by which a builder saves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub readouts: usize,
    pub builders: usize,
    pub keep_bytes: u64,
}
