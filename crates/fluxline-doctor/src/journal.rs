//! The state file: what was changed, from what, to what; written before each change.
//!
//! Lines only ever come to its end, each synced before what it announces is done. So after a crash
//! at any moment it names every setting that may differ from what was found, with its first value.
//! A last line without its end was cut off by a crash: what it announces did not happen.
//! A restart of the host takes all changes back; what was logged before it is void.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::setting::Setting;

/// First words of the file.
const HEAD: &str = "fluxline doctor state 1";
/// Longest file that is read \[byte\]: some hundred thousand changes.
const BYTES_MAX: u64 = 16 << 20;

/// A reason why the state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("the state file {} cannot be used: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody else uses it.
    #[error("the state file {} is in use by another doctor; wait for its end", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It is not a state file, or was changed by hand.
    #[error("{}:{line}: not a line of the doctor's; fix or delete the file", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// The record of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its value before the first change.
    pub old: String,
    /// Values that it was given, the last one last; more than one where the host rounded.
    pub ours: Vec<String>,
    /// True if the result of the last change is unknown because of a crash.
    pub is_open: bool,
}

/// The state file, open and locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    boot: String,
    /// In the order of the first change of each.
    order: Vec<Setting>,
    changed: BTreeMap<Setting, Changed>,
    is_void: bool,
}

impl Journal {
    /// Opens the file for changes to come, and makes it, with its folder, where there is none.
    ///
    /// `boot` tells one start of the host from another. Errors: [`JournalError`].
    pub fn open(path: &Path, boot: &str) -> Result<Journal, JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        Journal::with(options.open(path).map_err(failed)?, path, boot)
    }

    /// Opens a file that is there; none where there is none.
    pub fn open_existing(path: &Path, boot: &str) -> Result<Option<Journal>, JournalError> {
        match OpenOptions::new().read(true).append(true).open(path) {
            Ok(file) => Journal::with(file, path, boot).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(JournalError::Io { path: path.to_owned(), source }),
        }
    }

    fn with(file: File, path: &Path, boot: &str) -> Result<Journal, JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        if file.try_lock().is_err() {
            return Err(JournalError::Busy { path: path.to_owned() });
        }
        // Another doctor may have removed it after it was opened here: nobody would find it.
        let here = file.metadata().map_err(failed)?.ino();
        if fs::metadata(path).map_or(0, |at_path| at_path.ino()) != here {
            return Err(JournalError::Busy { path: path.to_owned() });
        }
        let mut text = Vec::new();
        (&file).take(BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A first line that is cut off may only be ours, never a stranger's file.
        if whole == 0 && !HEAD.as_bytes().starts_with(&text[..text.len().min(HEAD.len())]) {
            return Err(JournalError::Foreign { path: path.to_owned(), line: 1 });
        }
        let (order, changed) = (Vec::new(), BTreeMap::new());
        let mut journal = Journal {
            path: path.to_owned(),
            file,
            boot: boot.to_owned(),
            order,
            changed,
            is_void: false,
        };
        let foreign = |line| JournalError::Foreign { path: path.to_owned(), line };
        let lines = std::str::from_utf8(&text[..whole]).map_err(|_| foreign(1))?;
        let same_boot = journal.read(lines).map_err(foreign)?;
        if whole < text.len() {
            journal.file.set_len(whole as u64).map_err(failed)?;
        }
        if !same_boot || whole == 0 {
            journal.begin().map_err(failed)?;
        }
        Ok(journal)
    }

    /// Takes the lines apart; `Ok(false)` when they are of an earlier start of the host.
    fn read(&mut self, text: &str) -> Result<bool, usize> {
        let mut lines = text.lines().enumerate();
        let Some((_, head)) = lines.next() else { return Ok(true) };
        let boot =
            head.strip_prefix(HEAD).and_then(|rest| rest.strip_prefix('\t')).ok_or(1_usize)?;
        let same_boot = boot == self.boot;
        for (number, line) in lines {
            self.take(line).ok_or(number + 1)?;
        }
        if !same_boot {
            self.is_void = !self.changed.is_empty();
            self.order.clear();
            self.changed.clear();
        }
        Ok(same_boot)
    }

    /// Takes one line; none when it is not one of ours.
    fn take(&mut self, line: &str) -> Option<()> {
        let mut parts = line.split('\t');
        let (kind, setting) = (parts.next()?, Setting::parse(parts.next()?)?);
        match kind {
            "change" => self.note_change(setting, parts.next()?.into(), parts.next()?.into()),
            "became" => self.note_became(&setting, parts.next()?)?,
            "undone" => self.forget(&setting),
            _ => return None,
        }
        parts.next().is_none().then_some(())
    }

    /// A value that is not ours was set by somebody else: then that one is to come back. After a
    /// crash it may be ours, rounded by the host: then the first one is.
    fn note_change(&mut self, setting: Setting, old: String, new: String) {
        if !self.changed.contains_key(&setting) {
            self.order.push(setting.clone());
        }
        let first = || Changed { old: old.clone(), ours: Vec::new(), is_open: true };
        let known = self.changed.entry(setting).or_insert_with(first);
        if !known.is_open && old != known.old && !known.ours.contains(&old) {
            *known = first();
        }
        known.ours.push(new);
        known.is_open = true;
    }

    fn note_became(&mut self, setting: &Setting, value: &str) -> Option<()> {
        let known = self.changed.get_mut(setting)?;
        known.ours.push(value.into());
        known.is_open = false;
        Some(())
    }

    fn forget(&mut self, setting: &Setting) {
        self.changed.remove(setting);
        self.order.retain(|other| other != setting);
    }

    /// Begins the file anew, for this start of the host.
    fn begin(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        let head = format!("{HEAD}\t{}\n", self.boot);
        self.append(&head)?;
        // The name in its folder must outlast a crash as well.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), source }
    }

    /// Announces a change; on disk on return, so that it may be made.
    pub fn change(&mut self, of: &Setting, old: &str, new: &str) -> Result<(), JournalError> {
        let line = format!("change\t{of}\t{old}\t{new}\n");
        self.append(&line).map_err(|source| self.failed(source))?;
        self.note_change(of.clone(), old.into(), new.into());
        Ok(())
    }

    /// The value that the host made of it; another one than was written where it rounds.
    pub fn became(&mut self, setting: &Setting, value: &str) -> Result<(), JournalError> {
        let line = format!("became\t{setting}\t{value}\n");
        self.append(&line).map_err(|source| self.failed(source))?;
        self.note_became(setting, value);
        Ok(())
    }

    /// The setting has its first value again.
    pub fn undone(&mut self, setting: &Setting) -> Result<(), JournalError> {
        self.append(&format!("undone\t{setting}\n")).map_err(|source| self.failed(source))?;
        self.forget(setting);
        Ok(())
    }

    /// Returns the present changes, newest first.
    #[must_use]
    pub fn newest_first(&self) -> Vec<(Setting, Changed)> {
        let of = |setting: &Setting| Some((setting.clone(), self.changed.get(setting)?.clone()));
        self.order.iter().rev().filter_map(of).collect()
    }

    /// It held changes, which a restart of the host has taken back.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.is_void
    }

    /// Removes the file when nothing is changed any more.
    pub fn close(self) -> Result<(), JournalError> {
        if self.changed.is_empty() {
            return fs::remove_file(&self.path).map_err(|source| self.failed(source));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_doctor_removed_meanwhile_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let first = Journal::open(&path, "boot").unwrap();
        let late = OpenOptions::new().read(true).append(true).open(&path).unwrap();
        first.close().unwrap();
        let refused = Journal::with(late, &path, "boot");
        assert!(matches!(refused, Err(JournalError::Busy { .. })), "{refused:?}");
    }
}
