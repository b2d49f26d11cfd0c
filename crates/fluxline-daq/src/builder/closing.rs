//! When an event closes: complete, out of time, restarted or stopped; and what that sets down.

use fluxline_proto::Span;

use super::config::Mode;
use super::keys::SCOPE_ALL;
use super::slab::{OpenEvent, Waiting};
use super::{Builder, lacking, source_counters};
use crate::event::EventStatus;

impl Builder {
    pub(super) fn fragment_completed(&mut self, slot: u32, source: u32) {
        let counts = self.slab.event(slot).id.scope != SCOPE_ALL || self.sources.counts(source);
        let event = self.slab.event_mut(slot);
        event.complete_fragments += 1;
        if counts {
            event.required_left = event.required_left.saturating_sub(1);
        }
        if event.required_left == 0 && !matches!(self.config.mode, Mode::Window { .. }) {
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

    /// Whether everything required is there.
    pub(super) fn has_required(&self, slot: u32) -> bool {
        self.slab.event(slot).required_left == 0
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
        let event = self.slab.event(slot);
        let id = event.id;
        let complete = status == EventStatus::Complete;
        let shared = id.scope == SCOPE_ALL;
        let missing_bytes = if complete {
            0
        } else {
            lacking::describe(event, &self.sources, shared, self.gathering.missing())
        };
        self.gathering.add_event(event, status, (self.clock, missing_bytes));
        let mut whole = core::mem::take(&mut self.whole);
        whole.clear();
        for (source, _) in event.fragments().filter(|(_, fragment)| fragment.complete) {
            let bit = if shared { source } else { 0 };
            whole.resize(whole.len().max(bit as usize / 64 + 1), 0);
            whole[bit as usize / 64] |= 1 << (bit % 64);
        }
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
        self.bytes_open -= event.cost;
        self.keys.close(id, &whole, self.clock);
        self.whole = whole;
        self.slab.give_back(slot);
        if self.last.is_some_and(|last| last.1 == slot) {
            self.last = None;
        }
    }
}
