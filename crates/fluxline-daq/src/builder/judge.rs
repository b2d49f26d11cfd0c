//! When an event closes. At the first of:
//!
//! 1. each expected source that is live has its whole fragment in it, or has passed it;
//! 2. it is as old as the time-out, and whoever lacks has been silent as long: these become idle;
//! 3. it is as old as the longest lag: sources that send and lag are waited for until then;
//! 4. memory runs short: the oldest closes, and whoever lacks and is silent becomes idle;
//! 5. the run ends.
//!
//! Where an idle source lacks, or a source has just joined, an event is at least a lateness old.

use super::closing::Why;
use super::config::{Mode, Scope};
use super::keys::{EventId, SCOPE_ALL};
use super::lanes::Head;
use super::members::Member;
use super::summary::SourceState;
use super::{Builder, Position, Span};

/// The source that the lowest event waits for; nothing else need be looked at until it moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocker {
    slot: u32,
    source: u32,
}

impl Builder {
    /// Closes what a packet of `source` has decided.
    #[inline]
    pub(super) fn settle(&mut self, source: u32) {
        match self.config.mode {
            Mode::Key(Scope::Global) => self.settle_shared(),
            Mode::Key(Scope::PerSource) => self.settle_own(source),
            Mode::Window { .. } | Mode::Packet => self.settle_oldest(),
        }
    }

    /// Closes what the time has decided.
    pub(super) fn settle_by_time(&mut self) {
        match self.config.mode {
            Mode::Key(Scope::Global) => self.settle_shared(),
            Mode::Key(Scope::PerSource) => {
                for source in 0..self.members.count() {
                    self.settle_own(source);
                }
                self.settle_oldest();
            }
            Mode::Window { .. } | Mode::Packet => self.settle_oldest(),
        }
    }

    fn settle_shared(&mut self) {
        while let Some(head) = self.lanes.head(SCOPE_ALL) {
            let Some(why) = self.verdict(head) else { return };
            self.lanes.pop(SCOPE_ALL);
            self.close(head.slot, why);
        }
    }

    /// Why the lowest event closes now; `None`: it waits.
    fn verdict(&mut self, head: Head) -> Option<Why> {
        let Head { position, slot } = head;
        let age = self.clock.since(self.slab.event(slot).opened);
        let pressed = self.is_pressed();
        let urgent = pressed || age >= self.config.time_out;
        if let Some(blocker) = self.blocker
            && blocker.slot == slot
            && !urgent
            && self.awaits(blocker.source, position)
            && !self.slab.event(slot).has_whole(blocker.source)
        {
            return None;
        }
        self.blocker = None;
        let mut awaited = core::mem::take(&mut self.scratch);
        awaited.clear();
        awaited.extend(self.members.live_without(&self.slab.event(slot).whole));
        let mut first = None;
        awaited.retain(|&source| {
            // Unless it is urgent, one that is awaited is enough.
            let waits = (urgent || first.is_none()) && self.awaits(source, position);
            first = first.or(waits.then_some(source));
            waits
        });
        let why = match first {
            None => self.may_close_done(head, age).then_some(Why::Done),
            Some(source) if !urgent => {
                self.blocker = Some(Blocker { slot, source });
                None
            }
            Some(_) if pressed => Some(Why::Memory),
            Some(_) => {
                awaited.iter().all(|&source| self.gave_up(source, slot)).then_some(Why::Time)
            }
        };
        if matches!(why, Some(Why::Memory | Why::Time)) {
            let silence = if pressed { self.lateness } else { self.config.time_out };
            self.make_idle(&awaited, silence);
        }
        self.scratch = awaited;
        why
    }

    /// Whether a live source may still add to an event that it has no whole fragment in.
    #[inline]
    fn awaits(&mut self, source: u32, position: Position) -> bool {
        let lateness = self.lateness;
        self.members.get_mut(source).is_some_and(|member| {
            member.state == SourceState::Live
                && member.joined <= position
                && !member.has_passed(position, self.inputs.clock(member.input), lateness)
        })
    }

    /// Whether an event that no live source can add to need not wait for others either.
    fn may_close_done(&self, head: Head, age: Span) -> bool {
        if self.is_pressed() {
            return true;
        }
        // What is read on demand can wait for sources that are not known yet.
        let opened_by = self.slab.event(head.slot).opened_by;
        if (age < self.lateness && self.inputs.move_clock())
            || self.inputs.hold(head.position, opened_by)
        {
            return false;
        }
        if age >= self.config.time_out {
            return true;
        }
        let begun = self.begun.map_or(Span::ZERO, |begun| self.clock.since(begun));
        if begun < self.config.time_out && self.members.unseen() > 0 {
            return false;
        }
        if age >= self.lateness {
            return true;
        }
        self.clock >= self.settled && !self.lacks_idle(head)
    }

    /// Whether a source that is idle lacks in an event.
    fn lacks_idle(&self, head: Head) -> bool {
        let idle = |source| {
            self.members.get(source).is_some_and(|member| {
                member.state == SourceState::Idle && member.joined <= head.position
            })
        };
        self.members.any_idle()
            && self.members.all_without(&self.slab.event(head.slot).whole).any(idle)
    }

    /// Whether a source that the event in `slot` awaits has been waited for long enough.
    fn gave_up(&self, source: u32, slot: u32) -> bool {
        let Some(member) = self.members.get(source) else { return true };
        let opened = self.slab.event(slot).opened;
        let lag = self.inputs.clock(member.input).since(opened);
        self.is_silent(member, self.config.time_out)
            || (lag >= self.config.lag_max && !self.inputs.has_unread(member.input))
    }

    /// Whether nothing of a source arrived for so long.
    fn is_silent(&self, member: &Member, silence: Span) -> bool {
        self.inputs.silence(member.input, member.last) >= silence
    }

    /// Those that are awaited and silent become idle, if others are not silent, too.
    fn make_idle(&mut self, awaited: &[u32], silence: Span) {
        for &source in awaited {
            let Some(member) = self.members.get(source) else { continue };
            let others_sent = self.activity.since(member.taken) >= silence;
            if !others_sent || !self.is_silent(member, silence) {
                continue;
            }
            let left = member.leaving();
            self.members.set_state(source, SourceState::Idle);
            self.members.know(source).left = left;
        }
    }

    /// Whether memory runs short, so that the oldest event must close.
    #[inline]
    fn is_pressed(&self) -> bool {
        u64::from(self.slab.open_count()) * 4 >= self.config.events_max() * 3
            || self.bytes_open * 2 >= self.config.bytes_open_max
    }

    /// Closes the events of one source alone that are whole, or that it has passed.
    fn settle_own(&mut self, source: u32) {
        if let Some((id, slot)) = self.last
            && id.scope == source
            && self.slab.event(slot).has_whole(source)
        {
            self.close(slot, Why::Done);
        }
        while let Some(Head { position, slot }) = self.lanes.head(source) {
            let event = self.slab.event(slot);
            if event.sources.is_empty() || event.id != (EventId { scope: source, position }) {
                self.lanes.pop(source); // it was closed when it was whole
                continue;
            }
            let lateness = self.lateness;
            let passed = self.members.get_mut(source).is_some_and(|member| {
                member.has_passed(position, self.inputs.clock(member.input), lateness)
            });
            if !passed && !event.has_whole(source) {
                break;
            }
            self.lanes.pop(source);
            self.close(slot, Why::Done);
        }
        while self.is_pressed()
            && let Some(slot) = self.slab.oldest()
        {
            self.close(slot, Why::Memory);
        }
    }

    /// Closes windows whose time is over, and events of sources that fell silent.
    fn settle_oldest(&mut self) {
        while let Some(slot) = self.slab.oldest() {
            let event = self.slab.event(slot);
            let age = self.clock.since(event.opened);
            let over = match self.config.mode {
                Mode::Window { .. } => event.deadline <= self.clock,
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

    /// Closes all events: the run ends.
    pub(super) fn close_all(&mut self) {
        while let Some(head) = self.lanes.head(SCOPE_ALL) {
            let why = self.verdict(head).unwrap_or(Why::Stop);
            self.lanes.pop(SCOPE_ALL);
            self.close(head.slot, why);
        }
        while let Some(slot) = self.slab.oldest() {
            self.close(slot, Why::Stop);
        }
    }
}
