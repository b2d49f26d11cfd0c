//! One entry with its position in the order.

use std::cmp::Ordering;

use crate::Instant;

/// An entry, its due time, and its unique scheduling number.
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
    /// Returns time and number in one word, time in the upper half: one comparison without a
    /// branch.
    fn key(&self) -> u128 {
        (u128::from(self.at.as_ps()) << 64) | u128::from(self.number)
    }
}

impl<E> Ord for Slot<E> {
    fn cmp(&self, other: &Slot<E>) -> Ordering {
        // Reversed, because the standard heap returns its largest element first.
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
