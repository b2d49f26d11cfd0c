//! The queue of future entries, in order of time; equal times in the order of scheduling.

pub mod calendar;
pub mod heap;
mod late;
pub mod slot;

use std::marker::PhantomData;

use calendar::Calendar;

use crate::{Duration, Instant};

/// The future entries. A model made of models has an entry type that its parts' entries convert
/// into.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Instant,
    number: u64,
    queue: Calendar<E>,
}

/// The agenda as one part of a model sees it: the time, and entries of its own.
pub trait Schedule<T> {
    /// Returns the time.
    fn now(&self) -> Instant;

    /// Adds an entry at `at`; a past time counts as now.
    fn schedule(&mut self, at: Instant, entry: T);

    /// Adds an entry `after` from now.
    fn schedule_after(&mut self, after: Duration, entry: T) {
        self.schedule(self.now() + after, entry);
    }
}

impl<T, E: From<T>> Schedule<T> for Agenda<E> {
    #[inline]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline]
    fn schedule(&mut self, at: Instant, entry: T) {
        Agenda::schedule(self, at, entry);
    }
}

/// The schedule of a part that itself has a part: entries `P` become entries `W` of the whole.
pub struct Part<'a, S, W> {
    whole: &'a mut S,
    entries: PhantomData<fn(W)>,
}

impl<'a, S: Schedule<W>, W> Part<'a, S, W> {
    /// Takes the schedule of the whole.
    pub fn of(whole: &'a mut S) -> Part<'a, S, W> {
        Part { whole, entries: PhantomData }
    }
}

impl<P, W: From<P>, S: Schedule<W>> Schedule<P> for Part<'_, S, W> {
    #[inline]
    fn now(&self) -> Instant {
        self.whole.now()
    }

    #[inline]
    fn schedule(&mut self, at: Instant, entry: P) {
        self.whole.schedule(at, W::from(entry));
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { now: Instant::START, number: 0, queue: Calendar::default() }
    }
}

impl<E> Agenda<E> {
    /// Returns the time of the last entry taken.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of future entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns true if there are no future entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the time at which the next entry is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.next_at()
    }

    /// Adds an entry at `at`; a past time counts as now.
    #[inline]
    pub fn schedule(&mut self, at: Instant, entry: impl Into<E>) {
        let at = at.max(self.now);
        self.queue.push(at, self.number, entry.into());
        self.number += 1;
    }

    /// Adds an entry `after` from now.
    pub fn schedule_after(&mut self, after: Duration, entry: impl Into<E>) {
        self.schedule(self.now + after, entry);
    }

    /// Takes the next entry that is due by `until`; its time becomes now.
    pub fn take(&mut self, until: Instant) -> Option<E> {
        let slot = self.queue.pop_by(until)?;
        self.now = slot.at;
        Some(slot.entry)
    }

    /// Returns the next entries that are already in order: those of the open day, without entries
    /// that were scheduled for it after it was opened.
    pub fn upcoming(&self) -> impl ExactSizeIterator<Item = &E> {
        self.queue.opened().map(|slot| &slot.entry)
    }

    /// Advances now to `to` if nothing is due before.
    pub fn idle_until(&mut self, to: Instant) {
        let to = self.next_at().map_or(to, |next| next.min(to));
        self.now = self.now.max(to);
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::Draw;

    use super::calendar::Calendar;
    use super::heap::Heap;
    use super::{Agenda, Instant};
    use crate::Duration;

    #[test]
    fn equal_times_come_in_the_order_of_scheduling() {
        let mut agenda: Agenda<u32> = Agenda::default();
        agenda.schedule(Instant::from_ps(5), 1_u32);
        agenda.schedule(Instant::from_ps(3), 2_u32);
        (10..20).for_each(|entry: u32| agenda.schedule(Instant::from_ps(5), entry));
        let taken: Vec<u32> = std::iter::from_fn(|| agenda.take(Instant::NEVER)).collect();
        assert_eq!(taken, [2, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn nothing_is_taken_before_it_is_due_and_time_never_runs_back() {
        let mut agenda: Agenda<u32> = Agenda::default();
        agenda.schedule(Instant::from_ps(7), 1_u32);
        assert_eq!(agenda.take(Instant::from_ps(6)), None);
        agenda.idle_until(Instant::from_ps(100));
        assert_eq!(agenda.now(), Instant::from_ps(7));
        assert_eq!(agenda.take(Instant::from_ps(7)), Some(1));
        agenda.schedule(Instant::from_ps(1), 2_u32);
        assert_eq!(agenda.take(Instant::NEVER), Some(2));
        assert_eq!(agenda.now(), Instant::from_ps(7));
        agenda.schedule_after(Duration::from_ps(2), 3_u32);
        assert_eq!(agenda.next_at(), Some(Instant::from_ps(9)));
    }

    /// Returns a delay of one kind. Runs of one kind meet days that are too long or too short.
    fn delay(draw: &mut Draw, kind: u64) -> u64 {
        match kind {
            0 => 0,
            1 => draw.below(10),
            2 => 4_000,
            3 => draw.below(1_000_000),
            4 => 1 << draw.below(45),
            _ => u64::MAX - draw.below(3),
        }
    }

    #[test]
    fn the_calendar_hands_out_what_a_heap_does_whatever_the_delays() {
        for seed in 0..24 {
            println!("seed {seed}");
            let mut draw = Draw::new(seed);
            let (mut calendar, mut heap) = (Calendar::default(), Heap::default());
            let (mut now, mut number, mut kind) = (0_u64, 0_u64, 0);
            let wanted = [1, 30, 3_000, 20_000][seed as usize % 4];
            for step in 0..60_000 {
                if step % 5_000 == 0 {
                    kind = draw.below(6);
                }
                let is_push = heap.len() < wanted || (heap.len() < 2 * wanted && draw.chance(0.5));
                if is_push {
                    let at = Instant::from_ps(now.saturating_add(delay(&mut draw, kind)));
                    calendar.push(at, number, number);
                    heap.push(at, number, number);
                    number += 1;
                } else {
                    assert_eq!(calendar.next_at(), heap.next_at());
                    let (got, due) = (calendar.pop().expect("one"), heap.pop().expect("one"));
                    assert_eq!((got.at, got.number, got.entry), (due.at, due.number, due.entry));
                    now = if got.at.as_ps() > u64::MAX / 2 { now } else { got.at.as_ps() };
                }
                assert_eq!(calendar.len(), heap.len());
            }
            while let Some(due) = heap.pop() {
                assert_eq!(calendar.pop().map(|slot| slot.number), Some(due.number));
            }
            assert!(calendar.is_empty() && calendar.next_at().is_none());
        }
    }

    #[test]
    fn a_look_that_takes_nothing_leaves_room_for_earlier_entries() {
        let mut agenda: Agenda<u32> = Agenda::default();
        agenda.schedule(Instant::from_ps(1_000_000), 1_u32);
        assert_eq!(agenda.take(Instant::from_ps(10)), None);
        agenda.schedule(Instant::from_ps(500), 2_u32);
        agenda.schedule(Instant::from_ps(500_000_000), 3_u32);
        let taken: Vec<u32> = std::iter::from_fn(|| agenda.take(Instant::NEVER)).collect();
        assert_eq!(taken, [2, 1, 3]);
    }
}
