//! A calendar queue: each day holds its entries unsorted, and sorts them only when the day is
//! opened.
//!
//! A day is 2^shift ps long; the days ahead form a ring. New entries of the open day wait apart
//! (`late.rs`), entries beyond the ring in a heap. For arbitrary delays the calendar is as fast as
//! a heap; for the delays of models it is 1.6 to 60 times as fast (`benches/agenda.rs`, ADR 0012).
//! The length of a day adapts to the traffic. It never changes the order of entries, which depends
//! on (time, number) alone.

use std::collections::BinaryHeap;

use super::late::Late;
use super::slot::Slot;
use crate::Instant;

/// Days of a new calendar. Derived: their vector headers (24 KiB) fit into a first-level cache of
/// 32 KiB.
const DAYS_MIN: usize = 1 << 10;
/// Days at most. Derived: headers that do not fit into a second-level cache of 2 MiB slow the
/// calendar down again.
const DAYS_MAX: usize = 1 << 15;
/// Entries a day that a growing calendar aims at. Measured: 4 to 16 are equal within 10 %.
const ENTRIES_PER_DAY: usize = 8;
/// Length of a day at the start: 2^10 ps, about the time of 16 bytes on a fast link.
const SHIFT_START: u32 = 10;
/// Longest day: 2^50 ps are 19 minutes.
const SHIFT_MAX: u32 = 50;
/// Pushes between two looks at the length of a day. Assumed. A change costs about twenty pushes,
/// plus one push of each entry.
const LOOK_EVERY: u64 = 4096;

/// The counts since the last check.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    pushes: u64,
    /// Entries for the open day that are due later than now: shorter days would separate them.
    late: u64,
    /// Entries for days beyond the ring.
    far: u64,
    /// Days opened whose entries were spread over at least half of the day, and the number of these
    /// entries. Shorter days do not separate entries that are all due at the same time.
    days_opened: u64,
    entries_opened: u64,
}

/// The last change of the length of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Shorter,
    Longer,
}

/// Entries by day.
#[derive(Debug)]
pub struct Calendar<E> {
    /// The open day, latest first.
    open: Vec<Slot<E>>,
    /// Entries scheduled for the open day or an earlier one, after it was opened.
    late: Late<E>,
    /// Number of the open day.
    day: u64,
    /// The due time of the last entry taken.
    taken_at: Instant,
    /// The days after the open one; day d is at index d modulo their number.
    days: Vec<Vec<Slot<E>>>,
    /// Memory of past days, the latest on top. A day that gets its first entry reuses it while it
    /// is still in a near cache. It would be cold if it stayed with its day until the ring comes
    /// round.
    spare: Vec<Vec<Slot<E>>>,
    /// A bit for each day that has entries.
    filled: Vec<u64>,
    in_days: usize,
    /// Entries after the last day of the ring.
    far: BinaryHeap<Slot<E>>,
    shift: u32,
    tally: Tally,
    look_every: u64,
    last_turn: Option<Turn>,
}

impl<E> Default for Calendar<E> {
    fn default() -> Calendar<E> {
        Calendar {
            open: Vec::new(),
            late: Late::default(),
            day: 0,
            taken_at: Instant::START,
            days: std::iter::repeat_with(Vec::new).take(DAYS_MIN).collect(),
            spare: Vec::new(),
            filled: vec![0; DAYS_MIN / 64],
            in_days: 0,
            far: BinaryHeap::new(),
            shift: SHIFT_START,
            tally: Tally::default(),
            look_every: LOOK_EVERY,
            last_turn: None,
        }
    }
}

impl<E> Calendar<E> {
    /// Adds an entry. `number` must be larger than all before.
    ///
    /// Inlined, so that a new entry goes from registers to its day. Passed in memory, it would be
    /// written in parts and then read as a whole, and the read would wait until all earlier writes
    /// have reached the cache (docs/simulation/sci-notebook.md, "Cost").
    #[inline(always)]
    pub fn push(&mut self, at: Instant, number: u64, entry: E) {
        self.tally.pushes += 1;
        let day = at.as_ps() >> self.shift;
        let place = self.place_of(day);
        let is_ahead = day.wrapping_sub(self.day).wrapping_sub(1) < self.days.len() as u64 - 1;
        let has_space = self.days[place].len() < self.days[place].capacity();
        if is_ahead && has_space {
            self.filled[place / 64] |= 1 << (place % 64);
            self.in_days += 1;
            self.days[place].push(Slot { at, number, entry });
        } else {
            self.place(Slot { at, number, entry });
        }
        if self.tally.pushes >= self.look_every {
            self.look();
        }
    }

    /// Removes the earliest entry; of equal times, the one with the smallest number.
    pub fn pop(&mut self) -> Option<Slot<E>> {
        self.pop_by(Instant::NEVER)
    }

    /// Removes the earliest entry if it is due by `until`.
    pub fn pop_by(&mut self, until: Instant) -> Option<Slot<E>> {
        if self.open.is_empty() && self.late.is_empty() {
            self.open_next()?;
        }
        match (self.open.last(), self.late.first()) {
            (Some(open), late) if late.is_none_or(|late| late < open) => {
                if open.at <= until {
                    self.taken_at = open.at;
                    self.open.pop()
                } else {
                    None
                }
            }
            (_, Some(late)) if late.at <= until => {
                self.taken_at = late.at;
                self.late.pop()
            }
            _ => None,
        }
    }

    /// Returns the rest of the open day, earliest first, without later pushes.
    pub fn opened(&self) -> impl ExactSizeIterator<Item = &Slot<E>> {
        self.open.iter().rev()
    }

    /// Returns the due time of the earliest entry. Searches one day if none is open.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        let ready = [self.open.last(), self.late.first()];
        if let Some(at) = ready.into_iter().flatten().map(|slot| slot.at).min() {
            return Some(at);
        }
        let far = self.far.peek().map(|slot| slot.at);
        let day = self.next_filled().map(|day| &self.days[self.place_of(day)]);
        let near = day.and_then(|day| day.iter().map(|slot| slot.at).min());
        near.into_iter().chain(far).min()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len() + self.late.len() + self.in_days + self.far.len()
    }

    /// Returns true if it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index of a day in the ring.
    fn place_of(&self, day: u64) -> usize {
        day as usize & (self.days.len() - 1)
    }

    #[inline(never)]
    fn place(&mut self, slot: Slot<E>) {
        let day = slot.at.as_ps() >> self.shift;
        if day <= self.day {
            self.tally.late += u64::from(slot.at > self.taken_at);
            self.late.push(slot);
        } else if day - self.day < self.days.len() as u64 {
            let place = self.place_of(day);
            self.filled[place / 64] |= 1 << (place % 64);
            self.in_days += 1;
            let day = &mut self.days[place];
            if day.capacity() == 0 {
                *day = self.spare.pop().unwrap_or_default();
            }
            day.push(slot);
        } else {
            self.tally.far += 1;
            self.far.push(slot);
        }
    }

    /// The next day that has entries.
    fn next_filled(&self) -> Option<u64> {
        if self.in_days == 0 {
            return None;
        }
        let first = self.place_of(self.day + 1);
        let words = self.filled.len();
        let mut word = self.filled[first / 64] & (u64::MAX << (first % 64));
        // One step more than words: the last step looks at the first word again, for the bits
        // before the start.
        for step in 0..=words {
            if word != 0 {
                let place = (first / 64 + step) % words * 64 + word.trailing_zeros() as usize;
                let ahead = place.wrapping_sub(first) & (self.days.len() - 1);
                return Some(self.day + 1 + ahead as u64);
            }
            word = self.filled[(first / 64 + step + 1) % words];
        }
        None
    }

    /// Opens the next day that has entries, once the open one is empty.
    fn open_next(&mut self) -> Option<()> {
        let far = self.far.peek().map(|slot| slot.at.as_ps() >> self.shift);
        let day = self.next_filled().into_iter().chain(far).min()?;
        self.day = day;
        let place = self.place_of(day);
        let day = std::mem::take(&mut self.days[place]);
        let over = std::mem::replace(&mut self.open, day);
        if over.capacity() > 0 {
            self.spare.push(over);
        }
        self.filled[place / 64] &= !(1 << (place % 64));
        self.in_days -= self.open.len();
        self.draw_in();
        // Most entries are already in order: reversed, they are nearly sorted.
        self.open.reverse();
        self.open.sort_unstable();
        if let (Some(last), Some(first)) = (self.open.first(), self.open.last())
            && last.at.since(first.at).as_ps() >= 1 << self.shift >> 1
        {
            self.tally.days_opened += 1;
            self.tally.entries_opened += self.open.len() as u64;
        }
        Some(())
    }

    /// Moves entries into the ring that it now reaches.
    fn draw_in(&mut self) {
        while let Some(next) = self.far.peek() {
            let ahead = (next.at.as_ps() >> self.shift) - self.day;
            if ahead >= self.days.len() as u64 {
                return;
            }
            let Some(slot) = self.far.pop() else { return };
            if ahead == 0 {
                self.open.push(slot);
            } else {
                self.place(slot);
            }
        }
    }

    /// Lengthens the day when many entries lie beyond the ring, shortens it when days are crowded.
    #[cold]
    fn look(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        let per_day = tally.entries_opened / tally.days_opened.max(1);
        let is_crowded = per_day > 4 * ENTRIES_PER_DAY as u64;
        let is_late = tally.late > tally.pushes / 8 && self.late.len() + self.open.len() > 4;
        let turn = if tally.far > tally.pushes / 8 {
            Some(Turn::Longer)
        } else if is_late || is_crowded {
            Some(Turn::Shorter)
        } else {
            None
        };
        let days = (self.len() / ENTRIES_PER_DAY).next_power_of_two().min(DAYS_MAX);
        let days = days.max(self.days.len());
        let shift = match turn {
            Some(Turn::Longer) => (self.shift + 1).min(SHIFT_MAX),
            Some(Turn::Shorter) => self.shift.saturating_sub(1),
            None => self.shift,
        };
        let turned_back = self.last_turn.is_some() && turn.is_some() && turn != self.last_turn;
        self.last_turn = turn.or(self.last_turn);
        // Changing back and forth is not worth its cost: check less often after each reversal.
        let patience = if turned_back { self.look_every.saturating_mul(2) } else { 0 };
        self.look_every = patience.max(self.look_every).max(2 * self.len() as u64);
        if (shift, days) != (self.shift, self.days.len()) {
            self.renew(shift, days);
        }
    }

    /// Places every entry again.
    fn renew(&mut self, shift: u32, days: usize) {
        let mut slots: Vec<Slot<E>> = std::mem::take(&mut self.open);
        slots.extend(self.late.drain());
        slots.extend(self.far.drain());
        self.days.iter_mut().for_each(|day| slots.append(day));
        self.days.resize_with(days, Vec::new);
        self.filled = vec![0; days / 64];
        self.in_days = 0;
        self.shift = shift;
        let first = slots.iter().map(|slot| slot.at.as_ps() >> shift).min();
        self.day = first.unwrap_or(0).saturating_sub(1);
        slots.into_iter().for_each(|slot| self.place(slot));
        self.tally = Tally::default();
    }
}
