//! Packets as signs of life of their sources: joining, returning, and coming too late.

use fluxline_core::planted;

use super::arrival::Arrival;
use super::config::Late;
use super::event_id::EventId;
use super::keys::KeyState;
use super::line::Located;
use super::members::{First, Left};
use super::reports::Report;
use super::summary::{EventKey, SourceState};
use super::{Builder, Moment, Part, Placement, Position, Span};

/// A source that joins this much later than the first is reported.
const JOINED_LATER: Span = Span::from_ms(100);

impl Builder {
    /// Handles a packet with a key that shows something new: its source joins or returns, or its
    /// keys need a closer look.
    pub(super) fn arrive(&mut self, arrival: &Arrival<'_>, located: Located) {
        let source = arrival.accepted.source;
        match self.members.know(source).state {
            SourceState::Live | SourceState::Ended => self.look_closer(source, located),
            SourceState::Unseen => self.enter(source, located.position),
            SourceState::Idle | SourceState::Dead => self.come_back(arrival, located.position),
        }
    }

    /// Lets a source join with its first key.
    fn enter(&mut self, source: u32, position: Position) {
        let time = self.time.now;
        let begun = *self.time.begun.get_or_insert(time);
        self.time.settled = self.time.settled.max(time + self.config.settling);
        let state = match self.inputs.is_ended(self.members.know(source).input) {
            true => SourceState::Ended,
            false => SourceState::Live,
        };
        self.members.set_state(source, state);
        self.open.blocker = None;
        let member = self.members.know(source);
        member.first = Some(First { time, position });
        member.unproven = self.open.horizon;
        member.joined = position;
        let after = time.since(begun);
        if after >= JOINED_LATER && !self.keys_are_own() {
            let key = self.anchor.key(position.ordinal);
            let source = self.members.label(source).to_owned();
            self.watch.reports.say(Report::Joined { source, key, after });
        }
    }

    /// Lets a silent source return: it is expected from here on.
    fn come_back(&mut self, arrival: &Arrival<'_>, position: Position) {
        let source = arrival.accepted.source;
        let before = self.members.know(source).state;
        self.members.set_state(source, SourceState::Live);
        self.open.blocker = None;
        let member = self.members.know(source);
        member.joined = member.joined.max(position);
        let goes_on = |left: &Left| {
            arrival.accepted.counted.is_some_and(|counted| {
                counted.count == left.count + 1
                    && counted.restarts == left.restarts
                    && left.class == Some(counted.class)
            })
        };
        let misses = member.take_misses();
        if member.left.take().as_ref().is_some_and(goes_on) {
            member.counts.absent += misses;
            member.counts.proven_absent += misses;
            member.counts.missing -= misses.min(member.counts.missing);
        } else if !member.proves() {
            // It says nothing about the silence: that is how rarely it sends.
            member.counts.absent += misses;
        }
        if before == SourceState::Dead {
            let key = self.anchor.key(position.ordinal);
            let source = self.members.label(source).to_owned();
            self.watch.reports.say(Report::Back { source, key });
        }
    }

    /// Checks a live source's second key, or keys that began anew or reach below its first one.
    fn look_closer(&mut self, source: u32, located: Located) {
        self.watch_first_keys(source, located.position);
        if located.anew && !self.keys_are_own() {
            let known = self.members.iter().filter_map(|its| its.newest()).max();
            let first = known.is_none_or(|newest| newest <= located.position);
            let generation = located.position.generation;
            if first && generation > self.watch.generation_said {
                self.watch.generation_said = generation;
                self.counters.key_restarts += 1;
                self.watch.reports.say(Report::Anew { generation });
            }
        }
        self.open.blocker = None;
        let member = self.members.know(source);
        if let Some(first) = &mut member.first
            && located.position < first.position
        {
            if member.joined == first.position {
                member.joined = located.position;
            }
            first.position = located.position;
        }
    }

    /// Records a packet of a closed event as late, if it did not come before.
    pub(super) fn push_late(
        &mut self,
        arrival: &Arrival<'_>,
        id: EventId,
        state: KeyState,
        located: Located,
    ) -> Placement {
        let source = arrival.accepted.source;
        let bit = id.bit_of(source);
        let number = if let KeyState::Closed(number) = state { Some(number) } else { None };
        let has = number.is_some_and(|number| self.keys.closed().has(number, bit));
        // With a packet counter, duplicates never reach this point: the packet is another part of
        // the fragment.
        if has && !arrival.stream && arrival.accepted.counted.is_none() {
            return Placement::EventDuplicate;
        }
        self.learn_lateness(source, id.position, number, located);
        if self.config.late == Late::Drop {
            return Placement::LateDropped;
        }
        if self.bytes_open() + arrival.cost() > self.config.bytes_open_max {
            return Placement::BuilderFull;
        }
        let member = self.members.know(source);
        member.counts.late += 1;
        if arrival.parsed.part == Part::Whole && !has {
            member.counts.joined_late += 1;
            if let Some(number) = number {
                self.keys.closed_mut().add(number, bit);
            }
        }
        let key = self.anchor.key(id.position.ordinal);
        if planted!(15) {
            return Placement::Late;
        }
        self.gathering.add_late(id, key, arrival.alone(self.time.end()));
        Placement::Late
    }

    /// Raises the lateness, up to a limit, after a packet that came later than the present
    /// lateness.
    fn learn_lateness(
        &mut self,
        source: u32,
        position: Position,
        number: Option<u32>,
        located: Located,
    ) {
        let clock = self.time.now;
        let closed: Option<Moment> = number.and_then(|number| self.keys.closed().when(number));
        let member = self.members.know(source);
        let back = member.newest().is_some_and(|newest| position < newest);
        let of_its_gap = located.lateness;
        let arrived = self.inputs.clock(member.input);
        let since_passed = member.lines.iter().find_map(|its| its.beyond_since(position, arrived));
        let lateness = self.time.lateness;
        let since_closed = closed.map(|closed| (clock + lateness).since(closed));
        let uncounted = if member.proves() { None } else { since_passed.or(since_closed) };
        let Some(late) = of_its_gap.or(uncounted.filter(|_| back)) else { return };
        let most = Span::from_ns(self.config.time_out.as_ns() / 2);
        let twice = Span::from_ns(late.as_ns().saturating_mul(2));
        self.time.lateness = self.time.lateness.max(twice.min(most));
    }

    pub(super) fn event_key(&self, position: Position) -> EventKey {
        EventKey { generation: position.generation, key: self.anchor.key(position.ordinal) }
    }
}
