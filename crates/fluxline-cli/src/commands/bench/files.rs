//! The files of a report: a page and a document, written whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use fluxline_bench::page;
use fluxline_bench::result::Report;
use serde_json::Value;

use crate::failure::Failure;

/// Where reports go when nobody says otherwise.
const FOLDER: &str = "bench-reports";

/// Writes report.html and report.json into `folder`, or into the next number of `bench-reports`;
/// returns the folder.
pub fn write(report: &Report, document: &Value, folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = folder.map_or_else(next, Path::to_path_buf);
    make(&folder)?;
    put(&folder.join("report.json"), &format!("{document:#}\n"))?;
    put(&folder.join("report.html"), &page::page(report).html())?;
    Ok(folder)
}

/// Makes a folder. Errors: one sentence.
pub fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| refused(folder, &error))
}

/// Writes a file beside its place, then moves it there: nobody finds half a file.
pub fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = path.with_extension("part");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format_args!(
        "{}: {error}; give a folder that can be written with --report.",
        path.display()
    ))
}

/// The first number that is free.
fn next() -> PathBuf {
    let numbered = |number: u32| Path::new(FOLDER).join(format!("{number:04}"));
    let free = (1..10_000).map(numbered).find(|folder| !folder.exists());
    free.unwrap_or_else(|| Path::new(FOLDER).to_path_buf())
}
