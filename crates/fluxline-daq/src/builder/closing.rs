//! The closing of an event: finds missing parts, and the consequences for its sources.
//!
//! A source that has passed the event without a loss around it sent nothing for it, which does not
//! count as a loss. A source that is rarely in events, or that was idle, is missed only with proof.

use fluxline_core::planted;

use serde::{Deserialize, Serialize};

use super::batch::ClosedEvent;
use super::config::{Expectation, Mode, Scope};
use super::event_id::SCOPE_ALL;
use super::lacking::{Reason, Text};
use super::reports::Report;
use super::slab::OpenEvent;
use super::summary::SourceState;
use super::{Builder, Position, source_counters};
use crate::event::EventStatus;

/// The reason why an event is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No source can add to it.
    Done,
    /// Its time is over.
    Time,
    /// Memory runs short.
    Memory,
    /// The run ends.
    Stop,
}

/// A source of which an event lacks something.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Lacking {
    source: u32,
    /// `None`: parts of its fragment.
    reason: Option<Reason>,
}

impl Builder {
    pub(super) fn close(&mut self, slot: u32, why: Why) {
        let id = self.open.slab.event(slot).id;
        let mut lacking = core::mem::take(&mut self.scratch.lacking);
        lacking.clear();
        if id.scope == SCOPE_ALL {
            self.judge_sources(slot, why, &mut lacking);
        } else {
            let incomplete = self.open.slab.event(slot).fragments().find(|its| !its.1.complete);
            lacking.extend(incomplete.map(|its| Lacking { source: its.0, reason: None }));
        }
        let status = self.status_of(slot, why, &lacking);
        let key = self.anchor.key(id.position.ordinal);
        let missing_bytes = match status {
            EventStatus::Complete => 0,
            _ => self.describe(slot, &lacking),
        };
        self.scratch.lacking = lacking;
        let event = self.open.slab.event(slot);
        let complete = status == EventStatus::Complete;
        let closed = ClosedEvent { event, key, status, built: self.time.end(), missing_bytes };
        self.gathering.add_event(closed);
        for row in &event.packets {
            let counters = source_counters(&mut self.per_source, row.source);
            counters.in_complete += u64::from(complete);
            counters.in_incomplete += u64::from(!complete);
        }
        match status {
            EventStatus::Complete => self.counters.events_complete += 1,
            EventStatus::Incomplete => self.counters.events_incomplete += 1,
            EventStatus::Stopped => self.counters.events_stopped += 1,
            EventStatus::Late => {}
        }
        self.open.bytes -= event.cost;
        self.keys.close(id, &event.whole, self.time.now);
        self.watch_lag(slot);
        self.open.slab.give_back(slot);
        self.open.refused.close(id.position);
        self.open.horizon = self.open.horizon.max(id.position);
        self.open.blocker = None;
        if self.open.last.is_some_and(|last| last.1 == slot) {
            self.open.last = None;
        }
    }

    /// Counts the event for each source as present or missing; adds missing sources to `lacking`.
    fn judge_sources(&mut self, slot: u32, why: Why, lacking: &mut Vec<Lacking>) {
        let event = self.open.slab.event(slot);
        let position = event.id.position;
        let window = matches!(self.config.mode, Mode::Window { .. });
        for (source, fragment) in event.fragments() {
            let member = self.members.know(source);
            member.take_misses();
            if window && self.open.refused.has(position, source) {
                member.counts.missing += 1;
                lacking.push(Lacking { source, reason: Some(Reason::NoRoom) });
            } else if fragment.complete {
                member.counts.on_time += 1;
            } else {
                member.counts.missing += 1;
                lacking.push(Lacking { source, reason: None });
            }
        }
        let mut without = core::mem::take(&mut self.scratch.sources);
        without.clear();
        without.extend(self.members.all_without(&self.open.slab.event(slot).whole));
        for &source in &without {
            if self.open.slab.event(slot).fragment_of(source, 0).is_some() {
                continue;
            }
            let no_room = self.open.refused.has(position, source).then_some(Reason::NoRoom);
            if let Some(reason) = no_room.or_else(|| self.judge_absence(source, position, why)) {
                let lost = reason == Reason::Lost;
                let member = self.members.know(source);
                member.counts.missing += 1;
                member.counts.lost += u64::from(lost);
                lacking.push(Lacking { source, reason: Some(reason) });
            }
        }
        self.scratch.sources = without;
        // By label: the numbers of sources depend on who came first.
        let label = |its: &Lacking| self.members.label(its.source);
        lacking.sort_by(|one, other| label(one).cmp(label(other)));
    }

    /// Returns the reason why an event at `position` lacks a source that has nothing in it; `None`
    /// if it lacks nothing.
    fn judge_absence(&mut self, source: u32, position: Position, why: Why) -> Option<Reason> {
        let named = matches!(self.config.expectation, Expectation::Sources(_));
        let window = matches!(self.config.mode, Mode::Window { .. });
        let lateness = self.time.lateness;
        let member = self.members.get_mut(source)?;
        let clock = self.inputs.clock(member.input);
        let passed = member.frontier(clock, lateness).is_some_and(|its| its > position);
        let may_come = member.close_in_gap(position);
        if member.state == SourceState::Unseen || member.joined > position {
            member.unproven = member.unproven.max(position);
            let was_here = member.first.is_some_and(|first| first.position < position);
            let was_here = was_here && !planted!(31);
            // Between its silence and its return, only a loss is known.
            if was_here && (!named || member.required) {
                if member.lost_at(position) {
                    return Some(Reason::Lost);
                }
                if may_come {
                    return Some(Reason::NotCome);
                }
            }
            return (named && member.required).then_some(Reason::SentNothing);
        }
        let lost = member.lost_at(position);
        // Where a number of sources is required, this only names those that did not come.
        let counts = matches!(self.config.expectation, Expectation::Count(_));
        let usual = member.is_usual(!member.proves() && !counts);
        let proved = passed && !lost && (member.proves() || !usual);
        let ended = member.state == SourceState::Ended
            && member.newest().is_none_or(|newest| newest < position);
        member.counts.absent += u64::from(passed && !lost);
        if proved || ended {
            member.counts.proven_absent += u64::from(proved && member.proves());
            return (named && member.required).then_some(Reason::SentNothing);
        }
        if !passed {
            member.unproven = member.unproven.max(position);
        }
        if member.state == SourceState::Idle {
            member.miss();
            if member.is_gone() {
                self.bury(source);
            }
        }
        let member = self.members.get(source)?;
        let gone = member.state == SourceState::Dead;
        // Without a counter, the silence of a rare source does not prove anything.
        let known = usual || lost || may_come || (gone && member.proves());
        let missed = if named { member.required } else { known };
        missed.then(|| match member.state {
            _ if lost => Reason::Lost,
            SourceState::Idle | SourceState::Dead => {
                let newest = member.newest().unwrap_or_default();
                Reason::Silent { since: self.anchor.key(newest.ordinal) }
            }
            _ if passed => Reason::Lost,
            _ if window && why != Why::Stop => Reason::SentNothing,
            _ => Reason::NotCome,
        })
    }

    /// Marks a source as dead: it missed too many events in a row for chance.
    fn bury(&mut self, source: u32) {
        self.members.set_state(source, SourceState::Dead);
        let member = self.members.get(source).expect("a source that missed events is a member");
        let key = self.anchor.key(member.newest().unwrap_or_default().ordinal);
        self.watch.reports.say(Report::Silent { source: member.label.clone(), key });
    }

    fn status_of(&self, slot: u32, why: Why, lacking: &[Lacking]) -> EventStatus {
        let event = self.open.slab.event(slot);
        let enough = match &self.config.expectation {
            _ if event.id.scope != SCOPE_ALL => lacking.is_empty(),
            Expectation::Joined => lacking.is_empty(),
            Expectation::Count(count) => event.whole_count() >= *count && are_whole(event, lacking),
            Expectation::Sources(labels) => {
                self.has_all_of(event, labels) && are_whole(event, lacking)
            }
        };
        let stopped = |its: &Lacking| matches!(its.reason, None | Some(Reason::NotCome));
        let window = matches!(self.config.mode, Mode::Window { .. });
        let is_cut = self.time.is_cut && !planted!(24);
        // An event of one source is whole by itself.
        let is_sure = event.id.scope != SCOPE_ALL && lacking.is_empty();
        match why {
            // More could have come into a window that was open.
            Why::Stop if window => EventStatus::Stopped,
            _ if is_cut && !is_sure && lacking.iter().all(stopped) => EventStatus::Stopped,
            _ if enough || (planted!(13) && lacking.len() == 1) => EventStatus::Complete,
            Why::Stop if lacking.iter().all(stopped) => EventStatus::Stopped,
            _ => EventStatus::Incomplete,
        }
    }

    fn has_all_of(&self, event: &OpenEvent, labels: &[String]) -> bool {
        let required = |source: u32| self.members.get(source).is_some_and(|its| its.required);
        let came = event.fragments().filter(|its| its.1.complete && required(its.0)).count();
        came >= labels.len()
    }

    /// Appends the missing parts of the event to the batch's text; returns the length \[byte\].
    fn describe(&mut self, slot: u32, lacking: &[Lacking]) -> u32 {
        let event = self.open.slab.event(slot);
        let shared = event.id.scope == SCOPE_ALL;
        let mut text = Text::new(self.gathering.missing());
        match &self.config.expectation {
            Expectation::Count(count) if shared && event.whole_count() < *count => {
                text.count(event.whole_count(), *count);
            }
            Expectation::Sources(labels) if shared => {
                let known = |label: &&String| self.members.iter().any(|its| its.label == **label);
                for label in labels.iter().filter(|label| !known(label)) {
                    text.source(label, Reason::SentNothing);
                }
            }
            _ => {}
        }
        for &Lacking { source, reason } in lacking {
            let label = self.members.label(source);
            let place = event.fragment_of(source, 0);
            match (reason, place) {
                (Some(reason), _) => text.source(label, reason),
                (None, Some(place)) => text.parts(label, &event.fragments[place].coverage),
                (None, None) => {}
            }
        }
        text.bytes()
    }

    /// Returns true when each source has keys of its own.
    pub(super) fn keys_are_own(&self) -> bool {
        matches!(self.config.mode, Mode::Key(Scope::PerSource))
    }
}

/// Returns true when the event lacks no part of the fragments that it has.
fn are_whole(event: &OpenEvent, lacking: &[Lacking]) -> bool {
    lacking.iter().all(|its| match its.reason {
        None => false,
        Some(Reason::NoRoom) => event.fragment_of(its.source, 0).is_none(),
        Some(_) => true,
    })
}
