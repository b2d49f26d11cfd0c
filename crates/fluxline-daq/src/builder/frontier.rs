//! The frontier of a source: the position up to which nothing more can come from it.
//!
//! With a packet counter it is the newest packet before which no number is missing. A gap is given
//! up after the lateness, or when too many gaps are open; it is then kept as a lost range. A source
//! that has passed an event without a loss around it sent nothing for it: that is proved. Without a
//! counter the frontier is the highest position that was seen a lateness ago.

use std::collections::VecDeque;

use fluxline_core::{Moment, Span, planted};
use serde::{Deserialize, Serialize};

use super::position::Position;

/// Most gaps that may be open; with more, the oldest is given up.
const GAPS_MAX: usize = 64;
/// Most lost ranges that are kept; with more, the two oldest become one.
const LOST_MAX: usize = 256;
/// Most lost ranges that closed events did not know of; with more, the two oldest become one.
const UNTOLD_MAX: usize = 512;
/// Steps of a frontier without a counter that are kept.
const STEPS: usize = 16;

/// Missing packet numbers, and the positions between which they were sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Gap {
    first: u64,
    last: u64,
    opened: Moment,
    /// The position of the packet before it; `None`: the gap is before the first key.
    before: Option<Position>,
    /// The position of the packet after it.
    after: Position,
    /// Events between were closed before it was seen.
    untold: bool,
}

impl Gap {
    fn covers(&self, position: Position) -> bool {
        self.before.is_none_or(|before| before < position) && position < self.after
    }

    /// Removes a number that came late; returns the rest of the range behind it.
    fn split(&mut self, count: u64, position: Option<Position>) -> Option<Gap> {
        let middle = position.unwrap_or(self.after);
        let behind = Gap { first: count + 1, before: position.or(self.before), ..*self };
        self.last = count.wrapping_sub(1);
        self.after = middle.min(self.after);
        (behind.first <= behind.last).then_some(behind)
    }

    fn is_empty(&self) -> bool {
        self.last.wrapping_add(1) == self.first
    }
}

/// The positions between which a packet that came out of order was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    pub(super) before: Option<Position>,
    pub(super) after: Position,
    /// Events between them were closed before the packet after the gap came.
    pub(super) closed: bool,
}

/// A number that came after its gap was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    /// The time since the gap was opened.
    pub(super) lateness: Span,
    /// The positions between which the gap was.
    pub(super) around: Option<(Position, Position)>,
}

/// The gaps of one packet counter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gaps {
    open: VecDeque<Gap>,
    lost: VecDeque<Gap>,
    /// Those of the lost ranges that closed events did not know of; kept to the end of the run.
    untold: VecDeque<Gap>,
}

impl Gaps {
    /// Opens a gap: numbers `first` to `last` are missing before the packet at `after`.
    pub(super) fn open(&mut self, first: u64, last: u64, now: Moment, between: Neighbours) {
        let Neighbours { before, after, closed: untold } = between;
        if self.open.len() == GAPS_MAX {
            self.give_up_oldest();
        }
        self.open.push_back(Gap { first, last, opened: now, before, after, untold });
    }

    /// Ends gaps at `position`, the next key, where the packet after them had no key.
    pub(super) fn end_at(&mut self, position: Position) {
        for list in [&mut self.open, &mut self.lost, &mut self.untold] {
            let endless = list.iter_mut().rev().take_while(|gap| gap.after == Position::END);
            endless.for_each(|gap| gap.after = position);
        }
    }

    /// Gives up everything that was sent between two positions.
    pub(super) fn lose(&mut self, now: Moment, between: Neighbours) {
        let Neighbours { before, after, closed: untold } = between;
        self.keep_lost(Gap { first: 1, last: 0, opened: now, before, after, untold });
    }

    /// Returns the positions between which number `count` was sent, if it is known to be missing.
    pub(super) fn around(&self, count: u64) -> Option<Neighbours> {
        let has = |gap: &&Gap| gap.first <= count && count <= gap.last;
        let gap = self.open.iter().find(has).or_else(|| self.lost.iter().rev().find(has))?;
        Some(Neighbours { before: gap.before, after: gap.after, closed: gap.untold })
    }

    /// Fills number `count`, which came late, at `position` if its packet has a key. Returns what
    /// this shows, if its gap had been given up: events were closed as if it was lost.
    pub(super) fn fill(
        &mut self,
        count: u64,
        position: Option<Position>,
        now: Moment,
    ) -> Option<Filled> {
        if fill_in(&mut self.open, count, position).is_some() {
            return None;
        }
        let has = |gap: &&Gap| gap.first <= count && count <= gap.last;
        let told = self.untold.iter().rfind(has).copied();
        let gap = told.or_else(|| self.lost.iter().rfind(has).copied())?;
        if told.is_none() {
            keep(&mut self.untold, Gap { untold: true, ..gap }, UNTOLD_MAX);
        }
        fill_in(&mut self.lost, count, position);
        fill_in(&mut self.untold, count, position);
        let end = Some(gap.after).filter(|after| *after != Position::END);
        Some(Filled { lateness: now.since(gap.opened), around: gap.before.zip(end) })
    }

    /// Gives up gaps that are older than `patience`.
    pub(super) fn expire(&mut self, now: Moment, patience: Span) {
        while self.open.front().is_some_and(|gap| now.since(gap.opened) >= patience) {
            self.give_up_oldest();
        }
    }

    /// Gives up all gaps: their numbers cannot come any more.
    pub(super) fn give_up(&mut self) {
        while !self.open.is_empty() {
            self.give_up_oldest();
        }
        // Their numbers will be used again, by other packets.
        for gap in self.lost.iter_mut().chain(&mut self.untold) {
            (gap.first, gap.last) = (1, 0);
        }
    }

    /// Returns the position before the oldest gap: `None` without a gap, `Some(None)` before all
    /// keys.
    pub(super) fn oldest(&self) -> Option<Option<Position>> {
        self.open.front().map(|gap| gap.before)
    }

    /// Returns true when a packet at `position` may be among those that were lost.
    pub(super) fn lost_at(&self, position: Position) -> bool {
        !planted!(14) && self.lost.iter().rev().any(|gap| gap.covers(position))
    }

    /// Notes that an event at `position` is closed; returns the ends of the open gaps that cover it
    /// and did not know of a closed event yet. Their fate is reported at the end of the run.
    pub(super) fn close_within(&mut self, position: Position) -> Vec<(Position, Position)> {
        let covering = self.open.iter_mut().filter(|gap| !gap.untold && gap.covers(position));
        let ends = |gap: &mut Gap| {
            gap.untold = true;
            Some((gap.before?, gap.after)).filter(|ends| ends.1 != Position::END)
        };
        covering.filter_map(ends).collect()
    }

    /// Returns true when a packet at `position` may still come, or is lost: a gap that is open
    /// covers it.
    pub(super) fn is_open_at(&self, position: Position) -> bool {
        self.open.iter().any(|gap| gap.covers(position))
    }

    fn give_up_oldest(&mut self) {
        if let Some(gap) = self.open.pop_front() {
            self.keep_lost(gap);
        }
    }

    /// Returns the positions between which packets are missing that closed events did not know of.
    pub(super) fn untold(&self) -> impl Iterator<Item = (Position, Position)> {
        let open = self.open.iter().filter(|gap| gap.untold);
        self.untold.iter().chain(open).filter_map(|gap| Some((gap.before?, gap.after)))
    }

    fn keep_lost(&mut self, gap: Gap) {
        if gap.untold {
            keep(&mut self.untold, gap, UNTOLD_MAX);
        }
        keep(&mut self.lost, gap, LOST_MAX);
    }
}

/// Adds a gap to a list; with more than `most`, the two oldest become one, which is longer.
fn keep(list: &mut VecDeque<Gap>, gap: Gap, most: usize) {
    list.push_back(gap);
    if list.len() > most
        && let Some(oldest) = list.pop_front()
        && let Some(next) = list.front_mut()
    {
        next.before = oldest.before;
    }
}

/// Fills number `count` in the gaps of a list; returns the time at which its gap was opened.
fn fill_in(list: &mut VecDeque<Gap>, count: u64, position: Option<Position>) -> Option<Moment> {
    let at = list.iter().rposition(|gap| gap.first <= count && count <= gap.last)?;
    let opened = list[at].opened;
    if let Some(behind) = list[at].split(count, position) {
        list.insert(at + 1, behind);
    }
    if list[at].is_empty() {
        list.remove(at);
    }
    Some(opened)
}

/// The highest positions of a source without a packet counter, and the times at which it reached
/// them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Steps {
    ring: VecDeque<(Moment, Position)>,
    highest: Position,
    /// The time at which the highest position was reached.
    reached: Moment,
}

impl Steps {
    /// Notes that the highest position is now `highest`.
    pub(super) fn note(&mut self, now: Moment, highest: Position, lateness: Span) {
        (self.highest, self.reached) = (highest, now);
        let spacing = Span::from_ns(lateness.as_ns() / (STEPS as u64 / 2));
        if self.ring.back().is_some_and(|(last, _)| now.since(*last) < spacing) {
            return;
        }
        if self.ring.len() == STEPS {
            self.ring.pop_front();
        }
        self.ring.push_back((now, highest));
    }

    /// Returns the highest position that was reached a lateness ago.
    pub(super) fn passed(&self, now: Moment, lateness: Span) -> Option<Position> {
        if now.since(self.reached) >= lateness && !self.ring.is_empty() {
            return Some(self.highest);
        }
        let old = |step: &&(Moment, Position)| now.since(step.0) >= lateness;
        self.ring.iter().rev().find(old).map(|step| step.1)
    }

    /// Returns the time since the highest position was reached.
    pub(super) fn since_highest(&self, now: Moment) -> Span {
        now.since(self.reached)
    }

    /// Returns the time since the source went beyond `position`, if it is remembered.
    pub(super) fn since(&self, now: Moment, position: Position) -> Option<Span> {
        let beyond = self.ring.iter().find(|step| step.1 > position)?;
        Some(now.since(beyond.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ordinal: u64) -> Position {
        Position { generation: 0, ordinal }
    }

    fn between(before: u64, after: u64) -> Neighbours {
        Neighbours { before: Some(at(before)), after: at(after), closed: false }
    }

    const NOW: Moment = Moment::from_ns(1_000_000_000);

    #[test]
    fn a_gap_that_is_filled_leaves_nothing_lost() {
        let mut gaps = Gaps::default();
        gaps.open(10, 12, NOW, between(9, 13));
        for (count, left) in [(11, true), (10, true), (12, false)] {
            assert_eq!(gaps.fill(count, Some(at(count)), NOW), None);
            assert_eq!(gaps.oldest().is_some(), left, "{count}");
        }
        gaps.expire(Moment::from_ns(u64::MAX), Span::ZERO);
        assert!((0..20).all(|key| !gaps.lost_at(at(key))));
    }

    #[test]
    fn what_is_left_of_a_gap_is_lost_and_covers_only_its_own_positions() {
        let mut gaps = Gaps::default();
        gaps.open(10, 14, NOW, between(9, 15));
        gaps.fill(12, Some(at(12)), NOW);
        assert_eq!(gaps.oldest(), Some(Some(at(9))));
        gaps.expire(Moment::from_ns(2_000_000_000), Span::from_ms(10));
        assert_eq!(gaps.oldest(), None);
        let lost: Vec<u64> = (0..20).filter(|&key| gaps.lost_at(at(key))).collect();
        assert_eq!(lost, [10, 11, 13, 14]);
        // A straggler of a gap that was given up shows how late it is.
        let late = gaps.fill(10, Some(at(10)), Moment::from_ns(1_025_000_000));
        assert_eq!(late.map(|its| its.lateness), Some(Span::from_ms(25)));
        // The others of its gap are still missing, as is known only now.
        assert_eq!(late.and_then(|its| its.around), Some((at(9), at(12))));
        assert_eq!(gaps.untold().collect::<Vec<_>>(), [(at(10), at(12))]);
        assert!(!gaps.lost_at(at(10)) && gaps.lost_at(at(11)));
    }

    #[test]
    fn with_more_lost_ranges_than_are_kept_more_is_called_lost_and_never_less() {
        let mut gaps = Gaps::default();
        for number in 0..1000_u64 {
            let key = number * 10;
            gaps.open(key + 1, key + 1, NOW, between(key, key + 2));
        }
        assert_eq!((gaps.open.len(), gaps.lost.len()), (GAPS_MAX, LOST_MAX));
        gaps.give_up();
        assert!((0..1000).all(|number| gaps.lost_at(at(number * 10 + 1))));
        assert!(!gaps.lost_at(at(9_995)), "the newest ranges stay apart");
    }

    #[test]
    fn without_a_counter_a_position_is_passed_a_lateness_later() {
        let mut steps = Steps::default();
        let lateness = Span::from_ms(10);
        let ms = |ms: u64| Moment::from_ns(ms * 1_000_000);
        for key in 0..100 {
            steps.note(ms(key), at(key), lateness);
            let passed = steps.passed(ms(key), lateness).map(|its| its.ordinal);
            if key >= 12 {
                let passed = passed.unwrap();
                assert!(passed <= key - 10 && passed >= key - 12, "{key}: {passed}");
            }
        }
        assert_eq!(steps.passed(ms(109), lateness), Some(at(99)));
        assert!(steps.since(ms(99), at(95)).unwrap() <= Span::from_ms(3));
    }
}
