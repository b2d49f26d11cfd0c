//! The files of a report: a page and a document.

use std::path::{Path, PathBuf};

use fluxline_bench::page;
use fluxline_bench::result::Report;
use serde_json::Value;

use crate::failure::Failure;
use crate::files;

/// The folder of reports without `--report`.
const FOLDER: &str = "bench-reports";

/// Returns the report as JSON.
pub fn document(report: &Report) -> Result<Value, Failure> {
    serde_json::to_value(report).map_err(|error| Failure::failed(format!("the report: {error}.")))
}

/// Writes report.html and report.json into `folder`, or into the next number of `bench-reports`.
/// Returns the folder.
pub fn write(report: &Report, folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = folder.map_or_else(next, Path::to_path_buf);
    files::folder(&folder)?;
    let document = document(report)?;
    files::write(&folder.join("report.json"), format!("{document:#}\n").as_bytes())?;
    files::write(&folder.join("report.html"), page::page(report).html().as_bytes())?;
    Ok(folder)
}

/// Returns the first number that is free.
fn next() -> PathBuf {
    let numbered = |number: u32| Path::new(FOLDER).join(format!("{number:04}"));
    let free = (1..10_000).map(numbered).find(|folder| !folder.exists());
    free.unwrap_or_else(|| Path::new(FOLDER).to_path_buf())
}
