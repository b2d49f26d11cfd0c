//! The state file: what was changed, from what, to what; written before each change.
//!
//! Lines only ever come to its end, each synced before the change that it announces. So after a
//! crash at any moment it names every setting that may differ from what was found, with its first
//! value. A line whose two values are equal says that the setting has its first value again. A last
//! line without its end was cut off by a crash: what it announces did not happen. A restart of the
//! host takes all changes back; what was written before it is void.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::setting::Setting;

/// First words of the file.
const HEAD: &str = "fluxline doctor state 2";
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
    /// The setting.
    pub setting: Setting,
    /// Its value before the first change.
    pub old: String,
    /// The value that it was given last.
    pub new: String,
}

/// The state file, open and locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// In the order of the first change of each.
    changed: Vec<Changed>,
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
        // Another doctor may have removed it after it was opened here: nobody would find it.
        let is_at_path = |file: &File| -> io::Result<bool> {
            let here = file.metadata()?.ino();
            Ok(fs::metadata(path).is_ok_and(|at_path| at_path.ino() == here))
        };
        if file.try_lock().is_err() || !is_at_path(&file).map_err(failed)? {
            return Err(JournalError::Busy { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        (&file).take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let foreign = |line| JournalError::Foreign { path: path.to_owned(), line };
        // A first line that is cut off may only be ours, never a stranger's file.
        if whole == 0 && !HEAD.as_bytes().starts_with(&bytes[..bytes.len().min(HEAD.len())]) {
            return Err(foreign(1));
        }
        let text = std::str::from_utf8(&bytes[..whole]).map_err(|_| foreign(1))?;
        let changed = Vec::new();
        let mut journal = Journal { path: path.to_owned(), file, changed, is_void: false };
        let boot_found = journal.take(text).map_err(foreign)?;
        let is_of_this_boot = boot_found.as_deref().is_none_or(|found| found == boot);
        if !is_of_this_boot {
            journal.is_void = !journal.changed.is_empty();
            journal.changed.clear();
        }
        if whole < bytes.len() || !is_of_this_boot || boot_found.is_none() {
            let keeps = if is_of_this_boot { whole as u64 } else { 0 };
            journal.file.set_len(keeps).map_err(failed)?;
            if keeps == 0 {
                journal.append(&format!("{HEAD}\t{boot}\n"))?;
            }
        }
        Ok(journal)
    }

    /// Takes all whole lines; returns the boot of the first one. Errors: the number of a line that
    /// is not the doctor's.
    fn take(&mut self, text: &str) -> Result<Option<String>, usize> {
        let mut boot = None;
        for (index, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split('\t').collect();
            let taken = match fields[..] {
                [HEAD, of] if index == 0 => {
                    boot = Some(of.to_owned());
                    Some(())
                }
                [setting, old, new] if index > 0 => {
                    Setting::parse(setting).map(|setting| self.note(&setting, old, new))
                }
                _ => None,
            };
            taken.ok_or(index + 1)?;
        }
        Ok(boot)
    }

    fn note(&mut self, setting: &Setting, old: &str, new: &str) {
        let is_back = old == new;
        let known = self.changed.iter().position(|one| one.setting == *setting);
        let (setting, old, new) = (setting.clone(), old.to_owned(), new.to_owned());
        match known {
            Some(at) if is_back => drop(self.changed.remove(at)),
            Some(at) => self.changed[at] = Changed { setting, old, new },
            None if is_back => {}
            None => self.changed.push(Changed { setting, old, new }),
        }
    }

    fn append(&mut self, line: &str) -> Result<(), JournalError> {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    /// Returns the first value of a setting that has the value `now`: the recorded one, unless
    /// somebody else changed it since.
    #[must_use]
    pub fn first_value(&self, setting: &Setting, now: &str) -> String {
        let known = self.changed.iter().find(|one| one.setting == *setting && one.new == now);
        known.map_or_else(|| now.to_owned(), |known| known.old.clone())
    }

    /// Announces a change, or says what became of it; on the disk when it returns. Equal values:
    /// the setting has its first value again.
    pub fn record(&mut self, setting: &Setting, old: &str, new: &str) -> Result<(), JournalError> {
        self.append(&format!("{setting}\t{old}\t{new}\n"))?;
        self.note(setting, old, new);
        Ok(())
    }

    /// Returns the present changes, newest first.
    #[must_use]
    pub fn newest_first(&self) -> Vec<Changed> {
        self.changed.iter().rev().cloned().collect()
    }

    /// It held changes, which a restart of the host has taken back.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.is_void
    }

    /// Removes the file when nothing is changed any more.
    pub fn close(self) -> Result<(), JournalError> {
        if self.changed.is_empty() {
            return fs::remove_file(&self.path)
                .map_err(|source| JournalError::Io { path: self.path, source });
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
