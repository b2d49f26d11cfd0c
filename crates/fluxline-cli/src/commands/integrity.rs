//! The report of missing or damaged files, for the commands that read runs.

use std::path::Path;

use fluxline_daq::record::integrity::Held;
use fluxline_daq::record::{Integrity, RunEnd};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::say;

/// Returns the failure of a run whose files lack recorded data, or that has no end.
pub fn failure(run: &Path, integrity: &Integrity) -> Option<Failure> {
    let run = run.display();
    if let Some(sentence) = integrity.sentence() {
        return Some(Failure::files(format_args!("{run}: {sentence}")));
    }
    (integrity.end == RunEnd::Killed).then(|| {
        Failure::look(format_args!(
            "{run}: the run has no end: the program or the machine stopped during it, or run.json \
             could not be written. All complete batches are readable, and what else it received is \
             unknown; `fluxline recover {run}` closes it."
        ))
    })
}

/// As part of a JSON document.
pub fn document(integrity: &Integrity) -> Value {
    let held = |held: &Held| {
        let Held { batches, events, packets } = held;
        json!({ "batches": batches, "events": events, "packets": packets })
    };
    json!({
        "end": word(integrity.end),
        "recorded": integrity.recorded.as_ref().map(held),
        "missing": held(&integrity.missing),
        "faults": integrity.faults,
    })
}

/// Prints every fault, a line each.
pub fn print_faults(integrity: &Integrity) {
    integrity.faults.iter().for_each(|fault| say!("fault: {fault}"));
}

/// Returns the end of a run in a word.
fn word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Running => "running",
        RunEnd::Killed => "killed",
        RunEnd::Finished => "finished",
        RunEnd::RecordingStopped => "recording-stopped",
        RunEnd::Recovered => "recovered",
        RunEnd::Unknown => "unknown",
    }
}

/// Returns the end of a run for people.
pub fn explain(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Running => "running: it is being recorded now",
        RunEnd::Killed => {
            "killed: the program or the machine stopped before the run ended; every complete batch \
             is readable"
        }
        RunEnd::Finished => "finished",
        RunEnd::RecordingStopped => "recording stopped before the run ended",
        RunEnd::Recovered => "recovered: it did not end well, and was mended afterwards",
        RunEnd::Unknown => "unknown",
    }
}
