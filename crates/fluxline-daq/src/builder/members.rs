//! The sources that events may have: those that send, are awaited, or are silent.
//!
//! A source joins with its first key and is expected from then on. It becomes idle when an event
//! waited for it and it was silent while others sent. It becomes dead when it missed too many
//! events in a row for chance, and ended when its input ends. A later packet makes it live again.

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::config::{Expectation, SavedExpectation};
use super::copies::Copies;
use super::generations::Generations;
use super::line::{Line, Located};
use super::position::Position;
use super::summary::SourceState;

/// Chance is excluded below e to the power of minus this: one in 10¹².
const CHANCE_EXPONENT: f64 = 27.6;
/// A source in at least this share of events counts as missing even without proof.
const USUAL_SHARE: f64 = 0.9;

/// The position of a source when it fell silent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) position: Position,
    pub(super) class: Option<u8>,
    pub(super) count: u64,
    pub(super) restarts: u32,
}

/// The first packet of a source.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct First {
    pub(super) time: Moment,
    pub(super) position: Position,
}

/// Counts of a source's fragments, by event.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct FragmentCounts {
    pub(super) on_time: u64,
    /// Packets that came after their event was closed.
    pub(super) late: u64,
    /// Late fragments that are the first of their source for their event.
    pub(super) joined_late: u64,
    /// Events that it passed without a fragment or a loss.
    pub(super) absent: u64,
    /// Of these, those where its packet counter proves it.
    pub(super) proven_absent: u64,
    pub(super) lost: u64,
    pub(super) missing: u64,
}

/// One source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) label: String,
    /// The experiment names it.
    pub(super) required: bool,
    /// The place of its fragment in the last event: sources tend to keep their order.
    pub(super) hint: usize,
    pub(super) input: u16,
    pub(super) state: SourceState,
    /// It is expected from this position on.
    pub(super) joined: Position,
    pub(super) first: Option<First>,
    /// Its first key was compared with those of the others.
    pub(super) first_checked: bool,
    /// The time at which its last packet arrived.
    pub(super) last: Moment,
    /// The time at which its last packet was taken.
    pub(super) taken: Moment,
    pub(super) left: Option<Left>,
    /// Events in a row that it missed.
    pub(super) misses: u64,
    /// The improbability of these misses: the chance is e to the power of minus this.
    pub(super) improbable: f64,
    /// Events up to this position were closed without proof about it.
    pub(super) unproven: Position,
    /// True after the report that events wait for it.
    pub(super) behind_said: bool,
    pub(super) lines: Vec<Line>,
    pub(super) copies: Copies,
    /// Its own generations, if keys are not shared.
    pub(super) own: Option<Box<Generations>>,
    pub(super) counts: FragmentCounts,
}

impl Member {
    fn new(number: usize) -> Member {
        Member {
            label: format!("source {number}"),
            required: false,
            hint: 0,
            input: 0,
            state: SourceState::Unseen,
            joined: Position::default(),
            first: None,
            first_checked: false,
            last: Moment::default(),
            taken: Moment::default(),
            left: None,
            misses: 0,
            improbable: 0.0,
            unproven: Position::default(),
            behind_said: false,
            lines: Vec::new(),
            copies: Copies::default(),
            own: None,
            counts: FragmentCounts::default(),
        }
    }

    /// Notes that a packet of it was taken: it is not silent.
    #[inline]
    pub(super) fn meet(&mut self, input: u16, arrival: Moment, now: Moment) {
        self.input = input;
        self.last = self.last.max(arrival);
        self.taken = now;
    }

    /// Returns true when a packet at `located` shows nothing new.
    #[inline]
    pub(super) fn is_usual_packet(&self, located: Located) -> bool {
        let state = matches!(self.state, SourceState::Live | SourceState::Ended);
        let early = self.first.is_some_and(|first| located.position < first.position);
        state && self.first_checked && !located.anew && !early
    }

    /// Returns the index of the line of a counter's class.
    #[inline]
    pub(super) fn line(&mut self, class: Option<u8>) -> usize {
        match self.lines.iter().position(|line| line.class == class) {
            Some(place) => place,
            None => {
                self.lines.push(Line::new(class));
                self.lines.len() - 1
            }
        }
    }

    /// Returns the position before which nothing more can come from it.
    #[inline]
    pub(super) fn frontier(&mut self, now: Moment, lateness: Span) -> Option<Position> {
        match self.lines.as_mut_slice() {
            [line] => line.frontier(now, lateness),
            lines => {
                let keyed = lines.iter_mut().filter(|line| line.newest().is_some());
                keyed.map(|line| line.frontier(now, lateness)).min().flatten()
            }
        }
    }

    /// Returns true when time alone can move its frontier.
    #[inline]
    pub(super) fn moves_with_time(&self) -> bool {
        self.lines.iter().any(Line::moves_with_time)
    }

    /// Returns true when it has gone beyond `position`.
    #[inline]
    pub(super) fn has_passed(&mut self, position: Position, now: Moment, lateness: Span) -> bool {
        self.state == SourceState::Ended
            || self.frontier(now, lateness).is_some_and(|frontier| frontier > position)
    }

    /// Returns true if known losses may include a packet for `position`.
    pub(super) fn lost_at(&self, position: Position) -> bool {
        self.lines.iter().any(|line| line.lost_at(position))
    }

    /// Notes that an event at `position` is closed; returns true when numbers of its counters are
    /// missing there that may still come.
    pub(super) fn close_in_gap(&mut self, position: Position) -> bool {
        let mut is_open = false;
        for line in &mut self.lines {
            is_open |= line.close_in_gap(position);
        }
        is_open
    }

    /// Returns true when its counters prove that it sent nothing.
    pub(super) fn proves(&self) -> bool {
        self.lines.iter().all(Line::proves)
    }

    /// Returns the newest position of its packets.
    pub(super) fn newest(&self) -> Option<Position> {
        self.lines.iter().filter_map(Line::newest).max()
    }

    /// Returns the number of events that it sent something for.
    pub(super) fn fragments(&self) -> u64 {
        self.counts.on_time + self.counts.joined_late
    }

    /// Returns true when it is in most events, so that it is missed where it is absent.
    ///
    /// A counter will correct a wrong guess, so its source is missed from its first fragment on.
    /// Without a counter nothing will (`final_word`): the event in question counts as one without
    /// the source.
    pub(super) fn is_usual(&self, final_word: bool) -> bool {
        // Late fragments may be of events from before its first packet, where it was not absent.
        let with = if final_word { self.counts.on_time } else { self.fragments() } as f64;
        let doubt = if final_word { 1.0 } else { 0.0 };
        with > 0.0 && with >= USUAL_SHARE * (with + self.counts.absent as f64 + doubt)
    }

    /// Notes an event that it missed while it was silent.
    ///
    /// The chance of one more miss is that of a source whose share of events is known only by its
    /// past events (Laplace's rule of succession).
    pub(super) fn miss(&mut self) {
        let absent = (self.counts.absent + self.misses) as f64;
        self.improbable += ((self.fragments() as f64 + absent + 2.0) / (absent + 1.0)).ln();
        self.misses += 1;
    }

    /// Forgets its misses, because it has sent something; returns their number.
    pub(super) fn take_misses(&mut self) -> u64 {
        self.improbable = 0.0;
        std::mem::take(&mut self.misses)
    }

    /// Returns true when its misses in a row exclude chance.
    pub(super) fn is_gone(&self) -> bool {
        self.improbable >= CHANCE_EXPONENT
    }

    /// Returns its present position, to remember when it falls silent.
    pub(super) fn leaving(&self) -> Option<Left> {
        let line = self
            .lines
            .iter()
            .filter(|line| line.newest().is_some())
            .max_by_key(|line| line.newest())?;
        Some(Left {
            position: line.newest()?,
            class: line.class,
            count: line.newest_count(),
            restarts: line.restarts(),
        })
    }
}

/// All sources that the builder knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Members {
    list: Vec<Member>,
    /// The live sources, one bit each.
    live: Vec<u64>,
    /// Number of idle sources.
    idle: u32,
    #[serde(with = "SavedExpectation")]
    expectation: Expectation,
}

impl Members {
    pub(super) fn new(expectation: Expectation) -> Members {
        Members { list: Vec::new(), live: Vec::new(), idle: 0, expectation }
    }

    /// Returns true when the sets of live and idle sources are those of the list.
    pub(super) fn is_sound(&self, expectation: &Expectation) -> bool {
        let state = |state| self.list.iter().filter(move |its| its.state == state);
        let mut live = vec![0_u64; self.list.len().div_ceil(64)];
        for number in (0..self.list.len()).filter(|at| self.list[*at].state == SourceState::Live) {
            live[number / 64] |= 1 << (number % 64);
        }
        self.live == live
            && self.idle as usize == state(SourceState::Idle).count()
            && self.expectation == *expectation
    }

    /// Gives source `number` its label.
    pub(super) fn name(&mut self, number: u32, label: &str) {
        let required = match &self.expectation {
            Expectation::Sources(labels) => labels.iter().any(|its| its == label),
            Expectation::Count(_) | Expectation::Joined => false,
        };
        let member = self.know(number);
        member.label = label.to_owned();
        member.required |= required;
    }

    /// Returns source `number`, which is known from now on.
    #[inline]
    pub(super) fn know(&mut self, number: u32) -> &mut Member {
        let place = number as usize;
        while self.list.len() <= place {
            self.list.push(Member::new(self.list.len()));
            self.live.resize(self.list.len().div_ceil(64), 0);
        }
        &mut self.list[place]
    }

    /// Changes the state of source `number`.
    pub(super) fn set_state(&mut self, number: u32, state: SourceState) {
        let before = std::mem::replace(&mut self.know(number).state, state);
        self.idle -= u32::from(before == SourceState::Idle);
        self.idle += u32::from(state == SourceState::Idle);
        let bit = 1 << (number % 64);
        let word = &mut self.live[number as usize / 64];
        *word = if state == SourceState::Live { *word | bit } else { *word & !bit };
    }

    /// Returns true when any source is idle.
    pub(super) fn any_idle(&self) -> bool {
        self.idle > 0
    }

    /// Returns the first live source from `from` on without its whole fragment in an event, by its
    /// set.
    #[inline]
    pub(super) fn next_live_without(&self, whole: &[u64], from: u32) -> Option<u32> {
        let mut at = from as usize / 64;
        let mut mask = u64::MAX << (from % 64);
        while let Some(live) = self.live.get(at) {
            let word = live & !whole.get(at).copied().unwrap_or(0) & mask;
            if word != 0 {
                return Some(at as u32 * 64 + word.trailing_zeros());
            }
            at += 1;
            mask = u64::MAX;
        }
        None
    }

    /// Returns all sources without their whole fragment in an event, by the event's set.
    pub(super) fn all_without<'a>(&'a self, whole: &'a [u64]) -> impl Iterator<Item = u32> + 'a {
        let count = self.list.len();
        bits((0..self.live.len()).map(move |at| {
            let known = match count - at * 64 {
                64.. => u64::MAX,
                left => (1 << left) - 1,
            };
            (at, known & !whole.get(at).copied().unwrap_or(0))
        }))
    }

    pub(super) fn get(&self, number: u32) -> Option<&Member> {
        self.list.get(number as usize)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Member> {
        self.list.get_mut(number as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.list.iter()
    }

    pub(super) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// Returns the label of source `number`.
    pub(super) fn label(&self, number: u32) -> &str {
        self.get(number).map_or("", |member| &member.label)
    }

    /// Returns the number of required sources that have sent nothing yet.
    pub(super) fn unseen(&self) -> usize {
        let seen = |member: &&Member| member.state != SourceState::Unseen;
        match &self.expectation {
            Expectation::Joined => 0,
            Expectation::Count(count) => {
                (*count as usize).saturating_sub(self.list.iter().filter(seen).count())
            }
            Expectation::Sources(labels) => {
                let required = self.list.iter().filter(|member| member.required);
                labels.len().saturating_sub(required.filter(seen).count())
            }
        }
    }
}

/// Returns the numbers of the bits that are set.
fn bits(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = u32> {
    words.flat_map(|(at, mut word)| {
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros())?;
            word &= word - 1;
            Some(at as u32 * 64 + bit)
        })
    })
}
