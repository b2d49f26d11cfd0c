//! Several inputs that can wait, read as one stream: the choice of the next packet, and the time.
//!
//! A file can be read faster than another one, or begin a week earlier. If each were read as fast
//! as possible, events would close before their last fragment was read. So the next packet comes
//! from the input that holds all events back: the one whose newest packet has the lowest position.
//! That needs no synchronised clocks. Inputs without positions are read by time of capture, and
//! those without either in turns. The choice depends on packets alone, never on threads or speed:
//! no packet is chosen before the next one of every input is known.

#[cfg(test)]
mod tests;

use fluxline_core::Moment;

use crate::builder::Position;
pub use crate::times::Times;

/// One of the inputs that are read as one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number in the pipeline.
    pub input: u16,
    /// The times of its packets.
    pub times: Times,
    /// Its packets have positions.
    pub has_positions: bool,
}

/// The next packet of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is not known yet.
    Unknown,
    /// Its time of capture; without times, the zero moment.
    Packet(Moment),
    /// The input has ended.
    None,
}

#[derive(Clone, Debug)]
struct Entry {
    lane: Lane,
    next: Next,
    taken: u64,
}

impl Entry {
    /// Returns the time of capture of its next packet, where packets have times.
    fn time(&self) -> Option<Moment> {
        match (self.lane.times, self.next) {
            (Times::Captured, Next::Packet(time)) => Some(time),
            _ => None,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.next, Next::Packet(_))
    }
}

/// Chooses among inputs; see the head of this file.
///
/// Lanes are numbered in the order in which they were given, which decides between equal ones.
#[derive(Clone, Debug)]
pub struct Merge {
    entries: Vec<Entry>,
    unknown: usize,
    now: Moment,
}

impl Merge {
    /// Makes a merge of these lanes, whose next packets are not known.
    #[must_use]
    pub fn new(lanes: impl IntoIterator<Item = Lane>) -> Merge {
        let entry = |lane| Entry { lane, next: Next::Unknown, taken: 0 };
        let entries: Vec<Entry> = lanes.into_iter().map(entry).collect();
        Merge { unknown: entries.len(), entries, now: Moment::default() }
    }

    /// Returns a lane whose next packet is not known, if any. It must be shown before the next
    /// choice.
    #[must_use]
    pub fn unknown(&self) -> Option<usize> {
        if self.unknown == 0 {
            return None;
        }
        self.entries.iter().position(|entry| entry.next == Next::Unknown)
    }

    /// Notes that the next packet of `lane` was captured at `time`.
    pub fn show(&mut self, lane: usize, time: Moment) {
        self.set(lane, Next::Packet(time));
    }

    /// Notes that `lane` has no more packets.
    pub fn end(&mut self, lane: usize) {
        self.set(lane, Next::None);
    }

    fn set(&mut self, lane: usize, next: Next) {
        let entry = &mut self.entries[lane];
        self.unknown -= usize::from(entry.next == Next::Unknown);
        self.unknown += usize::from(next == Next::Unknown);
        entry.next = next;
    }

    /// Returns the lane whose packet is next, and moves the clock on; `None` when all have ended or
    /// one is [unknown](Self::unknown). `position` returns the progress of an input.
    ///
    /// Cost: a pass over the lanes; no allocation.
    pub fn choose(&mut self, position: impl Fn(u16) -> Option<Position>) -> Option<usize> {
        if self.unknown > 0 {
            return None;
        }
        self.move_clock();
        if let [entry] = &self.entries[..] {
            return entry.is_open().then_some(0);
        }
        let open = || self.entries.iter().enumerate().filter(|(_, entry)| entry.is_open());
        let by_position = open()
            .filter(|(_, entry)| entry.lane.has_positions)
            .min_by_key(|(_, entry)| (position(entry.lane.input), entry.time(), entry.taken));
        let by_time = open()
            .filter(|(_, entry)| !entry.lane.has_positions && entry.time().is_some())
            .min_by_key(|(_, entry)| entry.time());
        let in_turns = open()
            .filter(|(_, entry)| !entry.lane.has_positions && entry.time().is_none())
            .min_by_key(|(_, entry)| entry.taken);
        let chosen = [by_position, by_time, in_turns].into_iter().flatten().reduce(earlier);
        chosen.map(|(lane, _)| lane)
    }

    /// Notes that the next packet of `lane` was taken: the one after it is unknown.
    pub fn take(&mut self, lane: usize) {
        self.entries[lane].taken += 1;
        self.set(lane, Next::Unknown);
    }

    /// Returns the properties of `lane`.
    #[must_use]
    pub fn lane(&self, lane: usize) -> Lane {
        self.entries[lane].lane
    }

    /// Returns the time that all inputs have reached: no later packet was captured before it. It
    /// never goes back. Without any times it stays at the zero moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Moves the clock on to the earliest of the next packets.
    fn move_clock(&mut self) {
        let earliest = self.entries.iter().filter_map(Entry::time).min();
        self.now = self.now.max(earliest.unwrap_or_default());
    }
}

type Candidate<'a> = (usize, &'a Entry);

/// Returns the earlier of two lanes of different kinds: by time where both have one, else in turns.
fn earlier<'a>(one: Candidate<'a>, other: Candidate<'a>) -> Candidate<'a> {
    let other_first = match (one.1.time(), other.1.time()) {
        (Some(one_time), Some(other_time)) => (other_time, other.0) < (one_time, one.0),
        _ => (other.1.taken, other.0) < (one.1.taken, one.0),
    };
    if other_first { other } else { one }
}
