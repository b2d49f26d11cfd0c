//! Prefetching: reads the memory that the next entries need, before their turn.
//!
//! A model of thousands of components is larger than the near caches, and the entries of one moment
//! are spread all over it. Each entry waits for memory several times, one wait after the other.
//! Reading ahead for a group of entries makes the waits overlap. Reading changes nothing, so
//! neither order nor result depends on it.

use crate::Agenda;

/// Entries of a group. Assumed: about as many loads as a core can have under way (16 to 24).
const GROUP: usize = 16;

/// The distance of an entry's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// The group after the next: read the memory that the entry itself names.
    Soon,
    /// The next group: read the memory to which the first read leads.
    Next,
}

/// Shows a model its next entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    touched: usize,
}

impl Ahead {
    /// Call this before each entry is taken. `touch` reads the memory that an entry will need; it
    /// is not called while fewer entries than a group are in order. Cost without a `touch`: a
    /// comparison.
    #[inline]
    pub fn step<E>(&mut self, agenda: &Agenda<E>, mut touch: impl FnMut(&E, Nearness)) {
        if self.touched > 0 {
            self.touched -= 1;
            return;
        }
        let mut upcoming = agenda.upcoming();
        if upcoming.len() < GROUP {
            return;
        }
        upcoming.by_ref().take(GROUP).for_each(|entry| touch(entry, Nearness::Next));
        upcoming.take(GROUP).for_each(|entry| touch(entry, Nearness::Soon));
        self.touched = GROUP - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Ahead, GROUP, Nearness};
    use crate::{Agenda, Instant};

    #[test]
    fn an_entry_is_named_twice_before_its_turn_in_a_crowd_never_after_it_and_never_alone() {
        let mut agenda: Agenda<usize> = Agenda::default();
        let count = 5 * GROUP;
        (0..count).for_each(|entry| agenda.schedule(Instant::from_ps(7_000_000), entry));
        agenda.schedule(Instant::from_ps(9_000_000), count);
        let mut ahead = Ahead::default();
        let (mut soon, mut next) = (vec![], vec![]);
        for taken in 0..=count {
            ahead.step(&agenda, |&entry, nearness| {
                assert!(entry >= taken, "{entry} was taken before {taken}");
                match nearness {
                    Nearness::Soon => soon.push(entry),
                    Nearness::Next => next.push(entry),
                }
            });
            assert_eq!(agenda.take(Instant::NEVER), Some(taken));
        }
        // The first entry opens the day; the last group is not full.
        assert_eq!(next, (1..=4 * GROUP).collect::<Vec<_>>());
        assert_eq!(soon, (GROUP + 1..count).collect::<Vec<_>>());
    }
}
