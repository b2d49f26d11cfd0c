//! Messages to one peer, on their way to the slots of its mailbox.

use std::collections::{BTreeSet, VecDeque};

use super::mailbox::SLOTS;

/// A message, and the job that brings it.
#[derive(Debug)]
pub struct Letter {
    /// The job.
    pub job: u64,
    /// The message.
    pub message: Vec<u8>,
}

/// Messages to one peer.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Messages that were given a slot.
    written: u32,
    /// Of these, whose writes are not answered: a copy of one may still come to its slot.
    open: BTreeSet<u32>,
    waiting: VecDeque<Letter>,
}

impl Outbox {
    /// Adds a message.
    pub fn add(&mut self, letter: Letter) {
        self.waiting.push_back(letter);
    }

    /// Returns the next message for which there is a slot, with its number; the peer has read
    /// `read` messages.
    pub fn next(&mut self, read: u32) -> Option<(u32, Letter)> {
        let read = self.open.first().map_or(read, |&first| read.min(first - 1));
        if self.written.wrapping_sub(read) >= SLOTS {
            return None;
        }
        let letter = self.waiting.pop_front()?;
        self.written = self.written.wrapping_add(1);
        self.open.insert(self.written);
        Some((self.written, letter))
    }

    /// Notes that all writes of a message are answered.
    pub fn answered(&mut self, number: u32) {
        self.open.remove(&number);
    }

    /// Returns the jobs of the messages that have no slot.
    pub fn jobs(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|letter| letter.job)
    }
}
