//! The choice of the events that a partition records, between its builder and its batches.
//!
//! Decisions follow from the events alone, so a builder that takes over decides the same. What was
//! decided, and the rejected events that late fragments follow, are a part of the builder's state.

use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::FilterCounters;
use serde::{Deserialize, Serialize};

use crate::{BuiltSource, RejectedEvents};

/// Chooses events of one partition.
pub trait ChooseEvents {
    /// Removes and marks events of a batch. `sources` are all so far; new ones are behind those of
    /// the call before.
    fn apply(&mut self, sources: &[BuiltSource], batch: &mut EventBatch, filtered: &mut Filtered);
}

/// Keeps every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

impl ChooseEvents for KeepAll {
    fn apply(&mut self, _: &[BuiltSource], _: &mut EventBatch, _: &mut Filtered) {}
}

/// The decisions of a partition so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filtered {
    /// The newest rejected events.
    pub rejected: RejectedEvents,
    /// The events by decision.
    pub counters: FilterCounters,
    /// The packets of rejected events and of their late fragments.
    pub packets: u64,
}
