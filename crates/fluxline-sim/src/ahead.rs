//! Memory that the next entries need, asked for before their turn.
//!
//! A model of thousands of components is larger than the near caches, and entries of one moment are
//! spread all over it: each waits for memory several times, one wait after the other. Read ahead
//! for a group of entries, the waits overlap. Reading changes nothing, so neither order nor result
//! can depend on it.

use crate::Agenda;

/// Entries of a group. Assumed: about as many loads as a core can have under way (16 to 24).
const GROUP: usize = 16;

/// The distance of an entry's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// The group after the next: what the entry itself names should be read.
    Soon,
    /// The next group: what that leads to should be read.
    Next,
}

/// Tells a model which entries are near.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    touched: usize,
}

impl Ahead {
    /// To be called before each entry is taken. `touch` reads what an entry will need; it is not
    /// called while less than a group of entries lies ready. Cost without a `touch`: a comparison.
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
        // The day is opened by its first entry; its last group is less than one.
        assert_eq!(next, (1..=4 * GROUP).collect::<Vec<_>>());
        assert_eq!(soon, (GROUP + 1..count).collect::<Vec<_>>());
    }
}
