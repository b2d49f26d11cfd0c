//! The progress of a sequence, in a file that survives a kill: `sequence.jsonl`.
//!
//! A line is written before and after each run, and forced to the disk. So after a kill the file
//! names the finished runs, and the one that was cut. The file is locked while a sequence works on
//! it, and only ever appended, except that a torn last line is cut off.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fluxline_daq::record::{Access, Directory, FolderError};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The largest file \[byte\].
const BYTES_MAX: u64 = 64 << 20;
/// The beginning of every line.
const LINE_BEGIN: &[u8] = b"{\"at_ns\":";

/// A step of the progress. Runs are numbered from 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// A sequence began.
    Begin {
        /// Its file.
        sequence: String,
        /// The tags of each run.
        runs: Vec<Vec<String>>,
    },
    /// A run began.
    Started {
        /// Its number.
        run: usize,
        /// Its folder.
        folder: String,
    },
    /// A run ended as planned.
    Finished {
        /// Its number.
        run: usize,
        /// Its folder.
        folder: String,
        /// Its status.
        status: u8,
        /// Its events.
        events: u64,
    },
    /// A run ended, and its number is done again.
    Repeated {
        /// Its number.
        run: usize,
        /// Its folder.
        folder: String,
        /// The reason.
        reason: String,
    },
    /// A run could not be done.
    Failed {
        /// Its number.
        run: usize,
        /// The reason.
        reason: String,
    },
    /// All runs are finished.
    Ended {
        /// Number of runs.
        runs: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    at_ns: u64,
    #[serde(flatten)]
    entry: Entry,
}

/// The state of the newest sequence in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The tags of its runs; `None`: the file has no sequence.
    pub runs: Option<Vec<Vec<String>>>,
    /// The finished runs.
    pub finished: BTreeSet<usize>,
    /// The number of a run that began and did not end; its folder.
    pub cut: Option<(usize, String)>,
    /// True when all its runs are finished.
    pub has_ended: bool,
}

impl State {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begin { runs, .. } => {
                *self = State { runs: Some(runs), ..State::default() };
            }
            Entry::Started { run, folder } => self.cut = Some((run, folder)),
            Entry::Finished { run, .. } => {
                self.finished.insert(run);
                self.cut = None;
            }
            Entry::Repeated { .. } | Entry::Failed { .. } => self.cut = None,
            Entry::Ended { .. } => self.has_ended = true,
        }
    }
}

/// The file of the progress, locked.
pub struct Progress {
    path: PathBuf,
    file: File,
}

impl Progress {
    /// Opens the file, which is made if it does not exist, and reads the state.
    ///
    /// Errors: another sequence works on it, or it is another file.
    pub fn open(path: &Path) -> Result<(Progress, State), Failure> {
        let wrong = |error: FolderError| match error {
            FolderError::Missing(missing) => Failure::input(format_args!(
                "{} is not there; make the folder, or give another file by --progress.",
                missing.display()
            )),
            error => Failure::input(format_args!("{error}.")),
        };
        let folder = path.parent().filter(|of| !of.as_os_str().is_empty());
        let folder = Directory::open(folder.unwrap_or(Path::new("."))).map_err(wrong)?;
        let name = Path::new(path.file_name().unwrap_or_default());
        let opened = match folder.create(name) {
            Err(FolderError::Exists(_)) => folder.file(name, Access::Write),
            made => made,
        };
        let file = opened.map_err(wrong)?;
        lock(&file, path)?;
        let mut progress = Progress { path: path.to_path_buf(), file };
        let state = progress.read()?;
        Ok((progress, state))
    }

    fn read(&mut self) -> Result<State, Failure> {
        let shown = self.path.display();
        let mut bytes = Vec::new();
        let read = (&self.file).take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::input(format_args!("{shown} cannot be read: {error}.")))?;
        let not_ours = |line: usize| {
            Failure::input(format_args!(
                "{shown}, line {line}, is not the progress of a sequence; restore the file, remove \
                 it to begin again, or give another one by --progress."
            ))
        };
        if bytes.len() as u64 > BYTES_MAX {
            return Err(Failure::input(format_args!(
                "{shown} has more than {BYTES_MAX} bytes; give another file by --progress."
            )));
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let (lines, torn) = bytes.split_at(whole);
        let mut state = State::default();
        let mut last = 0;
        for (number, text) in lines.split(|byte| *byte == b'\n').enumerate() {
            last = number + 1;
            if !text.is_empty() {
                let line: Line = serde_json::from_slice(text).map_err(|_| not_ours(last))?;
                state.take(line.entry);
            }
        }
        // Only a line of ours is cut off: the file may be another one, named by mistake.
        let common = torn.len().min(LINE_BEGIN.len());
        if torn[..common] != LINE_BEGIN[..common] {
            return Err(not_ours(last.max(1)));
        }
        if !torn.is_empty() {
            self.file.set_len(whole as u64).map_err(|error| self.failed(&error))?;
        }
        Ok(state)
    }

    /// Appends a step; it is on the disk afterwards.
    pub fn add(&mut self, entry: Entry) -> Result<(), Failure> {
        let at_ns = fluxline::clock::now().as_ns();
        let mut text = serde_json::to_vec(&Line { at_ns, entry }).unwrap_or_default();
        text.push(b'\n');
        let end = self.file.seek(SeekFrom::End(0));
        let written = end.and_then(|_| self.file.write_all(&text));
        written.and_then(|()| self.file.sync_data()).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::failed(format_args!(
            "the progress cannot be written to {} ({error}); free some space, and go on with \
             --resume.",
            self.path.display()
        ))
    }
}

/// Locks a file until it is closed, so that two sequences never work on it. A file system without
/// locks lets both through.
pub fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Failure::failed(format_args!(
            "another `fluxline sequence` works on {}; wait for its end, or stop it.",
            path.display()
        ))),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}
