//! One entry with its place in the order.

use std::cmp::Ordering;

use crate::Instant;

/// An entry, when it is due, and its number of scheduling, which no other entry has.
#[derive(Debug)]
pub struct Slot<E> {
    /// The time at which it is due.
    pub at: Instant,
    /// The number of entries scheduled before it.
    pub number: u64,
    /// The work to do.
    pub entry: E,
}

impl<E> Slot<E> {
    /// Time above number in one word: one comparison without a branch.
    fn key(&self) -> u128 {
        (u128::from(self.at.as_ps()) << 64) | u128::from(self.number)
    }
}

impl<E> Ord for Slot<E> {
    fn cmp(&self, other: &Slot<E>) -> Ordering {
        // Reversed, because the standard heap hands out its largest.
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Slot<E> {
    fn partial_cmp(&self, other: &Slot<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Slot<E> {
    fn eq(&self, other: &Slot<E>) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Slot<E> {}
