//! `fluxline export`: a run's events in another kind of file.

mod laboratory;
mod parallel;

use std::path::Path;

use fluxline_daq::record::Join;
use fluxline_export::typed::Selection;
use fluxline_export::{
    Existing, ExportConfig, ExportFormat, ExportJob, ExportReport, RawBytes, RowsOf,
};
use serde_json::json;

use super::integrity;
use crate::export_arguments::{ExportArguments, ExportKind, RowsKind};
use crate::failure::{self, Ending, Failure};
use crate::say;

/// Most threads that encode unless the user asks for more: each takes some 200 MiB.
const THREADS_MAX: usize = 8;

/// Exports the readable events of a run, lists the files, and fails if recorded ones are missing.
pub fn export(arguments: &ExportArguments, json: bool) -> Result<Ending, Failure> {
    let format = match arguments.to {
        ExportKind::Parquet => ExportFormat::Parquet,
        ExportKind::Arrow => ExportFormat::Arrow,
        ExportKind::Csv => ExportFormat::Csv,
        ExportKind::Npy => ExportFormat::Npy,
        ExportKind::Hdf5 | ExportKind::Nexus => return laboratory::export(arguments, json),
    };
    let job = ExportJob::open(&arguments.run, &config(arguments, format))
        .map_err(|error| Failure::input(format_args!("{error}.")))?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.unwrap_or(cpus.min(THREADS_MAX)).max(1);
    let report = parallel::run(job, threads, json)
        .map_err(|error| Failure::input(format_args!("{error}.")))?;
    let failure = integrity::failure(&arguments.run, &report.integrity);
    let print = || if json { print_json(&report, failure.as_ref()) } else { print(&report) };
    Ok(failure::report(failure.as_ref(), json, print))
}

fn config(arguments: &ExportArguments, format: ExportFormat) -> ExportConfig {
    let inside = || arguments.run.join(format!("export-{}", format.extension()));
    ExportConfig {
        existing: if arguments.overwrite { Existing::Replace } else { Existing::Refuse },
        join: if arguments.no_join { Join::Nothing } else { Join::Late },
        selection: Selection {
            columns: arguments.columns.clone(),
            sources: arguments.sources.clone(),
            events: arguments.events.clone(),
            since: arguments.since,
            until: arguments.until,
        },
        rows: match arguments.rows {
            RowsKind::Packets => RowsOf::Packets,
            RowsKind::Records => RowsOf::Records,
        },
        raw: if arguments.raw { RawBytes::All } else { RawBytes::Undecoded },
        part_bytes: arguments.part_mib.saturating_mul(1 << 20),
        ..ExportConfig::new(format, arguments.into.clone().unwrap_or_else(inside))
    }
}

fn print_json(report: &ExportReport, failure: Option<&Failure>) {
    let tables: Vec<_> = report
        .tables
        .iter()
        .map(|table| {
            json!({ "name": table.name, "file": table.file, "parts": table.parts,
                "rows": table.rows, "left_out": table.left_out })
        })
        .collect();
    super::print_json(&json!({
        "status": failure::status_of(failure),
        "sentence": failure.map(|failure| &failure.message),
        "integrity": integrity::document(&report.integrity),
        "tables": tables,
        "joined": super::joined_document(report.joined),
        "resumed_parts": report.resumed_parts,
        "notes": report.notes,
    }));
}

fn print(report: &ExportReport) {
    if report.resumed_parts > 0 {
        say!("continued an interrupted export behind its part {}", report.resumed_parts);
    }
    for table in &report.tables {
        let file = match table.parts {
            1 => table.file.as_path(),
            _ => table.file.parent().unwrap_or(Path::new(".")),
        };
        let parts =
            if table.parts > 1 { format!(" ({} parts)", table.parts) } else { String::new() };
        say!("{:>12} rows  {}{parts}", table.rows, file.display());
        if !table.left_out.is_empty() {
            say!("              without {}", table.left_out.join(", "));
        }
    }
    super::print_joined(report.joined);
    report.notes.iter().for_each(|note| say!("note: {note}"));
    integrity::print_faults(&report.integrity);
}
