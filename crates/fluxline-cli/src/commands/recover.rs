//! `fluxline recover`: cuts torn tails, so that every reader takes the run.

use fluxline_daq::record::RecoverReport;
use serde_json::json;

use super::integrity;
use crate::failure::{self, Ending, Failure};
use crate::run_arguments::RecoverArguments;
use crate::say;

/// Recovers a run, prints the cuts, and fails if recorded data is still missing.
pub fn recover(arguments: &RecoverArguments, json: bool) -> Result<Ending, Failure> {
    let report = fluxline_daq::record::recover(&arguments.run)
        .map_err(|error| Failure::input(format_args!("{error}.")))?;
    let failure = integrity::failure(&arguments.run, &report.integrity);
    let print = || match json {
        true => print_json(&report, failure.as_ref()),
        false => print(arguments, &report),
    };
    Ok(failure::report(failure.as_ref(), json, print))
}

fn print_json(report: &RecoverReport, failure: Option<&Failure>) {
    let cuts: Vec<_> = report
        .cuts
        .iter()
        .map(|cut| {
            let (kept, cut_bytes) = (cut.kept_bytes, cut.cut_bytes);
            json!({ "file": cut.file, "kept_bytes": kept, "cut_bytes": cut_bytes })
        })
        .collect();
    super::print_json(&json!({
        "status": failure::status_of(failure),
        "sentence": failure.map(|failure| &failure.message),
        "integrity": integrity::document(&report.integrity),
        "batches": report.found.batches,
        "events": report.found.events,
        "packets": report.found.packets,
        "cuts": cuts,
    }));
}

fn print(arguments: &RecoverArguments, report: &RecoverReport) {
    for cut in &report.cuts {
        say!(
            "{}: kept {} bytes, cut {} bytes of an incomplete batch",
            cut.file.display(),
            cut.kept_bytes,
            cut.cut_bytes
        );
    }
    say!(
        "{} complete batches with {} events and {} packets are readable.",
        report.found.batches,
        report.found.events,
        report.found.packets
    );
    if report.cuts.is_empty() && report.ended.is_empty() && report.integrity.is_sound() {
        say!("Nothing was damaged.");
    }
    integrity::print_faults(&report.integrity);
    say!("Next: fluxline inspect {}", arguments.run.display());
}
