//! The list of the runs in a folder.
//!
//! The folders are read each time: they are the truth, and a list can never be stale. The threads
//! share the folders, because most of the time goes to opening small files (docs/adr/0048).

use std::cmp::{Ordering, Reverse};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};

use fluxline_daq::record::{Directory, FolderError, RunEnd, RunFolder, RunSummary, folders_of};
use serde_json::json;

use super::row::{HEADS, IS_NUMBER, Row};
use crate::failure::Failure;
use crate::runs_arguments::{ListArguments, SortKey};
use crate::{inform, say_text};

/// Most threads that read folders.
const THREADS_MAX: usize = 8;

/// Lists the runs that the arguments ask for.
pub fn list(arguments: &ListArguments, json: bool) -> Result<(), Failure> {
    let runs = &arguments.folder;
    let wrong = |error: FolderError| match error {
        FolderError::Missing(_) | FolderError::NotAFolder(_) => Failure::input(format_args!(
            "{} is not a folder: give the folder that has the runs, such as `fluxline runs \
             /data/runs`.",
            runs.display()
        )),
        error => Failure::input(format_args!("{error}.")),
    };
    if RunFolder::open(runs).is_ok() {
        return Err(Failure::input(format_args!(
            "{0} is a run, not a folder of runs: `fluxline inspect {0}` shows it.",
            runs.display()
        )));
    }
    let directory = Directory::open(runs).map_err(wrong)?;
    let found = folders_of(runs).map_err(wrong)?;
    let mut rows = read(&directory, &found.names);
    let all = rows.len();
    let search = arguments.search.as_ref().map(|text| text.to_lowercase());
    rows.retain(|row| is_wanted(row, arguments, search.as_deref()));
    sort(&mut rows, arguments.sort);
    if arguments.reverse {
        rows.reverse();
    }
    let matching = rows.len();
    rows.truncate(arguments.limit.unwrap_or(usize::MAX));
    if json {
        let documents: Vec<_> = rows.iter().map(|row| row.document(runs)).collect();
        crate::output::print_json(&json!({
            "folder": runs.to_string_lossy(), "runs": documents, "matching": matching,
            "all": all, "links": found.links,
        }));
    } else if arguments.csv {
        say_text!("{}", csv(&rows));
    } else {
        say_text!("{}", table(&rows));
        inform!("{}", closing(runs, rows.len(), all, found.links));
    }
    Ok(())
}

/// Returns the sentence below the table.
fn closing(runs: &Path, shown: usize, all: usize, links: usize) -> String {
    let mut out = format!("{shown} of {all} runs in {}", runs.display());
    if links > 0 {
        let _ = write!(out, "; {links} links in it are not followed");
    }
    out.push('.');
    out
}

/// Reads the folders; those that are no runs are left out.
fn read(runs: &Directory, names: &[PathBuf]) -> Vec<Row> {
    let now_ns = fluxline::clock::now().as_ns();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut own = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Memory::Relaxed)) {
            let run = match RunSummary::read(runs, name) {
                Ok(None) => continue,
                Ok(Some(run)) => run,
                // Removed or moved meanwhile.
                Err(FolderError::Missing(_)) => continue,
                Err(error) => {
                    RunSummary { fault: Some(error.to_string()), ..RunSummary::default() }
                }
            };
            own.push(Row { name: name.clone(), run, now_ns });
        }
        rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut own);
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..cores.min(THREADS_MAX).min(names.len()) {
            scope.spawn(work);
        }
        work();
    });
    rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn is_wanted(row: &Row, arguments: &ListArguments, search: Option<&str>) -> bool {
    let time_ns = row.run.time_ns();
    let tags = &row.run.marks.tags;
    arguments.since.is_none_or(|since| time_ns >= since.as_ns())
        && arguments.until.is_none_or(|until| time_ns < until.as_ns())
        && arguments.tag.iter().all(|tag| tags.contains(tag))
        && (arguments.status.is_empty() || arguments.status.contains(&row.verdict()))
        && search.is_none_or(|text| row.has(text))
}

/// Sorts by the key; rows with an equal key are sorted by name, the highest number first.
fn sort(rows: &mut [Row], key: SortKey) {
    rows.sort_by(|a, b| b.order_of_name().cmp(&a.order_of_name()));
    let most = |of: fn(&Row) -> Option<u64>| move |a: &Row, b: &Row| of(b).cmp(&of(a));
    match key {
        SortKey::Start => {
            rows.sort_by_key(|row| (row.run.end != RunEnd::Running, Reverse(row.run.time_ns())));
        }
        SortKey::Name => rows.reverse(),
        SortKey::Experiment => rows.sort_by(|a, b| a.run.experiment.cmp(&b.run.experiment)),
        SortKey::Shot => rows.sort_by(most(|row| row.run.shot)),
        SortKey::Length => {
            rows.sort_by(|a, b| b.seconds().partial_cmp(&a.seconds()).unwrap_or(Ordering::Equal))
        }
        SortKey::Events => rows.sort_by(most(|row| row.run.events)),
        SortKey::Incomplete => rows.sort_by(most(|row| row.run.incomplete)),
        SortKey::Lost => rows.sort_by(most(|row| row.run.lost)),
        SortKey::Size => rows.sort_by(most(|row| Some(row.run.file_bytes))),
        SortKey::Status => rows.sort_by_key(Row::verdict),
    }
}

/// Returns the rows as a table for people; columns that nobody uses are narrow.
fn table(rows: &[Row]) -> String {
    let lines: Vec<_> = rows.iter().map(Row::columns).collect();
    let mut widths = HEADS.map(|head| head.chars().count());
    for line in &lines {
        for (width, text) in widths.iter_mut().zip(line) {
            *width = (*width).max(text.chars().count());
        }
    }
    let mut out = String::new();
    let heads = HEADS.map(str::to_owned);
    for line in std::iter::once(&heads).chain(&lines) {
        let mut text = String::new();
        for (column, of) in line.iter().enumerate() {
            let space = widths[column] - of.chars().count();
            let (before, after) = if IS_NUMBER[column] { (space, 0) } else { (0, space) };
            let _ = write!(text, "{:before$}{of}{:after$}  ", "", "");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

/// Returns the rows as comma-separated values (RFC 4180).
fn csv(rows: &[Row]) -> String {
    let quoted = |text: &String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.clone(),
    };
    let mut out = format!("{}\n", HEADS.join(","));
    for row in rows {
        let values: Vec<_> = row.values().iter().map(quoted).collect();
        let _ = writeln!(out, "{}", values.join(","));
    }
    out
}
