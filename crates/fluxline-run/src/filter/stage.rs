//! The stage between builder and recorder: filters in turn, then late fragments, then marks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fluxline_daq::event::{EventBatch, EventRow, EventStatus, EventView, MARKED, UNDECIDED};
use fluxline_daq::ledger::FilterCounters;

use super::{
    Decision, Decisions, Expression, Filter, FilterLog, RejectedEvents, RunSource, panic_words,
};

/// Most reasons of failure that become notes.
const NOTES_MAX: usize = 5;

/// Applies the filters of a run, one batch after another.
#[derive(Default)]
pub struct FilterStage {
    /// The experiment's expression first, then the program's function.
    filters: Vec<Box<dyn Filter>>,
    /// The experiment's expression for marks.
    mark: Option<Expression>,
    decisions: Decisions,
    /// For each row that is left: a filter failed on it.
    undecided: Vec<bool>,
    /// For each row: it stays.
    stays: Vec<bool>,
    notes: usize,
}

impl FilterStage {
    /// Makes a stage of these filters; without any, every event is kept and nothing is counted.
    pub(crate) fn new(filters: Vec<Box<dyn Filter>>) -> FilterStage {
        FilterStage { filters, ..FilterStage::default() }
    }

    /// Makes the stage of a run: the experiment's expression, then the program's function.
    pub(crate) fn of(
        expression: Option<Expression>,
        function: Option<Box<dyn Filter>>,
    ) -> FilterStage {
        let expression = expression.map(|of| Box::new(of) as Box<dyn Filter>);
        FilterStage::new(expression.into_iter().chain(function).collect())
    }

    /// Marks the events for which an expression is true, after all filters.
    pub(crate) fn with_mark(self, mark: Option<Expression>) -> FilterStage {
        FilterStage { mark, ..self }
    }

    /// Takes note of a source.
    pub fn add_source(&mut self, source: &RunSource) {
        self.mark.iter_mut().for_each(|mark| mark.add_source(source));
        self.filters.iter_mut().for_each(|filter| filter.add_source(source));
    }

    /// Removes the events that a filter rejects, marks others, and reports both to `log`.
    /// `rejected` has the rejected events of earlier batches.
    pub fn apply(
        &mut self,
        batch: &mut EventBatch,
        rejected: &mut RejectedEvents,
        log: &mut impl FilterLog,
    ) {
        if self.filters.is_empty() && self.mark.is_none() {
            return;
        }
        let mut counters = FilterCounters::default();
        self.undecided.clear();
        self.undecided.resize(batch.events.len(), false);
        let mut filters = std::mem::take(&mut self.filters);
        for filter in &mut filters {
            self.ask(&mut **filter, batch, log);
            counters.events_filtered += self.remove_rejected(batch, rejected, log);
        }
        self.filters = filters;
        counters.late_filtered = self.remove_late(batch, rejected, log);
        counters.events_undecided =
            self.undecided.iter().filter(|undecided| **undecided).count() as u64;
        let events = batch.events.iter().filter(|row| !is_late(row)).count() as u64;
        counters.events_kept = events - counters.events_undecided;
        if counters.events_undecided > 0 {
            batch.add_to_missing(&self.undecided, UNDECIDED);
        }
        counters.events_marked = self.add_marks(batch);
        log.add_counts(&counters);
    }

    /// Marks the events for which `mark` is true; returns their number.
    fn add_marks(&mut self, batch: &mut EventBatch) -> u64 {
        let Some(mark) = &self.mark else { return 0 };
        let is_marked = |event: EventView<'_>| !event.is_late() && mark.is_true(&event);
        let marked: Vec<bool> = batch.views().map(is_marked).collect();
        let count = marked.iter().filter(|marked| **marked).count() as u64;
        if count > 0 {
            batch.add_to_missing(&marked, MARKED);
        }
        count
    }

    /// Asks one filter for its decisions.
    fn ask(&mut self, filter: &mut dyn Filter, batch: &EventBatch, log: &mut impl FilterLog) {
        let decisions = &mut self.decisions;
        decisions.begin(batch.events.len());
        let decided = catch_unwind(AssertUnwindSafe(|| filter.decide(batch, decisions)));
        if let Err(panic) = decided {
            // The rows may have been changed, so all of them are set anew.
            decisions.begin(batch.events.len());
            decisions.fail_all(|| panic_words(&*panic));
        }
        if let Some(reason) = decisions.reason.take().filter(|_| self.notes < NOTES_MAX) {
            self.notes += 1;
            log.add_note(format!(
                "the filter failed on an event: {reason}; such events are recorded, and `missing` \
                 says \"{UNDECIDED}\""
            ));
        }
    }

    /// Removes the rejected events, remembers their names, and returns their number.
    fn remove_rejected(
        &mut self,
        batch: &mut EventBatch,
        rejected: &mut RejectedEvents,
        log: &mut impl FilterLog,
    ) -> u64 {
        let mut count = 0;
        self.stays.clear();
        let rows = batch.events.iter().zip(self.decisions.rows()).zip(&mut self.undecided);
        for ((row, decision), undecided) in rows {
            let is_rejected = *decision == Decision::Reject && !is_late(row);
            *undecided |= *decision == Decision::Undecided && !is_late(row);
            self.stays.push(!is_rejected);
            if is_rejected {
                count += 1;
                rejected.note(row);
            }
        }
        self.remove(batch, log);
        count
    }

    /// Removes the late fragments of rejected events; returns their number.
    fn remove_late(
        &mut self,
        batch: &mut EventBatch,
        rejected: &RejectedEvents,
        log: &mut impl FilterLog,
    ) -> u64 {
        self.stays.clear();
        self.stays.extend(batch.events.iter().map(|row| !(is_late(row) && rejected.has(row))));
        let count = self.stays.iter().filter(|stays| !**stays).count() as u64;
        self.remove(batch, log);
        count
    }

    /// Removes the rows that do not stay, and counts their packets.
    fn remove(&mut self, batch: &mut EventBatch, log: &mut impl FilterLog) {
        if self.stays.iter().all(|stays| *stays) {
            return;
        }
        log.add_filtered(batch, &self.stays);
        batch.retain(&self.stays);
        let mut stays = self.stays.iter();
        self.undecided.retain(|_| stays.next().copied().unwrap_or(true));
    }
}

fn is_late(row: &EventRow) -> bool {
    row.status == EventStatus::Late
}
