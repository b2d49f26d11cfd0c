//! One packet counter of a source, as events see it: which position each of its packets has, and
//! how far it has come.
//!
//! Keys are unwrapped against the newest key of the same counter, never against another source's.
//! A key that jumps is not believed at once: one wrong key must not close the events of a whole
//! run. Its packet is placed, but the next packet decides whether the source went there.

use fluxline_proto::{Moment, Span};

use super::frontier::{Gaps, Neighbours, Steps};
use super::generations::{Generations, Now};
use super::position::{Position, RawKey};
use crate::readout::Counted;

/// A step forward that is always believed.
const STEP_BELIEVED: u64 = 1024;
/// A step of so many times the largest one before is believed.
const STEP_GROWTH: u64 = 16;
/// A source whose keys fall by at most so many, and at once, sends them out of order.
const DISORDER_MAX: u64 = 64;
/// Every so many packets a source that is alone in its generation is compared with the others.
const ALONE_PERIOD: u64 = 16;

/// One packet's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed {
    pub(super) raw: RawKey,
    /// The spill number, where packets carry one.
    pub(super) spill: Option<RawKey>,
}

/// What a line needs to know of the rest.
pub(super) struct Around<'a> {
    pub(super) generations: &'a mut Generations,
    pub(super) now: Now,
    pub(super) lateness: Span,
    /// What an event has of the source.
    pub(super) has: &'a dyn Fn(Position) -> Has,
}

/// What an event has of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    /// Nothing that is known.
    Nothing,
    /// Some of its fragment.
    Part,
    /// Its whole fragment.
    Whole,
}

/// Where a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) position: Position,
    /// Its keys began anew with it, or with the packet before.
    pub(super) anew: bool,
    /// It came out of order, so much later than its gap was seen.
    pub(super) lateness: Option<Span>,
}

/// A position that the next packet must confirm.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    position: Position,
    /// Whether it is in another generation than the packet before.
    anew: bool,
}

/// One packet counter of a source; the packets without a counter are one, too.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The class of packet types that share the counter; `None`: packets without a counter.
    pub(super) class: Option<u8>,
    /// Whether keys never fall while the counter goes on.
    ordered: bool,
    restarts: u32,
    first_count: u64,
    newest_count: u64,
    newest: Option<Position>,
    first: Option<Position>,
    suspect: Option<Suspect>,
    /// The largest step between two keys that was believed.
    step_largest: u64,
    keys: u64,
    /// When its last packet came.
    last: Moment,
    gaps: Gaps,
    /// Whether the packet behind the newest gap had no key.
    gap_is_endless: bool,
    steps: Steps,
}

impl Line {
    /// A counter of which nothing came yet.
    pub(super) fn new(class: Option<u8>) -> Line {
        Line {
            class,
            ordered: class.is_some(),
            restarts: 0,
            first_count: u64::MAX,
            newest_count: 0,
            newest: None,
            first: None,
            suspect: None,
            step_largest: 0,
            keys: 0,
            last: Moment::default(),
            gaps: Gaps::default(),
            gap_is_endless: false,
            steps: Steps::default(),
        }
    }

    /// The newest position that is believed.
    pub(super) fn newest(&self) -> Option<Position> {
        self.newest
    }

    /// The number of the newest packet.
    pub(super) fn newest_count(&self) -> u64 {
        self.newest_count
    }

    /// How often the counter restarted.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Whether its packets have a counter whose gaps are losses, and nothing else.
    pub(super) fn proves(&self) -> bool {
        self.ordered
    }

    /// The position before which nothing more can come; `None`: none was passed yet.
    #[inline]
    pub(super) fn frontier(&mut self, now: Moment, lateness: Span) -> Option<Position> {
        if !self.ordered {
            return self.steps.passed(now, lateness);
        }
        self.gaps.expire(now, lateness);
        match self.gaps.oldest() {
            None => self.newest,
            Some(before) => before,
        }
    }

    /// Whether a packet for `position` may be among the lost ones.
    pub(super) fn lost_at(&self, position: Position) -> bool {
        self.gaps.lost_at(position)
    }

    /// Forgets losses before `horizon`.
    pub(super) fn forget_before(&mut self, horizon: Position) {
        self.gaps.forget_before(horizon);
    }

    /// How long ago it went beyond `position`; only without a counter.
    pub(super) fn beyond_since(&self, position: Position, now: Moment) -> Option<Span> {
        if self.ordered { None } else { self.steps.since(now, position) }
    }

    /// A packet without a key: only its number counts.
    pub(super) fn pass(&mut self, counted: Option<Counted>, now: Moment) {
        let Some(counted) = counted else { return };
        if counted.restarts != self.restarts {
            self.restart(counted, None, now);
        } else if counted.reordered {
            self.gaps.fill(counted.count, None, now);
        } else if counted.count > self.newest_count {
            if let (true, Some(newest)) = (counted.missing > 0, self.newest) {
                let between = Neighbours { before: Some(newest), after: Position::END };
                self.gap_is_endless = true;
                let first = counted.count - counted.missing;
                self.gaps.open(first, counted.count - 1, now, between);
            }
            self.newest_count = counted.count;
        }
        self.last = now;
    }

    /// The position of a packet with a key.
    pub(super) fn locate(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        around: &mut Around<'_>,
    ) -> Located {
        let now = around.now.time;
        let located = match (self.newest, counted) {
            (None, _) => self.begin(keyed, counted, around),
            (Some(_), Some(counted)) if counted.restarts != self.restarts => {
                self.begin_again(keyed, counted, around)
            }
            (Some(newest), Some(counted)) if counted.reordered => {
                self.fill(keyed, counted, newest, around)
            }
            (Some(newest), _) => self.go_on(keyed, counted, newest, around),
        };
        self.last = now;
        located
    }

    /// The first packet.
    fn begin(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        around: &mut Around<'_>,
    ) -> Located {
        let position = match keyed.spill {
            Some(spill) => given(keyed.raw, spill, None, around),
            None => around.generations.place(keyed.raw, around.now, 0),
        };
        if let Some(counted) = counted {
            self.restarts = counted.restarts;
            (self.first_count, self.newest_count) = (counted.count, counted.count);
        }
        self.first = Some(position);
        self.advance(position, around);
        Located { position, anew: false, lateness: None }
    }

    /// The first packet after the counter began anew.
    fn begin_again(&mut self, keyed: Keyed, counted: Counted, around: &mut Around<'_>) -> Located {
        let Some(newest) = self.newest else { return self.begin(keyed, Some(counted), around) };
        let raw = keyed.raw;
        let known = around.generations.newest();
        let position = match keyed.spill {
            Some(spill) => given(raw, spill, Some(newest), around),
            None if raw.near(newest.ordinal) > newest.ordinal => {
                around.generations.place(raw, around.now, newest.generation)
            }
            None => {
                let same = around.generations.candidate(raw, around.now, newest.generation);
                let near = same.filter(|its| {
                    let new = (around.has)(its.position) == Has::Nothing;
                    new && its.distance <= around.now.time_out
                });
                let later = around.generations.nearest(raw, around.now, newest.generation + 1);
                match (near, later) {
                    (Some(near), Some(later)) if later.distance > near.distance => near.position,
                    (Some(near), None) => near.position,
                    _ => around.generations.place(raw, around.now, newest.generation + 1),
                }
            }
        };
        self.restart(counted, Some(position), around.now.time);
        self.advance(position, around);
        Located { position, anew: around.generations.newest() != known, lateness: None }
    }

    fn restart(&mut self, counted: Counted, position: Option<Position>, now: Moment) {
        self.restarts = counted.restarts;
        self.gaps.give_up();
        if let (Some(before), Some(after)) = (self.newest, position) {
            self.gaps.lose(now, Neighbours { before: Some(before), after });
        }
        (self.first_count, self.newest_count) = (counted.count, counted.count);
        self.suspect = None;
    }

    /// A packet that came out of order by its counter.
    fn fill(
        &mut self,
        keyed: Keyed,
        counted: Counted,
        newest: Position,
        around: &mut Around<'_>,
    ) -> Located {
        let now = around.now.time;
        let first = self.first.unwrap_or(newest);
        let sent = self.gaps.around(counted.count);
        let position = match (keyed.spill, sent) {
            (Some(spill), _) => given(keyed.raw, spill, Some(newest), around),
            (None, Some(Neighbours { before, after })) => {
                let before = before.unwrap_or(after);
                let ordinal = keyed.raw.near(before.ordinal);
                match before.generation == after.generation || ordinal >= before.ordinal {
                    true => before.with(ordinal),
                    false => after.with(keyed.raw.near(after.ordinal)),
                }
            }
            // Before the first, or of a gap that is forgotten.
            (None, None) => around
                .generations
                .nearest(keyed.raw, around.now, 0)
                .map_or(first.with(keyed.raw.near(first.ordinal)), |its| its.position),
        };
        let lateness = self.gaps.fill(counted.count, Some(position), now);
        if counted.count < self.first_count {
            let (from, to) = (counted.count + 1, self.first_count.saturating_sub(1));
            if from <= to && position < first {
                let between = Neighbours { before: Some(position), after: first };
                self.gaps.open(from, to, now, between);
            }
            self.first_count = counted.count;
            self.first = Some(first.min(position));
        }
        Located { position, anew: false, lateness }
    }

    /// The next packet, by its counter or for want of one.
    #[inline]
    fn go_on(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        newest: Position,
        around: &mut Around<'_>,
    ) -> Located {
        let ordinal = keyed.raw.near(newest.ordinal);
        let step = ordinal.wrapping_sub(newest.ordinal);
        let quiet = around.now.time.since(self.last) >= around.now.time_out;
        let usual = step <= STEP_BELIEVED.min(keyed.raw.step_max());
        let same = |spill: RawKey| {
            spill.near(u64::from(newest.generation)) == u64::from(newest.generation)
        };
        let simple = keyed.spill.is_none_or(same) && self.suspect.is_none();
        let located = if usual && simple && !quiet && !self.may_be_lost(around) {
            let position = newest.with(ordinal);
            Located { position, anew: false, lateness: None }
        } else {
            self.go_far(keyed, counted, newest, around)
        };
        if let Some(counted) = counted {
            if counted.missing > 0 {
                let between = Neighbours { before: self.newest, after: located.position };
                let first = counted.count - counted.missing;
                self.gaps.open(first, counted.count - 1, around.now.time, between);
            }
            self.newest_count = counted.count;
        }
        if self.suspect.is_none_or(|suspect| suspect.position != located.position) {
            self.advance(located.position, around);
        }
        located
    }

    /// Whether it is time to see if a source that is alone in its generation belongs there.
    fn may_be_lost(&self, around: &Around<'_>) -> bool {
        self.keys.is_multiple_of(ALONE_PERIOD) && around.generations.count() > 1
    }

    /// A packet whose key does not simply follow the one before.
    fn go_far(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        newest: Position,
        around: &mut Around<'_>,
    ) -> Located {
        let (newest, anew) = self.settle_suspect(keyed, newest, around);
        let raw = keyed.raw;
        let here = |position| Located { position, anew, lateness: None };
        if let Some(spill) = keyed.spill {
            let position = given(raw, spill, Some(newest), around);
            let anew = anew || position.generation > newest.generation;
            if position.generation == newest.generation && position.ordinal < newest.ordinal {
                self.ordered = false;
                self.steps.note(around.now.time, newest, around.lateness);
            }
            self.suspect_jump(raw, position, newest, counted, around);
            return Located { position, anew, lateness: None };
        }
        if around.generations.sources(newest.generation) == 1
            && let Some(best) = around.generations.nearest(raw, around.now, 0)
            && best.position.generation != newest.generation
            && best.distance.as_ns() <= around.now.time_out.as_ns() / 2
            && (around.has)(best.position) == Has::Nothing
        {
            // Alone in its generation, while the others send this very key elsewhere.
            return here(best.position);
        }
        let ordinal = raw.near(newest.ordinal);
        if ordinal < newest.ordinal || ordinal - newest.ordinal > raw.step_max() {
            return self.fall(raw, newest, anew, around);
        }
        let quiet = around.now.time.since(self.last) >= around.now.time_out;
        let mean = self.first.map_or(0, |first| newest.ordinal.saturating_sub(first.ordinal));
        let mean = (mean / self.keys.max(1)).max(1);
        if quiet && ordinal - newest.ordinal > mean.saturating_mul(2) {
            return here(around.generations.place(raw, around.now, newest.generation));
        }
        let position = newest.with(ordinal);
        self.suspect_jump(raw, position, newest, counted, around);
        here(position)
    }

    /// The keys fall: out of order, or anew.
    fn fall(
        &mut self,
        raw: RawKey,
        newest: Position,
        anew: bool,
        around: &mut Around<'_>,
    ) -> Located {
        let same = newest.with(raw.near(newest.ordinal));
        // A packet that was overtaken comes soon after the one that overtook it.
        let recent = around.now.time.since(self.last) <= around.lateness;
        let near = newest.ordinal.wrapping_sub(same.ordinal);
        let disorder = DISORDER_MAX.saturating_mul(self.step_largest.max(1));
        let soon = around.generations.between(same, newest) <= around.lateness;
        let new = (around.has)(same) != Has::Whole;
        let twice = soon && self.class.is_none();
        if recent && (new && (soon || near <= disorder) || twice) {
            self.ordered = false;
            self.steps.note(around.now.time, newest, around.lateness);
            return Located { position: same, anew, lateness: None };
        }
        let position = around.generations.place(raw, around.now, newest.generation + 1);
        self.suspect = Some(Suspect { position, anew: true });
        around.generations.note(position, around.now.time);
        Located { position, anew, lateness: None }
    }

    /// Does not yet believe a step that is much longer than those before.
    fn suspect_jump(
        &mut self,
        raw: RawKey,
        position: Position,
        newest: Position,
        counted: Option<Counted>,
        around: &Around<'_>,
    ) {
        if position.generation != newest.generation {
            return;
        }
        let step = position.ordinal.saturating_sub(newest.ordinal);
        let lost = counted.map_or(0, |counted| counted.missing).saturating_add(1);
        let believed = STEP_BELIEVED
            .max(self.step_largest.saturating_mul(STEP_GROWTH).saturating_mul(lost))
            .min(raw.step_max());
        let others = around.generations.newest_key(position.generation);
        let passed = others.is_some_and(|key| position.ordinal <= key.saturating_add(believed));
        if step > believed && !passed {
            self.suspect = Some(Suspect { position, anew: false });
        }
    }

    /// Decides, by the next packet, whether the source went where the packet before pointed.
    /// Returns from where it goes on, and whether its keys began anew.
    fn settle_suspect(
        &mut self,
        keyed: Keyed,
        newest: Position,
        around: &mut Around<'_>,
    ) -> (Position, bool) {
        let Some(Suspect { position, anew }) = self.suspect.take() else { return (newest, false) };
        let raw = keyed.raw;
        let from_suspect = position.with(raw.near(position.ordinal));
        let from_newest = newest.with(raw.near(newest.ordinal));
        let mut goes_on = from_suspect.ordinal >= position.ordinal;
        if anew && goes_on && from_newest.ordinal > newest.ordinal {
            let distance = |at| around.generations.distance(at, around.now).unwrap_or(Span::ZERO);
            let (there, back) = (distance(from_suspect), distance(from_newest));
            let shorter =
                from_newest.ordinal - newest.ordinal < from_suspect.ordinal - position.ordinal;
            let as_near = back.as_ns() <= there.as_ns() + around.lateness.as_ns();
            goes_on = if as_near && there.as_ns() <= back.as_ns() + around.lateness.as_ns() {
                !shorter
            } else {
                there < back
            };
        }
        if goes_on {
            self.advance(position, around);
            return (position, anew);
        }
        if anew {
            around.generations.retract(position.generation);
        }
        (newest, false)
    }

    /// The source is believed to be at `position`.
    #[inline]
    fn advance(&mut self, position: Position, around: &mut Around<'_>) {
        let now = around.now.time;
        self.keys += 1;
        match self.newest {
            Some(newest) if newest.generation == position.generation => {
                if position.ordinal < newest.ordinal {
                    return;
                }
                self.step_largest = self.step_largest.max(position.ordinal - newest.ordinal);
            }
            before => {
                around.generations.enter(position, now);
                let from = before.map(|newest| newest.generation);
                around.generations.moved(from, Some(position.generation));
            }
        }
        around.generations.note(position, now);
        self.newest = Some(position);
        if self.gap_is_endless {
            self.gaps.end_at(position);
            self.gap_is_endless = false;
        }
        if !self.ordered {
            self.steps.note(now, position, around.lateness);
        }
    }
}

/// The position of a packet that carries its spill number.
fn given(raw: RawKey, spill: RawKey, near: Option<Position>, around: &mut Around<'_>) -> Position {
    let reference = near.map(|near| near.generation).or_else(|| around.generations.newest());
    let generation = match reference {
        Some(reference) => spill.near(u64::from(reference)) as u32,
        None => spill.ordinal as u32,
    };
    let known = around.generations.candidate(raw, around.now, generation);
    let position = match near {
        Some(near) if near.generation == generation => near.with(raw.near(near.ordinal)),
        _ => known.map_or(Position { generation, ordinal: raw.ordinal }, |its| its.position),
    };
    around.generations.enter(position, around.now.time);
    position
}
