//! The counts of both ends of a feedback loop, and their sum.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use fluxline_daq::ledger::LoopCounters;
use serde_json::{Value, json};

/// The counts of the decider of a builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeciderPart {
    pub decided: u64,
    pub declined: u64,
    pub skipped: u64,
    pub undecided: u64,
    pub not_written: u64,
}

/// The builders whose functions never returned, and were left behind; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftBehind(Arc<Mutex<BTreeSet<usize>>>);

impl LeftBehind {
    pub fn add(&self, builder: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(builder);
    }

    pub fn has(&self, builder: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&builder)
    }
}

/// The counts of the actuator.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActuatorPart {
    /// By builder: writes that came.
    pub arrived: Vec<u64>,
    /// By builder: writes that are missing, by the numbers of those that came.
    pub missing: Vec<u64>,
    pub late: u64,
    pub unmeasured: u64,
    /// The delays, for run.json.
    pub delays: Value,
}

/// The counts of a loop: of the nodes of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoopParts {
    /// By builder.
    pub deciders: Vec<Option<DeciderPart>>,
    pub actuator: Option<ActuatorPart>,
    /// The document's words on clocks and limits.
    pub about: Value,
}

impl LoopParts {
    /// Returns true when the loop has a node in this process.
    fn is_here(&self) -> bool {
        self.actuator.is_some() || self.deciders.iter().any(Option::is_some)
    }

    /// Returns the counters of the loop at the end of a run; `None`: it has no node here.
    pub fn counters(&self) -> Option<LoopCounters> {
        let mut sum = LoopCounters::default();
        let actuator = self.actuator.as_ref();
        for (builder, decider) in self.deciders.iter().enumerate() {
            let of = decider.unwrap_or_default();
            sum.decided += of.decided;
            sum.declined += of.declined;
            sum.skipped += of.skipped;
            sum.undecided += of.undecided;
            sum.not_written += of.not_written;
            let written = of.decided.saturating_sub(of.not_written);
            let at = |list: &Vec<u64>| list.get(builder).copied().unwrap_or(0);
            match (decider, actuator) {
                (Some(_), Some(actuator)) => {
                    sum.arrived += at(&actuator.arrived);
                    sum.lost += written.saturating_sub(at(&actuator.arrived));
                }
                (Some(_), None) => sum.handed_on += written,
                (None, Some(actuator)) => {
                    sum.arrived += at(&actuator.arrived);
                    sum.lost += at(&actuator.missing);
                    sum.came_in += at(&actuator.arrived) + at(&actuator.missing);
                }
                (None, None) => {}
            }
        }
        sum.late = actuator.map_or(0, |of| of.late);
        sum.unmeasured = actuator.map_or(0, |of| of.unmeasured);
        self.is_here().then_some(sum)
    }

    /// Returns the block `loop` of run.json; `None`: the loop has no node here.
    pub fn document(&self) -> Option<Value> {
        let counters = self.counters()?;
        let mut document = self.about.clone();
        document["counts"] = json!(counters);
        document["closed"] =
            (counters.decided + counters.declined + counters.skipped + counters.undecided).into();
        if let Some(actuator) = &self.actuator {
            document["delays"] = actuator.delays.clone();
        }
        let deciders = self.deciders.iter().enumerate();
        let deciders = deciders.filter_map(|(builder, of)| {
            let of = (*of)?;
            Some(json!({
                "name": format!("builder-{builder}"),
                "decided": of.decided, "declined": of.declined, "skipped": of.skipped,
                "undecided": of.undecided, "not_written": of.not_written,
            }))
        });
        document["builders"] = deciders.collect();
        Some(document)
    }
}
