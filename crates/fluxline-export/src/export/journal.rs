//! The list of complete parts, `export.json`: an interrupted export goes on behind them.
//!
//! It also keeps the schemas with their metadata for formats whose files cannot: CSV and NumPy.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::encode::DecodeCounts;
use super::part::PartFile;
use super::{ExportConfig, ExportError};
use crate::typed::plan::TablePlan;
use fluxline_daq::record::{Directory, FolderError, RunFolder};

/// The file's name in the folder of an export.
pub(super) const JOURNAL_FILE: &str = "export.json";

/// The state of an export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The run, its files and the configuration: an export goes on only if all are the same.
    pub export: Value,
    /// Every part is complete.
    pub complete: bool,
    pub parts: Vec<Part>,
    /// The columns of each table: type, unit, meaning.
    #[serde(default)]
    pub tables: Value,
}

/// A complete part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Part {
    /// Recorded batches in it.
    pub batches: u64,
    pub counts: DecodeCounts,
    pub tables: BTreeMap<String, PartTable>,
}

/// The file of a table in a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PartTable {
    /// Its path in the folder of the export.
    pub file: PathBuf,
    pub rows: u64,
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// Returns everything that two exports must share for one to continue the other.
pub(super) fn identity(folder: &RunFolder, config: &ExportConfig) -> Result<Value, FolderError> {
    let sizes = folder.event_sizes()?.into_iter();
    let files: serde_json::Map<_, _> = sizes.map(|(name, size)| (name, size.into())).collect();
    let selection = &config.selection;
    Ok(json!({
        "fluxline": env!("CARGO_PKG_VERSION"),
        "run": folder.id(),
        "files": files,
        "format": config.format.extension(),
        "join": format!("{:?}", config.join),
        "rows": format!("{:?}", config.rows),
        "raw": format!("{:?}", config.raw),
        "part_bytes": config.part_bytes,
        "columns": selection.columns,
        "sources": selection.sources,
        "events": selection.events.as_ref().map(|events| [events.start, events.end]),
        "since_ns": selection.since.map(fluxline_core::Moment::as_ns),
        "until_ns": selection.until.map(fluxline_core::Moment::as_ns),
    }))
}

impl Journal {
    /// Reads the state of the export in `folder`; `None` without a readable one.
    pub fn read(folder: &Directory) -> Option<Journal> {
        serde_json::from_slice(&folder.read(Path::new(JOURNAL_FILE)).ok()?).ok()
    }

    /// Replaces the file as a whole.
    pub fn write(&self, folder: &Directory) -> Result<(), ExportError> {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        let (part, mut file) = PartFile::create(folder, Path::new(JOURNAL_FILE))?;
        let written = file.write_all(text.as_bytes());
        let path = folder.path().join(JOURNAL_FILE);
        written.map_err(|reason| FolderError::explain(&path, reason))?;
        Ok(part.finish(&file)?)
    }
}

/// Returns the columns of the tables with their metadata.
pub(super) fn schemas<'a>(plans: impl Iterator<Item = &'a TablePlan>) -> Value {
    let table = |plan: &TablePlan| {
        let column = |column: &crate::typed::plan::PlannedColumn| {
            let field = &column.field;
            let metadata: BTreeMap<_, _> = field.metadata().iter().collect();
            json!({ "name": field.name(), "type": field.data_type().to_string(),
                "metadata": metadata })
        };
        let columns: Vec<Value> = plan.columns.iter().map(column).collect();
        let schema = plan.schema();
        let metadata: BTreeMap<_, _> = schema.metadata().iter().collect();
        json!({ "metadata": metadata, "columns": columns })
    };
    plans.map(|plan| (plan.name.clone(), table(plan))).collect::<serde_json::Map<_, _>>().into()
}
