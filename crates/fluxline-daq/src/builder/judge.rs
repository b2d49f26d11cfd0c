//! Closes events. An event closes at the first of:
//!
//! 1. each expected source that is live has its whole fragment in it, or has passed it;
//! 2. it is as old as the time-out, and the sources that it lacks have been silent as long: these
//!    become idle;
//! 3. it is as old as the longest lag: sources that send and lag are waited for until then;
//! 4. memory runs short: the oldest closes, and silent sources that it lacks become idle;
//! 5. the run ends.
//!
//! An event that lacks an idle source, or any event just after a source has joined, stays open for
//! at least the lateness.

use serde::{Deserialize, Serialize};

use super::closing::Why;
use super::config::{BuilderConfig, Mode, Scope};
use super::event_id::{EventId, SCOPE_ALL};
use super::lanes::Head;
use super::members::Member;
use super::summary::SourceState;
use super::{Builder, Moment, Position, Span};

/// The source for which the lowest event waits; other sources are not checked until it moves.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Blocker {
    slot: u32,
    /// `None`: it does not wait for a sending source.
    source: Option<u32>,
    /// The time until which only a packet of that source can change the verdict.
    until: Moment,
}

/// The limits at which memory runs short.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pressed {
    events: u32,
    bytes: u64,
}

impl Pressed {
    /// Returns three quarters of the events and half the bytes.
    pub(super) fn of(config: &BuilderConfig) -> Pressed {
        let events = (config.events_max() * 3).div_ceil(4);
        Pressed {
            events: u32::try_from(events).unwrap_or(u32::MAX),
            bytes: config.bytes_open_max.div_ceil(2),
        }
    }
}

/// The number that stands for "no source": time has passed.
const NOBODY: u32 = u32::MAX;

impl Builder {
    /// Closes the events that a packet of `source` has decided.
    #[inline]
    pub(super) fn settle(&mut self, source: u32) {
        match self.config.mode {
            Mode::Key(Scope::Global) => self.settle_shared(source),
            Mode::Key(Scope::PerSource) => self.settle_own(source),
            Mode::Window { .. } | Mode::Packet => self.settle_oldest(),
        }
    }

    /// Closes the events that the time has decided.
    pub(super) fn settle_by_time(&mut self) {
        match self.config.mode {
            Mode::Key(Scope::Global) => self.settle_shared(NOBODY),
            Mode::Key(Scope::PerSource) => {
                for source in 0..self.members.count() {
                    self.settle_own(source);
                }
                self.settle_oldest();
            }
            Mode::Window { .. } | Mode::Packet => self.settle_oldest(),
        }
    }

    #[inline]
    fn settle_shared(&mut self, source: u32) {
        if self.is_pressed() {
            self.make_room();
        }
        while let Some(head) = self.open.lanes.head(SCOPE_ALL) {
            if let Some(blocker) = self.open.blocker
                && blocker.slot == head.slot
                && blocker.source != Some(source)
                && self.time.now < blocker.until
            {
                return;
            }
            if self.is_stale(SCOPE_ALL, head) {
                self.open.lanes.pop(SCOPE_ALL);
                continue;
            }
            if self.is_too_new(head) && !self.is_pressed() {
                return;
            }
            let Some(why) = self.verdict(head) else { return };
            self.open.lanes.pop(SCOPE_ALL);
            self.close(head.slot, why);
        }
    }

    /// Closes the events that were opened first, until there is room. It does not close the lowest
    /// ones: wrong keys far ahead must not displace all others.
    fn make_room(&mut self) {
        while self.is_pressed()
            && let Some(slot) = self.open.slab.oldest()
        {
            let id = self.open.slab.event(slot).id;
            let shared = (id.scope == SCOPE_ALL).then_some(Head { position: id.position, slot });
            let why = shared.and_then(|head| self.urgent_verdict(head));
            self.close(slot, why.unwrap_or(Why::Memory));
        }
    }

    /// Returns true when an event of a lane was closed out of turn.
    fn is_stale(&self, scope: u32, head: Head) -> bool {
        let event = self.open.slab.event(head.slot);
        event.sources.is_empty() || event.id != (EventId { scope, position: head.position })
    }

    /// Returns the reason to close the lowest event now; `None`: it waits.
    fn verdict(&mut self, head: Head) -> Option<Why> {
        let opened = self.open.slab.event(head.slot).opened;
        if self.time.now.since(opened) >= self.config.time_out {
            self.open.blocker = None;
            return self.urgent_verdict(head);
        }
        // A source that has passed the event before has still passed it.
        let before = self.open.blocker.filter(|its| its.slot == head.slot);
        let from = before.and_then(|its| its.source).unwrap_or(0);
        self.open.blocker = match self.first_awaited(head, from) {
            Some(source) => {
                let moves = self.members.get(source).is_none_or(Member::moves_with_time);
                let until = if moves { self.time.now } else { opened + self.config.time_out };
                Some(Blocker { slot: head.slot, source: Some(source), until })
            }
            None => match self.waits_for_more(head) {
                Some(until) => Some(Blocker { slot: head.slot, source: None, until }),
                None => return Some(Why::Done),
            },
        };
        None
    }

    /// Returns the verdict if the event's time is over or memory runs short: then all awaited
    /// sources count.
    fn urgent_verdict(&mut self, head: Head) -> Option<Why> {
        let mut awaited = core::mem::take(&mut self.scratch.sources);
        awaited.clear();
        let mut from = 0;
        while let Some(source) = self.first_awaited(head, from) {
            awaited.push(source);
            from = source + 1;
        }
        let pressed = self.is_pressed();
        let why = match awaited.is_empty() {
            true => (pressed || self.held_until(head).is_none()).then_some(Why::Done),
            false if pressed => Some(Why::Memory),
            false => {
                let gave_up = awaited.iter().all(|&source| self.gave_up(source, head.slot));
                gave_up.then_some(Why::Time)
            }
        };
        if matches!(why, Some(Why::Memory | Why::Time)) {
            let silence = if pressed { self.time.lateness } else { self.config.time_out };
            self.make_idle(&awaited, silence);
        }
        self.scratch.sources = awaited;
        why
    }

    /// Returns the first source from `from` on that may still add to an event.
    #[inline]
    fn first_awaited(&mut self, head: Head, from: u32) -> Option<u32> {
        let mut from = from;
        loop {
            let whole = &self.open.slab.event(head.slot).whole;
            let source = self.members.next_live_without(whole, from)?;
            if self.awaits(source, head.position) {
                return Some(source);
            }
            from = source + 1;
        }
    }
    /// Returns true when a live source without its whole fragment in an event may still add to it.
    #[inline]
    fn awaits(&mut self, source: u32, position: Position) -> bool {
        let lateness = self.time.lateness;
        self.members.get_mut(source).is_some_and(|member| {
            member.state == SourceState::Live
                && member.joined <= position
                && !member.has_passed(position, self.inputs.clock(member.input), lateness)
        })
    }

    /// Returns the time until which an event waits although no live source can add to it: for
    /// sources that are required and unseen, that may join, or that are idle. `None`: it does not
    /// wait.
    fn waits_for_more(&self, head: Head) -> Option<Moment> {
        if let Some(until) = self.held_until(head) {
            return Some(until);
        }
        let begun = self.time.begun.unwrap_or(self.time.now) + self.config.time_out;
        if self.time.now < begun && self.members.unseen() > 0 && !self.inputs.are_on_demand() {
            return Some(begun);
        }
        let until = self.open.slab.event(head.slot).opened + self.time.lateness;
        if self.time.now >= until {
            return None;
        }
        if self.inputs.move_clock() {
            return Some(until); // inputs on demand can wait
        }
        if self.time.now < self.time.settled {
            return Some(until.min(self.time.settled));
        }
        self.lacks_idle(head).then_some(until)
    }

    /// Returns the time until which inputs on demand hold an event back for sources that are not
    /// known yet. `None`: they do not.
    fn held_until(&self, head: Head) -> Option<Moment> {
        let event = self.open.slab.event(head.slot);
        let until = event.opened + self.time.lateness;
        if self.time.now < until && self.inputs.move_clock() {
            return Some(until);
        }
        (self.is_too_new(head) || self.inputs.hold(head.position)).then_some(self.time.now)
    }

    /// Returns true when packets of an event may still come out of order from inputs on demand.
    #[inline]
    fn is_too_new(&self, head: Head) -> bool {
        let wait = self.inputs.wait_packets();
        wait > 0 && self.inputs.packets() - self.open.slab.event(head.slot).opened_by < wait
    }

    /// Returns true when an event lacks a source that is idle.
    fn lacks_idle(&self, head: Head) -> bool {
        let idle = |source| {
            self.members.get(source).is_some_and(|member| {
                member.state == SourceState::Idle && member.joined <= head.position
            })
        };
        self.members.any_idle()
            && self.members.all_without(&self.open.slab.event(head.slot).whole).any(idle)
    }

    /// Returns true when the event in `slot` has waited long enough for a source.
    fn gave_up(&self, source: u32, slot: u32) -> bool {
        let Some(member) = self.members.get(source) else { return true };
        let opened = self.open.slab.event(slot).opened;
        let lag = self.inputs.clock(member.input).since(opened);
        self.is_silent(member, self.config.time_out)
            || (lag >= self.config.lag_max && !self.inputs.has_unread(member.input))
    }

    /// Returns true when nothing of a source arrived during `silence`.
    fn is_silent(&self, member: &Member, silence: Span) -> bool {
        self.inputs.silence(member.input, member.last) >= silence
    }

    /// Makes awaited and silent sources idle, if others are not silent, too.
    fn make_idle(&mut self, awaited: &[u32], silence: Span) {
        for &source in awaited {
            let Some(member) = self.members.get(source) else { continue };
            let others_sent = self.time.activity.since(member.taken) >= silence;
            if !others_sent || !self.is_silent(member, silence) {
                continue;
            }
            let left = member.leaving();
            self.members.set_state(source, SourceState::Idle);
            self.members.know(source).left = left;
        }
    }

    /// Returns true when memory runs short, so that the oldest event must close.
    #[inline]
    fn is_pressed(&self) -> bool {
        self.open.slab.open_count() >= self.open.pressed.events
            || self.open.bytes >= self.open.pressed.bytes
    }

    /// Closes the events of one source alone that are whole, or that it has passed.
    fn settle_own(&mut self, source: u32) {
        if let Some((id, slot)) = self.open.last
            && id.scope == source
            && self.open.slab.event(slot).has_whole(source)
        {
            self.close(slot, Why::Done);
        }
        while let Some(Head { position, slot }) = self.open.lanes.head(source) {
            if self.is_stale(source, Head { position, slot }) {
                self.open.lanes.pop(source); // it was closed when it was whole
                continue;
            }
            let lateness = self.time.lateness;
            let passed = self.members.get_mut(source).is_some_and(|member| {
                member.has_passed(position, self.inputs.clock(member.input), lateness)
            });
            if !passed && !self.open.slab.event(slot).has_whole(source) {
                break;
            }
            self.open.lanes.pop(source);
            self.close(slot, Why::Done);
        }
        if self.is_pressed() {
            self.make_room();
        }
    }

    /// Closes windows whose time is over, and events of sources that fell silent.
    fn settle_oldest(&mut self) {
        while let Some(slot) = self.open.slab.oldest() {
            let event = self.open.slab.event(slot);
            let age = self.time.now.since(event.opened);
            let over = match self.config.mode {
                Mode::Window { .. } => event.deadline <= self.time.now,
                Mode::Packet | Mode::Key(_) => {
                    age >= self.config.time_out && self.gave_up(event.id.scope, slot)
                }
            };
            let why = match over {
                true => Why::Time,
                false if self.is_pressed() => Why::Memory,
                false => return,
            };
            self.close(slot, why);
        }
    }

    /// Closes all events at the end of the run.
    pub(super) fn close_all(&mut self) {
        while let Some(head) = self.open.lanes.head(SCOPE_ALL) {
            if !self.is_stale(SCOPE_ALL, head) {
                let why = self.verdict(head).unwrap_or(Why::Stop);
                self.close(head.slot, why);
            }
            self.open.lanes.pop(SCOPE_ALL);
        }
        while let Some(slot) = self.open.slab.oldest() {
            self.close(slot, Why::Stop);
        }
    }
}
