//! The journal of archives in the run folder: `archive.jsonl`.
//!
//! A line is forced to the disk before a file is sent and after it is verified. So after a kill,
//! the next call knows which files of the target are its own, and which need not be sent again. A
//! line never has a credential: an address has none.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use fluxline_daq::record::{Access, Directory, FolderError};
use serde::{Deserialize, Serialize};

use crate::error::{ArchiveError, failed, input};
use crate::manifest::FileEntry;
use crate::names::JOURNAL_FILE;
use crate::source::Stamp;

/// The largest journal \[byte\].
const BYTES_MAX: u64 = 256 << 20;

/// A step of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// An archive was begun.
    Begun {
        /// True when its files are compressed.
        compressed: bool,
    },
    /// A file is sent for the first time: it may be partly there.
    Sending {
        /// Its name.
        name: String,
    },
    /// A file was read back, and is the same.
    Verified {
        /// The file.
        file: FileEntry,
        /// The state of the local file that was sent.
        stamp: Stamp,
    },
    /// All files are verified, and the manifest is there.
    Archived {},
    /// The local files were removed.
    Removed {},
}

#[derive(Serialize, Deserialize)]
struct Line {
    at_ns: u64,
    target: String,
    #[serde(flatten)]
    entry: Entry,
}

/// The state of the archive at one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// True when its files are compressed; `None`: it was not begun.
    pub compressed: Option<bool>,
    /// The files that were begun; those that are verified with their sums.
    pub files: BTreeMap<String, Option<(FileEntry, Stamp)>>,
}

impl State {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begun { compressed } => self.compressed = Some(compressed),
            Entry::Sending { name } => {
                self.files.insert(name, None);
            }
            Entry::Verified { file, stamp } => {
                self.files.insert(file.name.clone(), Some((file, stamp)));
            }
            Entry::Archived {} | Entry::Removed {} => {}
        }
    }
}

/// The journal of a run, locked: two archives of a run never work at once.
pub struct Journal {
    file: File,
    target: String,
    shown: String,
}

impl Journal {
    /// Opens the journal of a run, which is made if it does not exist, and reads the state of the
    /// archive at `target`. A torn last line is cut off.
    ///
    /// Errors: another program archives the run, or the journal is damaged.
    pub fn open(folder: &Directory, target: &str) -> Result<(Journal, State), ArchiveError> {
        let name = Path::new(JOURNAL_FILE);
        let opened = match folder.file(name, Access::Write) {
            Err(FolderError::Missing(_)) => match folder.create(name) {
                // Another program was faster.
                Err(FolderError::Exists(_)) => folder.file(name, Access::Write),
                made => made,
            },
            opened => opened,
        };
        let file = opened.map_err(|error| failed!("{error}; the journal must be there."))?;
        let shown = folder.path().join(name).display().to_string();
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(failed!(
                "another `fluxline archive` works on {}; wait for its end.",
                folder.path().display()
            ));
        }
        let mut journal = Journal { file, target: target.to_owned(), shown };
        let state = journal.read()?;
        Ok((journal, state))
    }

    fn read(&mut self) -> Result<State, ArchiveError> {
        let shown = &self.shown;
        let mut bytes = Vec::new();
        let read = (&self.file).take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| failed!("{shown} cannot be read: {error}."))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(input!("{shown} is too large; remove it to begin again."));
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut state = State::default();
        let lines = bytes[..whole].split(|byte| *byte == b'\n').enumerate();
        for (number, text) in lines.filter(|(_, text)| !text.is_empty()) {
            let line: Line = serde_json::from_slice(text).map_err(|_| {
                input!(
                    "{shown}, line {}, is damaged; remove the file and archive into an empty \
                     target.",
                    number + 1
                )
            })?;
            if line.target == self.target {
                state.take(line.entry);
            }
        }
        if whole < bytes.len() {
            let cut = self.file.set_len(whole as u64);
            cut.map_err(|error| failed!("{shown} cannot be written: {error}."))?;
        }
        Ok(state)
    }

    /// Appends a step; it is on the disk afterwards.
    pub fn add(&mut self, entry: Entry) -> Result<(), ArchiveError> {
        let line =
            Line { at_ns: fluxline::clock::now().as_ns(), target: self.target.clone(), entry };
        // Texts and numbers are always JSON.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        let end = self.file.seek(SeekFrom::End(0));
        let written = end.and_then(|_| self.file.write_all(&text));
        written.and_then(|()| self.file.sync_data()).map_err(|error| {
            failed!("{} cannot be written ({error}); free some space, and call again.", self.shown)
        })
    }
}
