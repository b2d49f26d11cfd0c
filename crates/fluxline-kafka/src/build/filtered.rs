//! The filter of one partition, between its builder and its batches.
//!
//! The decisions follow from the events alone, so a builder that takes over decides the same. The
//! filter itself is made anew by each process ([`EventFilter`]); its results are a part of
//! the builder's saved state ([`Filtered`]).

use fluxline_cluster::{BuiltSource, ChooseEvents, Filtered};
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::FilterCounters;
use fluxline_run::RunSource;
use fluxline_run::filter::{FilterLog, FilterPlan, FilterStage};

/// Decides on the events of one partition; without a plan, every event is kept and nothing is
/// counted.
#[derive(Default)]
pub struct EventFilter {
    stage: FilterStage,
    /// Number of sources that the stage knows.
    known: usize,
    notes: Vec<String>,
}

impl EventFilter {
    /// Makes the filter of a partition.
    #[must_use]
    pub fn of(plan: &FilterPlan) -> EventFilter {
        EventFilter { stage: plan.stage(), ..EventFilter::default() }
    }

    /// Returns the sentences about failures since the last call.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

impl ChooseEvents for EventFilter {
    fn apply(&mut self, sources: &[BuiltSource], batch: &mut EventBatch, filtered: &mut Filtered) {
        for BuiltSource { number, input, label, .. } in sources.iter().skip(self.known) {
            let (number, input, label) = (*number, *input, label.clone());
            self.stage.add_source(&RunSource { number, input, label });
        }
        self.known = sources.len();
        let Filtered { rejected, counters, packets } = filtered;
        let mut log = Log { counters, packets, notes: &mut self.notes };
        self.stage.apply(batch, rejected, &mut log);
    }
}

struct Log<'a> {
    counters: &'a mut FilterCounters,
    packets: &'a mut u64,
    notes: &'a mut Vec<String>,
}

impl FilterLog for Log<'_> {
    fn add_counts(&mut self, counters: &FilterCounters) {
        self.counters.merge(counters);
    }

    fn add_filtered(&mut self, batch: &EventBatch, stays: &[bool]) {
        let rows = batch.events.iter().zip(stays).filter(|(_, stays)| !**stays);
        *self.packets += rows.map(|(row, _)| u64::from(row.packets)).sum::<u64>();
    }

    fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }
}
