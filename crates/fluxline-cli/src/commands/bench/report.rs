//! The files of a report: a page and a document.

use std::path::{Path, PathBuf};

use fluxline_bench::page;
use fluxline_bench::result::Report;
use serde_json::Value;

use crate::failure::Failure;
use crate::files;

/// Where reports go when nobody says otherwise.
const FOLDER: &str = "bench-reports";

/// Writes report.html and report.json into `folder`, or into the next number of `bench-reports`;
/// returns the folder.
pub fn write(report: &Report, document: &Value, folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = folder.map_or_else(next, Path::to_path_buf);
    files::folder(&folder)?;
    files::write(&folder.join("report.json"), format!("{document:#}\n").as_bytes())?;
    files::write(&folder.join("report.html"), page::page(report).html().as_bytes())?;
    Ok(folder)
}

/// The first number that is free.
fn next() -> PathBuf {
    let numbered = |number: u32| Path::new(FOLDER).join(format!("{number:04}"));
    let free = (1..10_000).map(numbered).find(|folder| !folder.exists());
    free.unwrap_or_else(|| Path::new(FOLDER).to_path_buf())
}
