//! `fluxline export`: a run's events in another kind of file.

use fluxline_daq::record::export::{self, Existing, ExportConfig, ExportFormat};
use serde_json::json;

use crate::arguments::{ExportArguments, ExportKind};
use crate::failure::Failure;
use crate::say;

/// Exports a run and lists the files.
pub fn export(arguments: &ExportArguments, json: bool) -> Result<(), Failure> {
    let (format, kind) = match arguments.to {
        ExportKind::Parquet => (ExportFormat::Parquet, "parquet"),
        ExportKind::Csv => (ExportFormat::Csv, "csv"),
        ExportKind::Npy => (ExportFormat::Npy, "npy"),
    };
    let folder =
        arguments.into.clone().unwrap_or_else(|| arguments.run.join(format!("export-{kind}")));
    let existing = if arguments.overwrite { Existing::Replace } else { Existing::Refuse };
    let report = export::export(&arguments.run, &ExportConfig { format, folder, existing })
        .map_err(|error| Failure::input(format_args!("{error}.")))?;
    if json {
        let tables: Vec<_> = report
            .tables
            .iter()
            .map(|table| {
                json!({ "file": table.file, "rows": table.rows, "left_out": table.left_out })
            })
            .collect();
        super::print_json(&json!({ "tables": tables, "notes": report.notes }));
        return Ok(());
    }
    for table in &report.tables {
        say!("{:>12} rows  {}", table.rows, table.file.display());
        if !table.left_out.is_empty() {
            say!("              without {}", table.left_out.join(", "));
        }
    }
    report.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(())
}
