//! The obvious queue: one heap. What the calendar is tested against and measured against.

use std::collections::BinaryHeap;

use super::slot::Slot;
use crate::Instant;

/// Entries in a binary heap: O(log n) for each, whatever their delays.
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

    /// Takes the earliest; of equal times the one with the smallest number.
    pub fn pop(&mut self) -> Option<Slot<E>> {
        self.slots.pop()
    }

    /// Returns the time at which the earliest is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.slots.peek().map(|slot| slot.at)
    }

    /// Entries in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
