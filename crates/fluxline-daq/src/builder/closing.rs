//! When an event closes: complete, out of time, restarted or stopped; and what that sets down.

use fluxline_proto::Span;

use super::config::Mode;
use super::keys::{KeyState, SCOPE_ALL};
use super::slab::{Fragment, OpenEvent, Waiting};
use super::{Builder, lacking, source_counters};
use crate::event::EventStatus;

impl Builder {
    pub(super) fn fragment_completed(&mut self, slot: u32, source: u32) {
        let counts = self.slab.event(slot).id.scope != SCOPE_ALL || self.sources.counts(source);
        let event = self.slab.event_mut(slot);
        event.complete_fragments += 1;
        if let Some(left) = &mut event.required_left
            && counts
        {
            *left = left.saturating_sub(1);
        }
        if event.required_left == Some(0) && !matches!(self.config.mode, Mode::Window { .. }) {
            self.has_everything_required(slot);
        }
    }

    /// Closes the event in `slot`, or lets it wait for optional sources.
    fn has_everything_required(&mut self, slot: u32) {
        if self.is_whole(slot) || self.config.optional_wait == Span::ZERO {
            self.close(slot, EventStatus::Complete);
        } else if !self.slab.event(slot).waits_for_optional() {
            self.slab.wait_for_optional(slot, self.clock + self.config.optional_wait);
        }
    }

    /// Whether all that any known source could send is there.
    fn is_whole(&self, slot: u32) -> bool {
        let event = self.slab.event(slot);
        let all = if event.id.scope == SCOPE_ALL { self.sources.count() } else { 1 };
        event.complete_fragments >= all
    }

    /// Whether everything required is there; while sources are learned: everything of those known.
    pub(super) fn has_required(&self, slot: u32) -> bool {
        self.slab.event(slot).required_left.map_or_else(|| self.is_whole(slot), |left| left == 0)
    }

    /// The required sources became known: open events may be complete.
    pub(super) fn judge_again(&mut self) {
        let mut slots = core::mem::take(&mut self.scratch);
        slots.clear();
        self.slab.slots(Waiting::Required, &mut slots);
        for &slot in &slots {
            let event = self.slab.event(slot);
            if event.required_left.is_some() {
                continue;
            }
            let complete = |its: &(u32, &Fragment)| its.1.complete && self.sources.counts(its.0);
            let complete = event.fragments().filter(complete).count() as u32;
            let left = self.sources.required().map(|count| count.saturating_sub(complete));
            self.slab.event_mut(slot).required_left = left;
            if left == Some(0) && !matches!(self.config.mode, Mode::Window { .. }) {
                self.has_everything_required(slot);
            }
        }
        self.scratch = slots;
    }

    pub(super) fn close_all(&mut self, status: EventStatus, which: impl Fn(&OpenEvent) -> bool) {
        for list in [Waiting::Optional, Waiting::Required] {
            let mut slots = core::mem::take(&mut self.scratch);
            slots.clear();
            self.slab.slots(list, &mut slots);
            for &slot in &slots {
                if which(self.slab.event(slot)) {
                    let complete = list == Waiting::Optional;
                    self.close(slot, if complete { EventStatus::Complete } else { status });
                }
            }
            self.scratch = slots;
        }
    }

    pub(super) fn close(&mut self, slot: u32, status: EventStatus) {
        let whole = self.is_whole(slot);
        let event = self.slab.event(slot);
        let id = event.id;
        let complete = status == EventStatus::Complete;
        let missing_bytes = if complete {
            0
        } else {
            let shared = id.scope == SCOPE_ALL;
            lacking::describe(event, &self.sources, shared, self.gathering.missing())
        };
        self.gathering.add_event(event, id.key, status, (self.clock, missing_bytes));
        for row in &event.packets {
            let counters = source_counters(&mut self.per_source, row.source);
            counters.in_complete += u64::from(complete);
            counters.in_incomplete += u64::from(!complete);
        }
        match status {
            EventStatus::Complete => self.counters.events_complete += 1,
            EventStatus::TimedOut => self.counters.events_timed_out += 1,
            EventStatus::WindowClosed => self.counters.events_window_closed += 1,
            EventStatus::Stopped => self.counters.events_stopped += 1,
            EventStatus::Restarted => self.counters.events_restarted += 1,
        }
        self.bytes_open -= event.cost;
        let state = match self.config.mode {
            Mode::Key(_) if complete && whole => KeyState::ClosedWhole,
            _ => KeyState::ClosedPartial,
        };
        self.keys.close(id, state);
        self.slab.give_back(slot);
        if self.last.is_some_and(|last| last.1 == slot) {
            self.last = None;
        }
    }
}
