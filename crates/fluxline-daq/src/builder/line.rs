//! One packet counter of a source, as events see it: the position of each of its packets, and its
//! progress.
//!
//! Keys are unwrapped against the newest key of the same counter, never against another source's. A
//! key that jumps is not believed at once, because one wrong key must not close the events of a
//! whole run. Its packet is placed, but the next packet decides if the source really moved there.

use std::collections::VecDeque;

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::frontier::{Gaps, Neighbours, Steps};
use super::generations::{Generations, Now};
use super::position::{Position, RawKey};
use crate::readout::Counted;

/// One packet's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed {
    pub(super) raw: RawKey,
    /// The spill number, where packets carry one.
    pub(super) spill: Option<RawKey>,
}

/// The state of the builder that a line needs.
pub(super) struct Context<'a> {
    pub(super) generations: &'a mut Generations,
    /// The time of the run, which all inputs share.
    pub(super) now: Now,
    /// The time of the source's input: everything that arrived before was taken.
    pub(super) clock: Moment,
    pub(super) lateness: Span,
    /// Below this position, events were closed without proof about the source.
    pub(super) unproven: Position,
    /// Returns the part of the source's fragment that an event has.
    pub(super) has: &'a dyn Fn(Position) -> Has,
}

/// The part of a source's fragment that an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    /// Nothing is known.
    Nothing,
    /// Some of its fragment.
    Part,
    /// Its whole fragment.
    Whole,
}

/// The position of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) position: Position,
    /// Its keys began anew with it, or with the packet before.
    pub(super) anew: bool,
    /// It came out of order, this long after its gap was seen.
    pub(super) lateness: Option<Span>,
}

/// A position that the next packet must confirm.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Suspect {
    pub(super) position: Position,
    /// It is in another generation than the packet before.
    pub(super) anew: bool,
}

/// One packet counter of a source; the packets without a counter are one, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// The class of packet types that share the counter; `None`: packets without a counter.
    pub(super) class: Option<u8>,
    /// Keys never fall while the counter goes on.
    pub(super) ordered: bool,
    restarts: u32,
    first_count: u64,
    pub(super) newest_count: u64,
    pub(super) newest: Option<Position>,
    pub(super) first: Option<Position>,
    pub(super) suspect: Option<Suspect>,
    /// The largest step between two keys that was believed.
    pub(super) step_largest: u64,
    pub(super) keys: u64,
    /// The time at which its last packet came.
    pub(super) last: Moment,
    pub(super) gaps: Gaps,
    /// The packet behind the newest gap had no key.
    gap_is_endless: bool,
    /// The counter began anew, and no key after that was believed yet.
    is_new: bool,
    /// Ranges of closed events that it passed by its counter, when they had no proof.
    passed: VecDeque<(Position, Position)>,
    pub(super) steps: Steps,
    /// The same over the time-out, without a counter: what is older may be of a new generation.
    pub(super) history: Steps,
}

impl Line {
    /// Makes the line of a counter, before its first packet.
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
            is_new: false,
            passed: VecDeque::new(),
            steps: Steps::default(),
            history: Steps::default(),
        }
    }

    /// Returns the newest position that is believed.
    pub(super) fn newest(&self) -> Option<Position> {
        self.newest
    }

    /// Returns the number of the newest packet.
    pub(super) fn newest_count(&self) -> u64 {
        self.newest_count
    }

    /// Returns the number of restarts of the counter.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Returns true if its packets have a counter in which every gap is a loss.
    pub(super) fn proves(&self) -> bool {
        self.ordered
    }

    /// Returns the position before which nothing more can come; `None`: none was passed yet.
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

    /// Returns true when time alone can move its frontier: a gap is open, or there is no counter.
    #[inline]
    pub(super) fn moves_with_time(&self) -> bool {
        !self.ordered || self.gaps.oldest().is_some()
    }

    /// Returns the positions between which packets are missing that closed events did not know of.
    pub(super) fn untold_losses(&self) -> impl Iterator<Item = (Position, Position)> {
        self.gaps.untold()
    }

    /// Returns the ranges of closed events without proof that it passed by its counter; losses in
    /// them are in [`Self::untold_losses`].
    pub(super) fn passed_closed(&self) -> impl Iterator<Item = (Position, Position)> {
        self.passed.iter().copied()
    }

    /// Returns true when a packet for `position` may be among the lost ones.
    pub(super) fn lost_at(&self, position: Position) -> bool {
        self.gaps.lost_at(position)
    }

    /// Notes that an event at `position` is closed; returns true when a packet for it may be in a
    /// gap that is still open.
    pub(super) fn close_in_gap(&mut self, position: Position) -> bool {
        for ends in self.gaps.close_within(position) {
            self.keep_passed(Some(ends));
        }
        self.gaps.is_open_at(position)
    }

    /// Ends the counter: the packets that it lacks cannot come any more.
    pub(super) fn end(&mut self) {
        self.gaps.expire(Moment::from_ns(u64::MAX), Span::ZERO);
    }

    /// Returns the time since it went beyond `position`; only without a counter.
    pub(super) fn beyond_since(&self, position: Position, now: Moment) -> Option<Span> {
        if self.ordered { None } else { self.steps.since(now, position) }
    }

    /// Takes a packet without a key: only its number counts.
    pub(super) fn pass(&mut self, counted: Option<Counted>, now: Moment, unproven: Position) {
        let Some(counted) = counted else { return };
        if counted.restarts != self.restarts {
            self.restart(counted, None, now);
        } else if counted.reordered {
            let filled = self.gaps.fill(counted.count, None, now);
            self.keep_passed(filled.and_then(|its| its.around));
        } else if counted.count > self.newest_count {
            if let (true, Some(newest)) = (counted.missing > 0, self.newest) {
                let closed = newest < unproven;
                let between = Neighbours { before: Some(newest), after: Position::END, closed };
                self.gap_is_endless = true;
                let first = counted.count - counted.missing;
                self.gaps.open(first, counted.count - 1, now, between);
            }
            self.newest_count = counted.count;
        }
        self.last = now;
    }

    /// Returns the position of a packet with a key.
    pub(super) fn locate(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        context: &mut Context<'_>,
    ) -> Located {
        let now = context.clock;
        let located = match (self.newest, counted) {
            (None, _) => self.begin(keyed, counted, context),
            (Some(_), Some(counted)) if counted.restarts != self.restarts => {
                self.begin_again(keyed, counted, context)
            }
            (Some(newest), Some(counted)) if counted.reordered => {
                self.fill(keyed, counted, newest, context)
            }
            (Some(newest), _) => self.go_on(keyed, counted, newest, context),
        };
        self.last = now;
        located
    }

    /// Locates the first packet.
    fn begin(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        context: &mut Context<'_>,
    ) -> Located {
        let position = match keyed.spill {
            Some(spill) => given(keyed.raw, spill, None, context),
            None => context.generations.place(keyed.raw, context.now, 0),
        };
        if let Some(counted) = counted {
            self.restarts = counted.restarts;
            (self.first_count, self.newest_count) = (counted.count, counted.count);
        }
        self.first = Some(position);
        self.advance(position, context);
        Located { position, anew: false, lateness: None }
    }

    /// Locates the first packet after the counter began anew.
    fn begin_again(
        &mut self,
        keyed: Keyed,
        counted: Counted,
        context: &mut Context<'_>,
    ) -> Located {
        let Some(newest) = self.newest else { return self.begin(keyed, Some(counted), context) };
        let raw = keyed.raw;
        let known = context.generations.newest();
        let position = match keyed.spill {
            Some(spill) => given(raw, spill, Some(newest), context),
            None if raw.near(newest.ordinal) > newest.ordinal => {
                context.generations.place(raw, context.now, newest.generation)
            }
            None => {
                let same = context.generations.candidate(raw, context.now, newest.generation);
                let near = same.filter(|its| {
                    let new = (context.has)(its.position) == Has::Nothing;
                    new && its.distance <= context.now.time_out
                });
                let later = context.generations.nearest(raw, context.now, newest.generation + 1);
                match (near, later) {
                    (Some(near), Some(later)) if later.distance > near.distance => near.position,
                    (Some(near), None) => near.position,
                    _ => context.generations.place(raw, context.now, newest.generation + 1),
                }
            }
        };
        self.restart(counted, Some(position), context.clock);
        self.advance(position, context);
        Located { position, anew: context.generations.newest() != known, lateness: None }
    }

    fn restart(&mut self, counted: Counted, position: Option<Position>, now: Moment) {
        self.restarts = counted.restarts;
        self.gaps.give_up();
        if let (Some(before), Some(after)) = (self.newest, position) {
            self.gaps.lose(now, Neighbours { before: Some(before), after, closed: false });
        }
        self.is_new = true;
        (self.first_count, self.newest_count) = (counted.count, counted.count);
        self.suspect = None;
    }

    /// Locates a packet that came out of order by its counter.
    fn fill(
        &mut self,
        keyed: Keyed,
        counted: Counted,
        newest: Position,
        context: &mut Context<'_>,
    ) -> Located {
        let now = context.clock;
        let first = self.first.unwrap_or(newest);
        let sent = self.gaps.around(counted.count);
        let position = match (keyed.spill, sent) {
            (Some(spill), _) => given(keyed.raw, spill, Some(newest), context),
            (None, Some(Neighbours { before, after, .. })) => {
                let before = before.unwrap_or(after);
                let ordinal = keyed.raw.near(before.ordinal);
                match before.generation == after.generation || ordinal >= before.ordinal {
                    true => before.with(ordinal),
                    false => after.with(keyed.raw.near(after.ordinal)),
                }
            }
            // It was sent before the first packet, or belongs to a forgotten gap.
            (None, None) => context
                .generations
                .nearest(keyed.raw, context.now, 0)
                .map_or(first.with(keyed.raw.near(first.ordinal)), |its| its.position),
        };
        // A key beyond the gap shows another packet with this number: the counter began anew.
        let is_beyond = self.ordered && sent.is_some_and(|gap| gap.after < position);
        let filled = match is_beyond {
            true => None,
            false => self.gaps.fill(counted.count, Some(position), now),
        };
        self.keep_passed(filled.and_then(|its| its.around));
        if counted.count < self.first_count {
            let (from, to) = (counted.count + 1, self.first_count.saturating_sub(1));
            if from <= to && position < first {
                let closed = position < context.unproven;
                let between = Neighbours { before: Some(position), after: first, closed };
                self.gaps.open(from, to, now, between);
            }
            self.first_count = counted.count;
            self.first = Some(first.min(position));
        }
        Located { position, anew: false, lateness: filled.map(|its| its.lateness) }
    }

    /// Moves the source to `position`, which is believed.
    #[inline]
    pub(super) fn advance(&mut self, position: Position, context: &mut Context<'_>) {
        let now = context.now.time;
        self.keys += 1;
        self.note_passed(position, context.unproven);
        match self.newest {
            Some(newest) if newest.generation == position.generation => {
                if position.ordinal < newest.ordinal {
                    return;
                }
                self.step_largest = self.step_largest.max(position.ordinal - newest.ordinal);
            }
            before => {
                context.generations.enter(position, now);
                let from = before.map(|newest| newest.generation);
                context.generations.moved(from, Some(position.generation));
            }
        }
        context.generations.note(position, now);
        self.newest = Some(position);
        if self.gap_is_endless {
            self.gaps.end_at(position);
            self.gap_is_endless = false;
        }
        if !self.ordered {
            self.steps.note(context.clock, position, context.lateness);
            self.history.note(context.clock, position, context.now.time_out);
        }
    }
}

/// Most ranges of passed events that a line keeps.
const PASSED_MAX: usize = 512;

impl Line {
    /// Keeps the step to `position`, if events below were closed without proof about the source.
    #[inline]
    fn note_passed(&mut self, position: Position, unproven: Position) {
        let is_new = std::mem::take(&mut self.is_new);
        let Some(newest) = self.newest else { return };
        if !is_new && newest < unproven && newest < position {
            self.keep_passed(Some((newest, position)));
        }
    }

    /// Keeps a range of closed events about which is known now what was lost in it.
    fn keep_passed(&mut self, range: Option<(Position, Position)>) {
        let Some((newest, position)) = range.filter(|_| self.ordered) else { return };
        let has_room = self.passed.len() < PASSED_MAX;
        match self.passed.back_mut() {
            Some(last) if last.1 == newest => last.1 = position,
            _ if has_room => self.passed.push_back((newest, position)),
            _ => {}
        }
    }
}

/// Returns the position of a packet that carries its spill number.
pub(super) fn given(
    raw: RawKey,
    spill: RawKey,
    near: Option<Position>,
    context: &mut Context<'_>,
) -> Position {
    let reference = near.map(|near| near.generation).or_else(|| context.generations.newest());
    let generation = match reference {
        Some(reference) => spill.near(u64::from(reference)) as u32,
        None => spill.ordinal as u32,
    };
    let known = context.generations.candidate(raw, context.now, generation);
    let position = match near {
        Some(near) if near.generation == generation => near.with(raw.near(near.ordinal)),
        _ => known.map_or(Position { generation, ordinal: raw.ordinal }, |its| its.position),
    };
    context.generations.enter(position, context.now.time);
    position
}
