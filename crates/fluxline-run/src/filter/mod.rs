//! Filters: the choice of the events to record, between builder and recorder.
//!
//! A filter sees each batch of closed events once, in the recorder's thread, and decides on each
//! event. A slow filter delays the recorder, then fills the batches, then the rings, where drops
//! are counted: it never loses an event in silence. An event on which a filter fails is kept and
//! marked. docs/filters.md is the manual.

mod compiled;
mod expression;
mod plan;
mod stage;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fluxline_daq::event::{EventBatch, EventView};
use fluxline_daq::ledger::FilterCounters;

pub use compiled::CompiledEvents;
pub(crate) use expression::Expression;
pub use fluxline_cluster::RejectedEvents;
pub use plan::FilterPlan;
pub use stage::FilterStage;

/// A filter's decision on one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decision {
    /// The event is recorded.
    #[default]
    Keep,
    /// The event is not recorded; its packets are counted as filtered.
    Reject,
    /// The filter failed on it: it is recorded, and marked.
    Undecided,
}

impl From<bool> for Decision {
    fn from(keeps: bool) -> Decision {
        if keeps { Decision::Keep } else { Decision::Reject }
    }
}

/// The decisions on the rows of a batch.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    rows: Vec<Decision>,
    reason: Option<String>,
}

impl Decisions {
    /// Returns decisions that keep every row of a batch of `rows`.
    #[must_use]
    pub fn of(rows: usize) -> Decisions {
        Decisions { rows: vec![Decision::Keep; rows], reason: None }
    }

    /// Sets the decision on row `row` of the batch; rows beyond it are ignored. Rows that are not
    /// set are kept.
    pub fn set(&mut self, row: usize, decision: Decision) {
        if let Some(place) = self.rows.get_mut(row) {
            *place = decision;
        }
    }

    /// Notes that the filter failed on row `row`; the first reason is reported.
    pub fn fail(&mut self, row: usize, reason: impl FnOnce() -> String) {
        self.set(row, Decision::Undecided);
        self.reason.get_or_insert_with(reason);
    }

    /// Notes that the filter failed on all rows.
    pub fn fail_all(&mut self, reason: impl FnOnce() -> String) {
        self.rows.fill(Decision::Undecided);
        self.reason.get_or_insert_with(reason);
    }

    /// Returns the decisions, one for each row of the batch.
    #[must_use]
    pub fn rows(&self) -> &[Decision] {
        &self.rows
    }

    /// Begins a batch of that many rows.
    fn begin(&mut self, rows: usize) {
        self.rows.clear();
        self.rows.resize(rows, Decision::Keep);
        self.reason = None;
    }
}

/// A source that appeared in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSource {
    /// Its number, which the packets of events name.
    pub number: u32,
    /// The number of its input: its place in the experiment.
    pub input: u16,
    /// Its label in reports.
    pub label: String,
}

/// Takes the results of a stage of filters.
pub trait FilterLog {
    /// Takes the decisions on a batch.
    fn add_counts(&mut self, counters: &FilterCounters);

    /// Takes the rows that are removed from a batch: those that do not stay.
    fn add_filtered(&mut self, batch: &EventBatch, stays: &[bool]);

    /// Takes a sentence for the user: a filter failed.
    fn add_note(&mut self, note: String);
}

/// Decides on events. A panic is caught; the whole batch is then undecided.
pub trait Filter: Send {
    /// Takes note of a source, before the first batch with its packets.
    fn add_source(&mut self, source: &RunSource) {
        let _ = source;
    }

    /// Decides on the events of a batch. Late fragments are rows of the batch too; decisions on
    /// them have no effect, because they follow their event.
    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions);
}

/// Makes a filter of a function that decides on one event at a time. A panic leaves that event
/// undecided.
pub fn each_event(keeps: impl FnMut(&EventView<'_>) -> bool + Send) -> impl Filter {
    EachEvent(keeps)
}

struct EachEvent<F>(F);

impl<F: FnMut(&EventView<'_>) -> bool + Send> Filter for EachEvent<F> {
    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions) {
        for (row, event) in batch.views().enumerate().filter(|(_, event)| !event.is_late()) {
            match catch_unwind(AssertUnwindSafe(|| (self.0)(&event))) {
                Ok(keeps) => decisions.set(row, keeps.into()),
                Err(panic) => decisions.fail(row, || panic_words(&*panic)),
            }
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"))
}
