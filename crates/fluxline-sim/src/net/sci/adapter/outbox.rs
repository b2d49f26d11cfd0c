//! Messages to one peer, on their way to the slots of its mailbox.

use std::collections::VecDeque;

use super::mailbox::SLOTS;

/// A message, and the job that brings it.
#[derive(Debug)]
pub struct Letter {
    /// The job.
    pub job: u64,
    /// The message.
    pub message: Vec<u8>,
}

/// Messages to one peer. A node has an outbox for each of its peers, so one without messages keeps
/// little memory.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Messages that were given a slot.
    written: u32,
    /// Of these, in order, whose writes are not answered: a copy of one may still come to its slot.
    open: Vec<u32>,
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
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        self.written = self.written.wrapping_add(1);
        self.open.push(self.written);
        Some((self.written, letter))
    }

    /// Notes that all writes of a message are answered.
    pub fn answered(&mut self, number: u32) {
        self.open.retain(|&other| other != number);
    }

    /// Returns the jobs of the messages that have no slot.
    pub fn jobs(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|letter| letter.job)
    }
}
