//! Run folders on a page: a list of them, and each one's ledger, events, packets and traces.
//!
//! A [`Library`] is a folder of runs. It reads a run while somebody looks at it, and keeps an index
//! of the runs that were looked at last. It changes nothing in a run folder but tags and comments.

mod curves;
mod described;
mod document;
mod events;
mod index;
mod reading;
mod traced;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fluxline_daq::plots::SavedPlots;
use fluxline_daq::record::folder::RUN_FILE;
use fluxline_daq::record::{
    Author, Directory, MARKS_FILE, Mark, MarkError, Marks, ReadError, RunEnd, RunFolder,
};
use fluxline_run::runs::marks_document;
use serde_json::{Value, json};

use crate::signal::Choice;
use described::Descriptions;
use events::EventPackets;
pub use events::Wanted;
use index::Index;
use reading::{Reading, end_of};
pub use traced::Zoom;
use traced::{Answer, Tracer};

/// Runs whose index is kept; the one that was asked for least recently makes room.
const RUNS_MAX: usize = 8;
/// Traces of a run that are kept: 32 MiB each.
const TRACES_MAX: usize = 4;
/// Most runs of a list: the newest.
const LISTED_MAX: usize = 2000;

/// The reason why a question about a run has no answer, in a sentence.
#[derive(Debug)]
pub struct NotThere(pub String);

impl From<ReadError> for NotThere {
    fn from(error: ReadError) -> NotThere {
        NotThere(format!("{error}."))
    }
}

/// A folder of runs.
pub struct Library {
    folder: PathBuf,
    runs: Mutex<VecDeque<Arc<Run>>>,
    /// The lines of ended runs, by the names of their folders.
    lines: Mutex<BTreeMap<String, KnownLine>>,
}

/// The line of a run that has ended.
struct KnownLine {
    stamp: Stamp,
    line: Value,
}

/// The times at which a run folder and its run.json changed, and the time and size of its marks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    folder: SystemTime,
    run: Option<SystemTime>,
    marks: Option<SystemTime>,
    marks_bytes: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let of = |name| path.join(name).symlink_metadata().ok();
        let (run, marks) = (of(RUN_FILE), of(MARKS_FILE));
        Some(Stamp {
            folder: path.metadata().ok()?.modified().ok()?,
            run: run.and_then(|run| run.modified().ok()),
            marks_bytes: marks.as_ref().map_or(0, |marks| marks.len()),
            marks: marks.and_then(|marks| marks.modified().ok()),
        })
    }
}

/// A run that is looked at.
pub struct Run {
    id: String,
    path: PathBuf,
    index: Reading<Index>,
    traces: Mutex<VecDeque<ChosenTrace>>,
}

struct ChosenTrace {
    source: u32,
    field: String,
    reading: Arc<Reading<Tracer>>,
}

impl Library {
    pub fn new(folder: &Path) -> Library {
        Library { folder: folder.to_path_buf(), runs: Mutex::default(), lines: Mutex::default() }
    }

    /// Lists the runs, the newest name first; folders that are no runs are left out.
    pub fn list(&self) -> Result<Value, NotThere> {
        let entries = std::fs::read_dir(&self.folder).map_err(|error| {
            NotThere(format!("{} cannot be read: {error}.", self.folder.display()))
        })?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        let lines = names.iter().filter_map(|id| self.line(id));
        let runs: Vec<Value> = lines.take(LISTED_MAX).collect();
        Ok(json!({ "folder": self.folder, "runs": runs }))
    }

    /// Returns the line of a run. A run that has ended is read again only when it changes: a page
    /// asks for the list every two seconds.
    fn line(&self, id: &str) -> Option<Value> {
        let path = self.folder.join(id);
        let stamp = Stamp::of(&path)?;
        if let Some(known) = lock(&self.lines).get(id).filter(|known| known.stamp == stamp) {
            return Some(known.line.clone());
        }
        let end = end_of(&path).ok()?;
        let line = document::line(&path, id, end);
        if !matches!(end, RunEnd::Running | RunEnd::Killed) {
            let mut lines = lock(&self.lines);
            if lines.len() >= LISTED_MAX {
                lines.pop_first();
            }
            lines.insert(id.to_owned(), KnownLine { stamp, line: line.clone() });
        }
        Some(line)
    }

    /// Adds a mark to a run; returns the marks that it has then. A link in the folder of runs is
    /// not followed.
    pub fn mark(
        &self,
        id: &str,
        author: &Author,
        mark: Mark,
    ) -> Result<Result<Value, MarkError>, NotThere> {
        self.run(id)?;
        let folder = Directory::open(&self.folder).and_then(|runs| runs.directory(Path::new(id)));
        let folder = folder.map_err(|error| NotThere(format!("{error}.")))?;
        let done = Marks::append(&folder, author, &[mark]);
        Ok(done.map(|()| marks_document(&Marks::read(&folder))))
    }

    /// Returns a run by the name of its folder.
    pub fn run(&self, id: &str) -> Result<Arc<Run>, NotThere> {
        let is_name = !id.is_empty() && id != "." && id != ".." && !id.contains(['/', '\0']);
        if !is_name {
            return Err(NotThere("the name of a run is that of its folder, without `/`.".into()));
        }
        let mut runs = lock(&self.runs);
        let found = runs.iter().position(|run| run.id == id).and_then(|at| runs.remove(at));
        let run = match found {
            Some(run) => run,
            None => Arc::new(Run::open(&self.folder.join(id), id)?),
        };
        runs.push_back(run.clone());
        if runs.len() > RUNS_MAX {
            runs.pop_front();
        }
        Ok(run)
    }
}

impl Run {
    /// Opens a run folder.
    pub fn open(path: &Path, id: &str) -> Result<Run, NotThere> {
        RunFolder::open(path).map_err(|error| NotThere(format!("{error}.")))?;
        Ok(Run {
            id: id.to_owned(),
            path: path.to_path_buf(),
            index: Reading::new(path, Index::default()),
            traces: Mutex::default(),
        })
    }

    /// Returns the state.
    pub fn state(&self) -> Result<Value, NotThere> {
        let folder = self.folder()?;
        let state = self.index.ask();
        Ok(document::state(&folder, &self.id, &state))
    }

    /// Returns a part of the curves of the run, of the same shape as those of a live one.
    pub fn history(&self, from: u64, to: u64, points: usize) -> Result<Value, NotThere> {
        curves::part(&self.folder()?, from, to, points)
    }

    /// Lists events.
    pub fn events(&self, wanted: Wanted) -> Result<Value, NotThere> {
        let batches = self.index.ask().visitor.batches_from(wanted.from).to_vec();
        Ok(events::list(&self.path, &batches, wanted)?)
    }

    /// Lists the packets of an event, or decodes the one with number `packet`.
    pub fn event(&self, number: u64, packet: Option<usize>) -> Result<Value, NotThere> {
        let absent = || NotThere(format!("the files have no event {number} (yet)."));
        let batch = self.index.ask().visitor.batches_from(number).first().copied();
        let event = EventPackets::read(&self.path, batch.ok_or_else(absent)?, number)?;
        let event = event.ok_or_else(absent)?;
        let folder = self.folder()?;
        let descriptions = Descriptions::of(&folder);
        match packet {
            None => Ok(event.list(&descriptions)),
            Some(packet) => match event.packet(packet, &descriptions) {
                Some(decoded) => decoded.map_err(NotThere),
                None => Err(NotThere(format!("event {number} has no packet {packet}."))),
            },
        }
    }

    /// Gathers a signal of the packets from event `from` on.
    pub fn signal(&self, choice: &Choice, from: u64) -> Result<Value, NotThere> {
        let batches = self.index.ask().visitor.batches_from(from).to_vec();
        events::signal(&self.path, &batches, choice)?.map_err(NotThere)
    }

    /// Returns a part of the trace of a field of a source.
    pub fn trace(&self, source: u32, field: &str, zoom: Zoom) -> Result<Value, NotThere> {
        let reading = self.tracer(source, field);
        let answer = traced::zoom(&reading.ask(), zoom);
        let again = match answer {
            Answer::Now(document) => return Ok(document),
            Answer::Read(again) => again,
        };
        let part = again.read(&self.path);
        let state = reading.ask();
        let part = part.unwrap_or_else(|| state.visitor.coarse(zoom));
        Ok(traced::document(&state, &part))
    }

    /// Returns the plots over the whole run, those of plots.json.
    pub fn plots(&self) -> Result<Value, NotThere> {
        let saved = SavedPlots::read(self.folder()?.directory());
        let saved = saved.map_err(|error| NotThere(format!("{error}.")))?;
        let none = || NotThere("this run has no plots: its experiment has no [[plot]].".into());
        Ok(saved.ok_or_else(none)?.shown())
    }

    fn tracer(&self, source: u32, field: &str) -> Arc<Reading<Tracer>> {
        let mut traces = lock(&self.traces);
        let is_it = |one: &ChosenTrace| one.source == source && one.field == field;
        let found = traces.iter().position(is_it).and_then(|at| traces.remove(at));
        let found = found.unwrap_or_else(|| ChosenTrace {
            source,
            field: field.to_owned(),
            reading: Arc::new(Reading::new(&self.path, Tracer::new(source, field))),
        });
        let reading = found.reading.clone();
        traces.push_back(found);
        if traces.len() > TRACES_MAX {
            traces.pop_front();
        }
        reading
    }

    fn folder(&self) -> Result<RunFolder, NotThere> {
        RunFolder::open(&self.path).map_err(|error| NotThere(format!("{error}.")))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
