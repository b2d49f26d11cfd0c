//! The filter of one partition, between its builder and its batches.
//!
//! The decisions follow from the events alone, so a builder that takes over decides the same. The
//! filter itself is made anew by each process ([`EventFilter`]); its results, and the rejected
//! events that late fragments follow, are a part of the builder's saved state ([`Filtered`]).

use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::FilterCounters;
use fluxline_run::RunSource;
use fluxline_run::filter::{FilterLog, FilterPlan, FilterStage, RejectedEvents};
use serde::{Deserialize, Serialize};

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

    /// Returns the number of sources that it knows.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Removes and marks events of a batch. `sources` are those behind the known ones.
    pub(super) fn apply(
        &mut self,
        sources: impl Iterator<Item = RunSource>,
        batch: &mut EventBatch,
        filtered: &mut Filtered,
    ) {
        for source in sources {
            self.stage.add_source(&source);
            self.known += 1;
        }
        let Filtered { rejected, counters, packets } = filtered;
        let mut log = Log { counters, packets, notes: &mut self.notes };
        self.stage.apply(batch, rejected, &mut log);
    }

    /// Returns the sentences about failures since the last call.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// The results of the filter of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filtered {
    rejected: RejectedEvents,
    counters: FilterCounters,
    packets: u64,
}

impl Filtered {
    /// Returns the events by decision.
    #[must_use]
    pub fn counters(&self) -> &FilterCounters {
        &self.counters
    }

    /// Returns the packets of rejected events and of their late fragments.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
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
