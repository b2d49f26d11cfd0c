//! The next packet of a counter: its key continues, jumps, or begins anew.
//!
//! Most keys follow the one before by a small step. A key that is far off may be a loss, a spill
//! that begins anew, a packet that was overtaken, or simply wrong. Three things distinguish these
//! cases: the others' keys at that time, the source's earlier keys, and its next packet.

use fluxline_core::Span;

use super::frontier::Neighbours;
use super::line::{Context, Has, Keyed, Line, Located, Suspect, given};
use super::position::{Position, RawKey};
use crate::readout::Counted;

/// A step forward that is always believed.
const STEP_BELIEVED: u64 = 1024;
/// A step is believed up to this multiple of the largest one before.
const STEP_GROWTH: u64 = 16;
/// A source whose keys fall at once and by at most this much sends them out of order.
const DISORDER_MAX: u64 = 64;
/// Packets after which a source that is alone in its generation is compared with the others again.
const ALONE_PERIOD: u64 = 16;

impl Line {
    /// Locates the next packet, by its counter or without one.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        newest: Position,
        context: &mut Context<'_>,
    ) -> Located {
        let ordinal = keyed.raw.near(newest.ordinal);
        let step = ordinal.wrapping_sub(newest.ordinal);
        let quiet = context.clock.since(self.last) >= context.now.time_out;
        let usual = step <= STEP_BELIEVED.min(keyed.raw.step_max());
        let same = |spill: RawKey| {
            spill.near(u64::from(newest.generation)) == u64::from(newest.generation)
        };
        let simple = keyed.spill.is_none_or(same) && self.suspect.is_none();
        let located = if usual && simple && !quiet && !self.may_be_lost(context) {
            let position = newest.with(ordinal);
            Located { position, anew: false, lateness: None }
        } else {
            self.go_far(keyed, counted, newest, context)
        };
        if let Some(counted) = counted {
            if counted.missing > 0 {
                let closed = self.newest < Some(context.unproven);
                let after = located.position;
                let between = Neighbours { before: self.newest, after, closed };
                let first = counted.count - counted.missing;
                self.gaps.open(first, counted.count - 1, context.clock, between);
            }
            self.newest_count = counted.count;
        }
        if self.suspect.is_none_or(|suspect| suspect.position != located.position) {
            self.advance(located.position, context);
        }
        located
    }

    /// Returns true when a source that is alone in its generation is due for a comparison with the
    /// others.
    fn may_be_lost(&self, context: &Context<'_>) -> bool {
        self.keys.is_multiple_of(ALONE_PERIOD) && context.generations.count() > 1
    }

    /// Locates a packet whose key does not simply follow the one before.
    fn go_far(
        &mut self,
        keyed: Keyed,
        counted: Option<Counted>,
        newest: Position,
        context: &mut Context<'_>,
    ) -> Located {
        let (newest, anew) = self.settle_suspect(keyed, newest, context);
        let raw = keyed.raw;
        let here = |position| Located { position, anew, lateness: None };
        if let Some(spill) = keyed.spill {
            let position = given(raw, spill, Some(newest), context);
            let anew = anew || position.generation > newest.generation;
            if position.generation == newest.generation && position.ordinal < newest.ordinal {
                self.ordered = false;
                self.steps.note(context.clock, newest, context.lateness);
            }
            self.suspect_jump(raw, position, newest, counted, context);
            return Located { position, anew, lateness: None };
        }
        if context.generations.sources(newest.generation) == 1
            && let Some(best) = context.generations.nearest(raw, context.now, 0)
            && best.position.generation != newest.generation
            && best.distance.as_ns() <= context.now.time_out.as_ns() / 2
            && (context.has)(best.position) == Has::Nothing
        {
            // Alone in its generation, while the others send this key in another one.
            return here(best.position);
        }
        let ordinal = raw.near(newest.ordinal);
        if ordinal < newest.ordinal || ordinal - newest.ordinal > raw.step_max() {
            return self.fall(raw, newest, anew, context);
        }
        let quiet = context.clock.since(self.last) >= context.now.time_out;
        let mean = self.first.map_or(0, |first| newest.ordinal.saturating_sub(first.ordinal));
        let mean = (mean / self.keys.max(1)).max(1);
        if quiet && ordinal - newest.ordinal > mean.saturating_mul(2) {
            // A key that grows is not a sign that keys began anew, unless others say so.
            let best = context.generations.nearest(raw, context.now, newest.generation);
            return here(best.map_or(newest.with(ordinal), |its| its.position));
        }
        let position = newest.with(ordinal);
        self.suspect_jump(raw, position, newest, counted, context);
        here(position)
    }

    /// Locates a packet whose key falls: it is out of order, or keys begin anew.
    fn fall(
        &mut self,
        raw: RawKey,
        newest: Position,
        anew: bool,
        context: &mut Context<'_>,
    ) -> Located {
        let same = newest.with(raw.near(newest.ordinal));
        if self.is_disorder(same, newest, context) {
            if std::mem::take(&mut self.ordered) {
                self.steps.note(context.clock, newest, context.lateness);
            }
            return Located { position: same, anew, lateness: None };
        }
        let position = context.generations.place(raw, context.now, newest.generation + 1);
        self.suspect = Some(Suspect { position, anew: true });
        context.generations.note(position, context.now.time);
        Located { position, anew, lateness: None }
    }

    /// Returns true when a key that falls is out of order, and no sign that keys begin anew.
    fn is_disorder(&self, same: Position, newest: Position, context: &Context<'_>) -> bool {
        if self.class.is_none() {
            return self.since_beyond(same, context) <= context.now.time_out;
        }
        // A packet that was overtaken comes soon after the one that overtook it.
        let recent = context.clock.since(self.last) <= context.lateness;
        let near = newest.ordinal.wrapping_sub(same.ordinal);
        let disorder = DISORDER_MAX.saturating_mul(self.step_largest.max(1));
        let soon = context.generations.between(same, newest) <= context.lateness;
        recent && (context.has)(same) != Has::Whole && (soon || near <= disorder)
    }

    /// Returns the time since the source itself went beyond an older key; without a counter.
    fn since_beyond(&self, same: Position, context: &Context<'_>) -> Span {
        let since = self.history.since(context.clock, same);
        since.unwrap_or(self.history.since_highest(context.clock))
    }

    /// Does not yet believe a step that is much longer than those before.
    fn suspect_jump(
        &mut self,
        raw: RawKey,
        position: Position,
        newest: Position,
        counted: Option<Counted>,
        context: &Context<'_>,
    ) {
        if position.generation != newest.generation {
            return;
        }
        let step = position.ordinal.saturating_sub(newest.ordinal);
        let lost = counted.map_or(0, |counted| counted.missing).saturating_add(1);
        let believed = STEP_BELIEVED
            .max(self.step_largest.saturating_mul(STEP_GROWTH).saturating_mul(lost))
            .min(raw.step_max());
        let others = context.generations.newest_key(position.generation);
        let passed = others.is_some_and(|key| position.ordinal <= key.saturating_add(believed));
        if step > believed && !passed {
            self.suspect = Some(Suspect { position, anew: false });
        }
    }

    /// Uses the next packet to decide if the source really moved to the suspect position. Returns
    /// the position from which it continues, and true if its keys began anew.
    fn settle_suspect(
        &mut self,
        keyed: Keyed,
        newest: Position,
        context: &mut Context<'_>,
    ) -> (Position, bool) {
        let Some(Suspect { position, anew }) = self.suspect.take() else { return (newest, false) };
        let raw = keyed.raw;
        let from_suspect = position.with(raw.near(position.ordinal));
        let from_newest = newest.with(raw.near(newest.ordinal));
        let mut goes_on = from_suspect.ordinal >= position.ordinal;
        if anew && self.class.is_none() && context.generations.sources(position.generation) == 0 {
            // Nothing but this key began the generation: the next one must have fallen, too.
            let falls = from_newest.ordinal <= newest.ordinal
                && self.since_beyond(from_newest, context) > context.now.time_out;
            goes_on = goes_on && falls;
        }
        if anew && goes_on && from_newest.ordinal > newest.ordinal {
            let distance = |at| context.generations.distance(at, context.now).unwrap_or(Span::ZERO);
            let (there, back) = (distance(from_suspect), distance(from_newest));
            let shorter =
                from_newest.ordinal - newest.ordinal < from_suspect.ordinal - position.ordinal;
            let as_near = back.as_ns() <= there.as_ns() + context.lateness.as_ns();
            goes_on = if as_near && there.as_ns() <= back.as_ns() + context.lateness.as_ns() {
                !shorter
            } else {
                there < back
            };
        }
        if goes_on {
            self.advance(position, context);
            return (position, anew);
        }
        if anew {
            context.generations.retract(position.generation);
        }
        (newest, false)
    }
}
