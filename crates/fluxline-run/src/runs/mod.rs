//! The list of the runs in a folder.
//!
//! The folders are read each time: they are the truth, and a list can never be stale. The threads
//! share the folders, because most of the time goes to opening small files (docs/adr/0048).

mod row;

use std::cmp::{Ordering, Reverse};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};

use fluxline_core::Moment;
use fluxline_daq::record::{Directory, FolderError, RunEnd, RunFolder, RunSummary, folders_of};
use serde::Deserialize;

pub use row::{RunRow, RunVerdict, marks_document};

use crate::error::Error;

/// Most threads that read folders.
const THREADS_MAX: usize = 8;

/// The runs that are wanted, and their order.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Only runs with this text in name, experiment, notes, tags or comment, in any case.
    pub search: Option<String>,
    /// Only runs with all of these tags.
    pub tags: Vec<String>,
    /// Only runs that began at this time or later.
    pub since: Option<Moment>,
    /// Only runs that began before this time.
    pub until: Option<Moment>,
    /// Only runs with one of these verdicts; empty: with any.
    pub verdicts: Vec<RunVerdict>,
    /// The order: newest, longest, largest and most first; names by alphabet.
    pub sort: RunOrder,
    /// The other way round.
    pub reverse: bool,
    /// Only the first runs of the list.
    pub limit: Option<usize>,
}

/// The key by which runs are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOrder {
    /// By the start, runs that go on before the others.
    #[default]
    Start,
    /// By the name of the folder.
    Name,
    /// By the name of the experiment.
    Experiment,
    /// By the shot number.
    Shot,
    /// By the length.
    Length,
    /// By the number of events.
    Events,
    /// By the number of incomplete events.
    Incomplete,
    /// By the number of lost packets.
    Lost,
    /// By the size of the event files.
    Size,
    /// By the verdict.
    Status,
}

/// The wanted runs of a folder.
#[derive(Clone, Debug)]
pub struct RunList {
    /// The runs, in order.
    pub rows: Vec<RunRow>,
    /// Number of runs that match, also beyond the limit.
    pub matching: usize,
    /// Number of runs in the folder.
    pub all: usize,
    /// Number of links in it, which are not followed.
    pub links: usize,
}

/// Lists the runs in a folder.
///
/// # Errors
/// `runs` is not a folder of runs. A damaged run is a row with its fault.
pub fn list(runs: &Path, filter: &RunFilter) -> Result<RunList, Error> {
    let wrong = |error: FolderError| match error {
        FolderError::Missing(_) | FolderError::NotAFolder(_) => Error::input(format_args!(
            "{} is not a folder: give the folder that has the runs, such as /data/runs.",
            runs.display()
        )),
        error => Error::input(format_args!("{error}.")),
    };
    if RunFolder::open(runs).is_ok() {
        return Err(Error::input(format_args!(
            "{0} is a run, not a folder of runs: `fluxline inspect {0}` shows it.",
            runs.display()
        )));
    }
    let directory = Directory::open(runs).map_err(wrong)?;
    let found = folders_of(runs).map_err(wrong)?;
    let mut rows = read(&directory, &found.names);
    let all = rows.len();
    let search = filter.search.as_ref().map(|text| text.to_lowercase());
    rows.retain(|row| is_wanted(row, filter, search.as_deref()));
    sort(&mut rows, filter.sort);
    if filter.reverse {
        rows.reverse();
    }
    let matching = rows.len();
    rows.truncate(filter.limit.unwrap_or(usize::MAX));
    Ok(RunList { rows, matching, all, links: found.links })
}

/// Reads the folders; those that are no runs are left out.
fn read(runs: &Directory, names: &[PathBuf]) -> Vec<RunRow> {
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
            own.push(RunRow { name: name.clone(), run, now_ns });
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

fn is_wanted(row: &RunRow, filter: &RunFilter, search: Option<&str>) -> bool {
    let time_ns = row.run.time_ns();
    let tags = &row.run.marks.tags;
    filter.since.is_none_or(|since| time_ns >= since.as_ns())
        && filter.until.is_none_or(|until| time_ns < until.as_ns())
        && filter.tags.iter().all(|tag| tags.contains(tag))
        && (filter.verdicts.is_empty() || filter.verdicts.contains(&row.verdict()))
        && search.is_none_or(|text| row.has(text))
}

/// Sorts by the key; rows with an equal key are sorted by name, the highest number first.
fn sort(rows: &mut [RunRow], key: RunOrder) {
    rows.sort_by(|a, b| b.order_of_name().cmp(&a.order_of_name()));
    let most = |of: fn(&RunRow) -> Option<u64>| move |a: &RunRow, b: &RunRow| of(b).cmp(&of(a));
    match key {
        RunOrder::Start => {
            rows.sort_by_key(|row| (row.run.end != RunEnd::Running, Reverse(row.run.time_ns())));
        }
        RunOrder::Name => rows.reverse(),
        RunOrder::Experiment => rows.sort_by(|a, b| a.run.experiment.cmp(&b.run.experiment)),
        RunOrder::Shot => rows.sort_by(most(|row| row.run.shot)),
        RunOrder::Length => {
            rows.sort_by(|a, b| b.seconds().partial_cmp(&a.seconds()).unwrap_or(Ordering::Equal))
        }
        RunOrder::Events => rows.sort_by(most(|row| row.run.events)),
        RunOrder::Incomplete => rows.sort_by(most(|row| row.run.incomplete)),
        RunOrder::Lost => rows.sort_by(most(|row| row.run.lost)),
        RunOrder::Size => rows.sort_by(most(|row| Some(row.run.file_bytes))),
        RunOrder::Status => rows.sort_by_key(RunRow::verdict),
    }
}
