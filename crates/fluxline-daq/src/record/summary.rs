//! A run in a line: the small part of `run.json` that a list of runs shows, and the sizes of files.
//!
//! A site has thousands of run folders, and the ledger of one may have megabytes. So `run.json` is
//! read as a stream, and all but a few numbers is passed over. A file that cannot be read makes a
//! line with its fault: one damaged run never hides the others.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::archived::{ARCHIVE_FILE, ArchivedAt};
use super::directory::{Access, Directory};
use super::folder::{FolderError, RUN_FILE, RunFolder, event_file_number};
use super::integrity::RunEnd;
use super::marks::Marks;

/// The largest `run.json` that a list reads \[byte\].
const RUN_BYTES_MAX: u64 = 64 << 20;
/// The largest `run.json` that is read at once, not as a stream \[byte\].
const AT_ONCE_BYTES_MAX: u64 = 1 << 20;
/// The longest name of an experiment \[character\].
const NAME_CHARACTERS_MAX: usize = 200;
/// The longest sentence on a run \[character\].
const SENTENCE_CHARACTERS_MAX: usize = 2000;

/// A run in a line. Numbers are `None` where `run.json` does not have them (yet).
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// The end of the run.
    pub end: RunEnd,
    /// The name of the experiment.
    pub experiment: Option<String>,
    /// The shot number.
    pub shot: Option<u64>,
    /// The time of its start \[ns since 1970\].
    pub began_ns: Option<u64>,
    /// The time of its end \[ns since 1970\].
    pub ended_ns: Option<u64>,
    /// The time at which the folder changed last \[ns since 1970\].
    pub changed_ns: u64,
    /// Number of events, of the time in which the run recorded.
    pub events: Option<u64>,
    /// Number of events that lack something.
    pub incomplete: Option<u64>,
    /// Number of packets that are missing by the packet counters.
    pub lost: Option<u64>,
    /// Size of the event files \[byte\].
    pub file_bytes: u64,
    /// The exit status of the run: docs/exit-status.md.
    pub status: Option<u64>,
    /// The reason for the status.
    pub sentence: Option<String>,
    /// The operators' notes.
    pub notes: Vec<String>,
    /// Tags and comment.
    pub marks: Marks,
    /// The place of its archive, if it has one.
    pub archive: Option<ArchivedAt>,
    /// The reason why `run.json` could not be read, as a clause.
    pub fault: Option<String>,
}

impl RunSummary {
    /// Reads the line of the folder `name` in `runs`; `None` when it is not a run: it has neither
    /// `run.json` nor event files. Links are not followed.
    ///
    /// Errors: a folder that cannot be opened. Cost: some ten system calls, and the bytes of
    /// `run.json` once, at most 64 MiB.
    pub fn read(runs: &Directory, name: &Path) -> Result<Option<RunSummary>, FolderError> {
        let folder = runs.directory(name)?;
        let (mut has_run, mut has_events, mut has_marks, mut file_bytes) = (false, false, false, 0);
        let mut has_archive = false;
        for name in folder.names()? {
            has_run |= name == RUN_FILE;
            has_marks |= name == super::marks::MARKS_FILE;
            has_archive |= name == ARCHIVE_FILE;
            if event_file_number(&name).is_some() {
                has_events = true;
                file_bytes += folder.file_bytes(Path::new(&name)).unwrap_or(0);
            }
        }
        if !has_run && !has_events {
            return Ok(None);
        }
        let mut summary = RunSummary { file_bytes, ..RunSummary::default() };
        summary.changed_ns = folder.changed_ns();
        if has_marks {
            summary.marks = Marks::read(&folder);
        }
        if has_archive {
            summary.archive = ArchivedAt::read(&folder);
        }
        if let Some(archive) = summary.archive.as_ref().filter(|archive| archive.removed) {
            summary.file_bytes = archive.event_bytes;
        }
        match read_head(&folder) {
            Ok(head) => summary.take(head, &RunFolder::of(folder)),
            Err(error) => summary.fault = Some(error.to_string()),
        }
        Ok(Some(summary))
    }

    fn take(&mut self, head: Head, folder: &RunFolder) {
        let Head { state, began_ns, ended_ns, status, sentence, .. } = head;
        self.end = RunEnd::of_state(folder, state.as_deref());
        (self.began_ns, self.ended_ns, self.status) = (began_ns, ended_ns, status);
        self.sentence = sentence.map(|text| cut(&text, SENTENCE_CHARACTERS_MAX));
        let name = head.experiment.and_then(|experiment| experiment.name);
        self.experiment = name.map(|name| cut(&name, NAME_CHARACTERS_MAX));
        let control = head.control.unwrap_or_default();
        self.shot = control.shot;
        self.notes = control.remarks.into_iter().map(|remark| remark.text).collect();
        let (totals, ledger) = (head.totals, head.ledger.unwrap_or_default());
        let paused = ledger.paused.unwrap_or_default();
        if let Some(totals) = totals {
            let closed = totals.events_incomplete.saturating_add(totals.events_stopped);
            let incomplete = closed.saturating_sub(paused.events_incomplete);
            let complete = totals.events_complete.saturating_sub(paused.events_complete);
            self.events = Some(complete.saturating_add(incomplete));
            self.incomplete = Some(ledger.incomplete_in_files.unwrap_or(incomplete));
            self.lost = Some(totals.lost.saturating_sub(paused.lost));
        } else {
            self.events = head.recorded.and_then(|recorded| recorded.events);
        }
    }

    /// Returns the time by which a run is found: its start, or the last change of the folder where
    /// `run.json` does not have the start \[ns since 1970\].
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.began_ns.unwrap_or(self.changed_ns)
    }
}

fn cut(text: &str, characters_max: usize) -> String {
    text.chars().take(characters_max).collect()
}

/// Reads the head of `run.json`.
fn read_head(folder: &Directory) -> Result<Head, FolderError> {
    let path = || folder.path().join(RUN_FILE);
    let file = folder.file(Path::new(RUN_FILE), Access::Read)?;
    let bytes = file.metadata().map_err(|reason| FolderError::explain(&path(), reason))?.len();
    let text = |error: serde_json::Error| FolderError::Text {
        file: path(),
        line: error.line(),
        reason: error.to_string(),
    };
    if bytes > RUN_BYTES_MAX {
        return Err(FolderError::TooLarge { path: path(), bytes_max: RUN_BYTES_MAX });
    }
    if bytes > AT_ONCE_BYTES_MAX {
        return serde_json::from_reader(BufReader::new(file.take(RUN_BYTES_MAX))).map_err(text);
    }
    let mut whole = Vec::with_capacity(bytes as usize + 1);
    let read = file.take(AT_ONCE_BYTES_MAX).read_to_end(&mut whole);
    read.map_err(|reason| FolderError::explain(&path(), reason))?;
    serde_json::from_slice(&whole).map_err(text)
}

/// The part of `run.json` that a list shows.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    state: Option<String>,
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
    status: Option<u64>,
    sentence: Option<String>,
    experiment: Option<ExperimentHead>,
    control: Option<ControlHead>,
    totals: Option<TotalsHead>,
    recorded: Option<RecordedHead>,
    ledger: Option<LedgerHead>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExperimentHead {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ControlHead {
    shot: Option<u64>,
    remarks: Vec<RemarkHead>,
}

#[derive(Deserialize)]
struct RemarkHead {
    text: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TotalsHead {
    lost: u64,
    events_complete: u64,
    events_incomplete: u64,
    events_stopped: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedHead {
    events: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LedgerHead {
    incomplete_in_files: Option<u64>,
    paused: Option<PausedHead>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PausedHead {
    lost: u64,
    events_complete: u64,
    events_incomplete: u64,
}

/// Returns the folders in a folder of runs, by name, and the links, which are not followed.
///
/// Errors: the folder cannot be read.
pub fn folders_of(runs: &Path) -> Result<FoundFolders, FolderError> {
    let explain = |reason| FolderError::explain(runs, reason);
    let mut found = FoundFolders::default();
    for entry in std::fs::read_dir(runs).map_err(explain)? {
        let entry = entry.map_err(explain)?;
        let Ok(kind) = entry.file_type() else { continue };
        found.links += usize::from(kind.is_symlink());
        if kind.is_dir() {
            found.names.push(entry.file_name().into());
        }
    }
    found.names.sort_unstable();
    Ok(found)
}

/// The contents of a folder of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFolders {
    /// The names of the folders in it, in order.
    pub names: Vec<PathBuf>,
    /// Number of links in it.
    pub links: usize,
}
