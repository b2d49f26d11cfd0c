//! The simple queue, one heap: the reference for tests and benchmarks of the calendar.

use std::collections::BinaryHeap;

use super::slot::Slot;
use crate::Instant;

/// Entries in a binary heap: O(log n) for each entry, for all delays.
#[derive(Debug)]
pub struct Heap<E> {
    slots: BinaryHeap<Slot<E>>,
}

impl<E> Default for Heap<E> {
    fn default() -> Heap<E> {
        Heap { slots: BinaryHeap::new() }
    }
}

impl<E> Heap<E> {
    /// Adds an entry. `number` must be larger than all before.
    pub fn push(&mut self, at: Instant, number: u64, entry: E) {
        self.slots.push(Slot { at, number, entry });
    }

    /// Removes the earliest entry; of equal times, the one with the smallest number.
    pub fn pop(&mut self) -> Option<Slot<E>> {
        self.slots.pop()
    }

    /// Returns the due time of the earliest entry.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.slots.peek().map(|slot| slot.at)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
