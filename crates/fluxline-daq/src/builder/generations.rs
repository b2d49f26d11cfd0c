//! Generations: after keys have begun anew (spills, restarts), equal keys are different events.
//!
//! A position is a generation and a key. Where packets carry a spill number, it is the generation.
//! Otherwise keys that fall while the packet counter goes on begin the next generation. A source
//! that appears takes the generation in which the others sent its key nearest in time. That works
//! as long as latencies stay well below the time from one beginning of keys to the next.

use std::collections::VecDeque;

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::position::{Position, RawKey};
use super::timeline::Timeline;

/// Most generations that are known; a source can be this far behind.
const GENERATIONS_MAX: usize = 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Generation {
    number: u32,
    timeline: Timeline,
    /// Number of sources that are in it now.
    sources: u32,
}

/// The newest generations, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Generations {
    list: VecDeque<Generation>,
    /// The number after those of generations that were errors: each has an event, so none is used
    /// again.
    retracted: u32,
}

/// A position that a key may have, and its distance in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) position: Position,
    pub(super) distance: Span,
}

/// The time at which a packet came, and the silence that counts as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) time: Moment,
    pub(super) time_out: Span,
}

impl Generations {
    /// Returns the position of the first key of a source, in generations from `from` on.
    ///
    /// It begins a generation only if no known one is near in time and the newest has ended.
    pub(super) fn place(&mut self, raw: RawKey, now: Now, from: u32) -> Position {
        let Some(best) = self.nearest(raw, now, from) else {
            return self.begin(raw, now.time, from);
        };
        let ended = self.list.back().is_some_and(|newest| {
            let ordinal = newest.timeline.unwrap(raw, now.time);
            ordinal <= newest.timeline.newest()
                && now.time.since(newest.timeline.newest_time()) >= now.time_out
        });
        if ended && best.distance > now.time_out {
            return self.begin(raw, now.time, from);
        }
        best.position
    }

    /// Returns the position that is nearest in time, in generations from `from` on; of equally near
    /// ones the newest.
    pub(super) fn nearest(&self, raw: RawKey, now: Now, from: u32) -> Option<Candidate> {
        let numbers = self.list.iter().filter(|its| its.number >= from).map(|its| its.number);
        let candidates = numbers.filter_map(|number| self.candidate(raw, now, number));
        candidates.reduce(|best, next| if next.distance <= best.distance { next } else { best })
    }

    /// Returns the position of a key in generation `number`.
    pub(super) fn candidate(&self, raw: RawKey, now: Now, number: u32) -> Option<Candidate> {
        let timeline = &self.get(number)?.timeline;
        let ordinal = timeline.unwrap(raw, now.time);
        let position = Position { generation: number, ordinal };
        Some(Candidate { position, distance: self.distance(position, now)? })
    }

    /// Returns the time between now and the moment at which the first source sent a key, or would
    /// have sent it.
    pub(super) fn distance(&self, position: Position, now: Now) -> Option<Span> {
        let timeline = &self.get(position.generation)?.timeline;
        let newest = self.list.back().is_some_and(|its| its.number == position.generation);
        if newest && position.ordinal > timeline.newest() {
            // It goes on: the first source of all may pause before.
            return Some(timeline.newest_time().since(now.time));
        }
        Some(timeline.distance(position.ordinal, now.time))
    }

    /// Returns the time from one key to a later one of the same generation.
    pub(super) fn between(&self, from: Position, to: Position) -> Span {
        let timeline = self.get(from.generation).map(|its| &its.timeline);
        timeline.map_or(Span::ZERO, |its| its.between(from.ordinal, to.ordinal))
    }

    /// Begins the next generation with a key; its number is at least `from`.
    pub(super) fn begin(&mut self, raw: RawKey, time: Moment, from: u32) -> Position {
        let next = self.list.back().map_or(0, |newest| newest.number + 1);
        let generation = next.max(from).max(self.retracted);
        self.enter(Position { generation, ordinal: raw.ordinal }, time);
        Position { generation, ordinal: raw.ordinal }
    }

    /// Makes sure that the generation of `position` is known.
    pub(super) fn enter(&mut self, position: Position, time: Moment) {
        let at = self.list.partition_point(|its| its.number < position.generation);
        if self.list.get(at).is_some_and(|its| its.number == position.generation) {
            return;
        }
        if at == 0 && self.list.len() >= GENERATIONS_MAX {
            return;
        }
        let timeline = Timeline::new(time, position.ordinal);
        self.list.insert(at, Generation { number: position.generation, timeline, sources: 0 });
        if self.list.len() > GENERATIONS_MAX {
            self.list.pop_front();
        }
    }

    /// Notes a key that is believed.
    #[inline]
    pub(super) fn note(&mut self, position: Position, time: Moment) {
        let newest = self.list.back_mut().filter(|its| its.number == position.generation);
        if let Some(its) = newest {
            its.timeline.note(time, position.ordinal);
        } else if let Some(its) = self.get_mut(position.generation) {
            its.timeline.note(time, position.ordinal);
        }
    }

    /// Notes that a source went from one generation to another. A generation without sources was an
    /// error.
    pub(super) fn moved(&mut self, from: Option<u32>, to: Option<u32>) {
        if let Some(its) = from.and_then(|number| self.get_mut(number)) {
            its.sources = its.sources.saturating_sub(1);
        }
        if let Some(its) = to.and_then(|number| self.get_mut(number)) {
            its.sources += 1;
        }
    }

    /// Forgets the newest generation if no source is in it.
    pub(super) fn retract(&mut self, number: u32) {
        if self.list.back().is_some_and(|its| its.number == number && its.sources == 0) {
            self.list.pop_back();
            self.retracted = number + 1;
        }
    }

    /// Returns the number of sources in a generation.
    pub(super) fn sources(&self, number: u32) -> u32 {
        self.get(number).map_or(0, |its| its.sources)
    }

    /// Returns the largest key of a generation.
    pub(super) fn newest_key(&self, number: u32) -> Option<u64> {
        self.get(number).map(|its| its.timeline.newest())
    }

    /// Returns the number of known generations.
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the newest generation.
    pub(super) fn newest(&self) -> Option<u32> {
        self.list.back().map(|its| its.number)
    }

    fn get(&self, number: u32) -> Option<&Generation> {
        self.list.iter().rev().find(|its| its.number == number)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Generation> {
        self.list.iter_mut().rev().find(|its| its.number == number)
    }
}
