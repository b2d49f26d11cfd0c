//! Entries that were scheduled for the open day after it was opened.
//!
//! Most of them come in order: models schedule work for this very moment, and numbers grow. They
//! form a queue. Only an entry that is due before the last one of the queue goes into a heap.

use std::collections::{BinaryHeap, VecDeque};

use super::slot::Slot;

/// Late entries, the earliest first.
#[derive(Debug)]
pub struct Late<E> {
    in_order: VecDeque<Slot<E>>,
    others: BinaryHeap<Slot<E>>,
}

impl<E> Default for Late<E> {
    fn default() -> Late<E> {
        Late { in_order: VecDeque::new(), others: BinaryHeap::new() }
    }
}

impl<E> Late<E> {
    /// Adds an entry. A calendar that is renewed adds equal times in any order of their numbers.
    #[inline]
    pub fn push(&mut self, slot: Slot<E>) {
        // The order of slots is reversed: the larger one is due earlier.
        if self.in_order.back().is_none_or(|last| *last > slot) {
            self.in_order.push_back(slot);
        } else {
            self.others.push(slot);
        }
    }

    /// Returns the earliest entry.
    #[inline]
    pub fn first(&self) -> Option<&Slot<E>> {
        match (self.in_order.front(), self.others.peek()) {
            (Some(first), Some(other)) => Some(first.max(other)),
            (first, other) => first.or(other),
        }
    }

    /// Removes the earliest entry.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot<E>> {
        match (self.in_order.front(), self.others.peek()) {
            (first, Some(other)) if first.is_none_or(|first| first < other) => self.others.pop(),
            _ => self.in_order.pop_front(),
        }
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    /// Returns true if there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.others.is_empty()
    }

    /// Removes all entries, in any order.
    pub fn drain(&mut self) -> impl Iterator<Item = Slot<E>> {
        self.in_order.drain(..).chain(self.others.drain())
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::Draw;

    use super::Late;
    use crate::Instant;
    use crate::core::agenda::slot::Slot;

    /// The obvious model: all entries in one list, searched for the earliest.
    fn pop_earliest(list: &mut Vec<(u64, u64)>) -> Option<(u64, u64)> {
        let place = (0..list.len()).min_by_key(|&place| list[place])?;
        Some(list.remove(place))
    }

    #[test]
    fn late_entries_come_as_from_a_list_that_is_searched_for_the_earliest() {
        for seed in 0..50 {
            println!("seed {seed}");
            let mut draw = Draw::new(seed);
            let (mut late, mut list) = (Late::default(), Vec::new());
            // From always in order to an order by chance.
            let disorder = [0.0, 0.02, 0.5, 1.0][seed as usize % 4];
            let mut newest = 0;
            for step in 0..2_000 {
                // For every other seed, numbers do not grow within groups of four.
                let number = if seed % 8 < 4 { step } else { step ^ 3 };
                newest += draw.below(2);
                let early = if draw.chance(disorder) { draw.below(20) } else { 0 };
                let at = newest.saturating_sub(early);
                late.push(Slot { at: Instant::from_ps(at), number, entry: () });
                list.push((at, number));
                for _ in 0..draw.below(3) {
                    let first = late.first().map(|slot| (slot.at.as_ps(), slot.number));
                    let taken = late.pop().map(|slot| (slot.at.as_ps(), slot.number));
                    assert_eq!(first, taken);
                    assert_eq!(taken, pop_earliest(&mut list));
                }
                assert_eq!((late.len(), late.is_empty()), (list.len(), list.is_empty()));
            }
            assert_eq!(late.drain().count(), list.len());
            assert!(late.is_empty());
        }
    }
}
