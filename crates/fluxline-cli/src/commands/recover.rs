//! `fluxline recover`: cuts torn tails, so that every reader takes the run.

use serde_json::json;

use crate::arguments::RecoverArguments;
use crate::failure::Failure;
use crate::say;

/// Recovers a run and says what was cut.
pub fn recover(arguments: &RecoverArguments, json: bool) -> Result<(), Failure> {
    let report = fluxline_daq::record::recover(&arguments.run)
        .map_err(|error| Failure::input(format_args!("{error}.")))?;
    if json {
        let cuts: Vec<_> = report
            .cuts
            .iter()
            .map(|cut| {
                let (kept, cut_bytes) = (cut.kept_bytes, cut.cut_bytes);
                json!({ "file": cut.file, "kept_bytes": kept, "cut_bytes": cut_bytes })
            })
            .collect();
        super::print_json(&json!({
            "batches": report.found.batches,
            "events": report.found.events,
            "packets": report.found.packets,
            "cuts": cuts,
        }));
        return Ok(());
    }
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
    if report.cuts.is_empty() && report.ended.is_empty() {
        say!("There was nothing to mend.");
    }
    say!("Next: fluxline inspect {}", arguments.run.display());
    Ok(())
}
