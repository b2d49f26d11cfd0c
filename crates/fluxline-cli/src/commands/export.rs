//! `fluxline export`: a run's events in another kind of file.

use fluxline_daq::record::Join;
use fluxline_daq::record::export::{self, Existing, ExportConfig, ExportFormat, ExportReport};
use serde_json::json;

use super::integrity;
use crate::arguments::{ExportArguments, ExportKind};
use crate::failure::{self, Ending, Failure};
use crate::say;

/// Exports the readable events of a run, lists the files, and fails if recorded ones are missing.
pub fn export(arguments: &ExportArguments, json: bool) -> Result<Ending, Failure> {
    let (format, kind) = match arguments.to {
        ExportKind::Parquet => (ExportFormat::Parquet, "parquet"),
        ExportKind::Csv => (ExportFormat::Csv, "csv"),
        ExportKind::Npy => (ExportFormat::Npy, "npy"),
    };
    let folder =
        arguments.into.clone().unwrap_or_else(|| arguments.run.join(format!("export-{kind}")));
    let existing = if arguments.overwrite { Existing::Replace } else { Existing::Refuse };
    let join = if arguments.no_join { Join::Nothing } else { Join::Late };
    let report = export::export(&arguments.run, &ExportConfig { format, folder, existing, join })
        .map_err(|error| Failure::input(format_args!("{error}.")))?;
    let failure = integrity::failure(&arguments.run, &report.integrity);
    let print = || if json { print_json(&report, failure.as_ref()) } else { print(&report) };
    Ok(failure::report(failure.as_ref(), json, print))
}

fn print_json(report: &ExportReport, failure: Option<&Failure>) {
    let tables: Vec<_> = report
        .tables
        .iter()
        .map(|table| json!({ "file": table.file, "rows": table.rows, "left_out": table.left_out }))
        .collect();
    super::print_json(&json!({
        "status": failure::status_of(failure),
        "sentence": failure.map(|failure| &failure.message),
        "integrity": integrity::document(&report.integrity),
        "tables": tables,
        "joined": super::joined_document(report.joined),
        "notes": report.notes,
    }));
}

fn print(report: &ExportReport) {
    for table in &report.tables {
        say!("{:>12} rows  {}", table.rows, table.file.display());
        if !table.left_out.is_empty() {
            say!("              without {}", table.left_out.join(", "));
        }
    }
    super::print_joined(report.joined);
    report.notes.iter().for_each(|note| say!("note: {note}"));
    integrity::print_faults(&report.integrity);
}
