//! Run folders: the place of a run on disk, and the small files beside its events.
//!
//! Two programs may start a run at the same moment, and a crash may come at any time. So a program
//! takes a number by making the folder, which only one program can. And `run.json` is replaced as a
//! whole: written beside, forced to the disk, renamed over the old one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::archived::ArchivedAt;
use super::directory::Directory;
pub use super::folder_error::FolderError;

/// The file of a run's configuration, host, counts and state.
pub const RUN_FILE: &str = "run.json";
/// The file with one line per source.
pub const SOURCES_FILE: &str = "sources.jsonl";
/// The folder of the packet descriptions.
pub const FORMATS_FOLDER: &str = "formats";

/// A run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    directory: Directory,
}

fn parent_is_there(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.as_os_str().is_empty() || parent.is_dir())
}

/// One source of a run: one line of `sources.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// Its number: `source` in the events' packets.
    pub source: u32,
    /// Its label in reports.
    pub name: String,
    /// Name of its packet description: `formats/NAME.toml`.
    pub format: String,
    /// The description's parameters where the experiment set them.
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
    /// The UDP port that its packets are sent to, if there is one; descriptions may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Everything else that is known about it: address, key, packets.
    #[serde(default, flatten)]
    pub details: serde_json::Map<String, Value>,
}

impl RunFolder {
    /// Makes the folder with the next free number, `runs/0000` first; makes `runs` if necessary.
    ///
    /// Safe against other programs that do the same at the same time. Errors: [`FolderError`].
    pub fn create_next(runs: &Path) -> Result<RunFolder, FolderError> {
        match fs::create_dir(runs) {
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
                return Err(FolderError::ParentMissing(runs.to_path_buf()));
            }
            Err(reason) if reason.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FolderError::explain(runs, reason));
            }
            _ => {}
        }
        let mut number = 0;
        for entry in fs::read_dir(runs).map_err(|reason| FolderError::explain(runs, reason))? {
            let entry = entry.map_err(|reason| FolderError::explain(runs, reason))?;
            if let Some(taken) = run_number(&entry.file_name().to_string_lossy()) {
                number = number.max(taken.saturating_add(1));
            }
        }
        loop {
            match RunFolder::create(&runs.join(format!("{number:04}"))) {
                Err(FolderError::Exists(_)) if number < u32::MAX => number += 1,
                made => return made,
            }
        }
    }

    /// Makes the folder `path`, which must not exist, in a folder that does.
    pub fn create(path: &Path) -> Result<RunFolder, FolderError> {
        fs::create_dir(path).map_err(|reason| match reason.kind() {
            // /proc gives the same error for folders in it.
            io::ErrorKind::NotFound if parent_is_there(path) => {
                FolderError::Permission(path.to_path_buf())
            }
            io::ErrorKind::NotFound => FolderError::ParentMissing(path.to_path_buf()),
            _ => FolderError::explain(path, reason),
        })?;
        let directory = Directory::open(path)?;
        directory.make(Path::new(FORMATS_FOLDER))?;
        Ok(RunFolder { directory })
    }

    /// Opens an existing run, finished or not.
    pub fn open(path: &Path) -> Result<RunFolder, FolderError> {
        let folder = RunFolder { directory: Directory::open(path)? };
        let has_events = !folder.event_files()?.is_empty();
        if has_events || folder.directory.has(Path::new(RUN_FILE)) {
            Ok(folder)
        } else {
            Err(FolderError::NotARun(path.to_path_buf()))
        }
    }

    /// Returns the run in an open directory, which the caller knows to be one.
    pub(super) fn of(directory: Directory) -> RunFolder {
        RunFolder { directory }
    }

    /// Checks that the files of the run are here.
    ///
    /// Errors: they were archived and removed.
    pub(super) fn check_is_here(&self) -> Result<(), FolderError> {
        match ArchivedAt::read(&self.directory).filter(|archived| archived.removed) {
            None => Ok(()),
            Some(ArchivedAt { target, .. }) => {
                Err(FolderError::Archived { path: self.path().to_path_buf(), target })
            }
        }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the open directory, through which its files are opened.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the run's name: the folder's.
    #[must_use]
    pub fn id(&self) -> String {
        self.path()
            .file_name()
            .map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// Replaces `run.json`; a reader gets the old text or the new one, also after a crash.
    ///
    /// The new text is on the disk afterwards. Cost: two forced writes.
    pub fn write_run(&self, run: &Value) -> Result<(), FolderError> {
        let mut text = serde_json::to_string_pretty(run).unwrap_or_default();
        text.push('\n');
        self.directory.replace(Path::new(RUN_FILE), text.as_bytes())
    }

    /// Reads `run.json`.
    pub fn read_run(&self) -> Result<Value, FolderError> {
        let bytes = self.directory.read(Path::new(RUN_FILE))?;
        serde_json::from_slice(&bytes).map_err(|error| FolderError::Text {
            file: self.path().join(RUN_FILE),
            line: error.line(),
            reason: error.to_string(),
        })
    }

    /// Keeps a copy of a packet description's text as `formats/NAME.toml`.
    pub fn write_format(&self, name: &str, text: &str) -> Result<(), FolderError> {
        self.directory.replace(&format_file(name)?, text.as_bytes())
    }

    /// Reads a packet description's text back.
    pub fn read_format(&self, name: &str) -> Result<String, FolderError> {
        let file = format_file(name)?;
        String::from_utf8(self.directory.read(&file)?).map_err(|error| FolderError::Text {
            file: self.path().join(&file),
            line: 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count(),
            reason: "the text is not UTF-8".to_owned(),
        })
    }

    /// Returns the names of the packet descriptions kept in the run, in order.
    pub fn formats(&self) -> Result<Vec<String>, FolderError> {
        let folder = self.directory.directory(Path::new(FORMATS_FOLDER))?;
        let mut names: Vec<String> = folder
            .names()?
            .into_iter()
            .filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Reads the sources, in the order of the file; a last line without an end is torn, and left
    /// out.
    ///
    /// Errors: the first line that cannot be read.
    pub fn sources(&self) -> Result<Vec<SourceLine>, FolderError> {
        let (lines, faults) = self.readable_sources();
        faults.into_iter().next().map_or(Ok(lines), Err)
    }

    /// Returns the sources whose lines can be read, and the faults of the other lines.
    #[must_use]
    pub fn readable_sources(&self) -> (Vec<SourceLine>, Vec<FolderError>) {
        let file = self.path().join(SOURCES_FILE);
        let bytes = match self.directory.read(Path::new(SOURCES_FILE)) {
            Ok(bytes) => bytes,
            Err(FolderError::Missing(_)) => return (Vec::new(), Vec::new()),
            Err(error) => return (Vec::new(), vec![error]),
        };
        let complete = &bytes[..complete_lines_bytes(&bytes)];
        let (mut lines, mut faults) = (Vec::new(), Vec::new());
        for (index, line) in complete.split(|byte| *byte == b'\n').enumerate() {
            match serde_json::from_slice(line) {
                _ if line.is_empty() => {}
                Ok(line) => lines.push(line),
                Err(error) => faults.push(FolderError::Text {
                    file: file.clone(),
                    line: index + 1,
                    reason: error.to_string(),
                }),
            }
        }
        (lines, faults)
    }

    /// Returns the event files with their numbers, in order.
    pub fn event_files(&self) -> Result<Vec<(u32, PathBuf)>, FolderError> {
        let mut files: Vec<(u32, PathBuf)> = self
            .directory
            .names()?
            .into_iter()
            .filter_map(|name| Some((event_file_number(&name)?, self.path().join(&name))))
            .collect();
        files.sort();
        Ok(files)
    }

    /// Returns the names of the event files with their sizes \[byte\], in order; what is not a
    /// regular file has the size 0.
    pub fn event_sizes(&self) -> Result<Vec<(String, u64)>, FolderError> {
        let names = self.event_files()?.into_iter().map(|(number, _)| event_file_name(number));
        let size = |name: &String| self.directory.file_bytes(Path::new(name)).unwrap_or(0);
        Ok(names
            .map(|name| {
                let bytes = size(&name);
                (name, bytes)
            })
            .collect())
    }
}

/// Returns the file of a packet description in a run folder.
fn format_file(name: &str) -> Result<PathBuf, FolderError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(FolderError::Name(name.to_owned()));
    }
    Ok(Path::new(FORMATS_FOLDER).join(format!("{name}.toml")))
}

/// Returns the name of the event file with this number.
pub(super) fn event_file_name(number: u32) -> String {
    format!("events-{number:06}.arrows")
}

/// Returns the length of the complete lines of a file \[byte\].
pub(super) fn complete_lines_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

/// Returns the number of an event file with this name.
pub(super) fn event_file_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("events-")?.strip_suffix(".arrows")?;
    let number = digits.parse().ok()?;
    (event_file_name(number) == name).then_some(number)
}

fn run_number(name: &str) -> Option<u32> {
    let digits = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    if digits { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_taken_number_is_never_given_again() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        assert_eq!(RunFolder::create_next(&runs).unwrap().id(), "0000");
        assert_eq!(RunFolder::create_next(&runs).unwrap().id(), "0001");
        fs::create_dir(runs.join("0041")).unwrap();
        fs::create_dir(runs.join("notes")).unwrap();
        assert_eq!(RunFolder::create_next(&runs).unwrap().id(), "0042");
        fs::create_dir(runs.join("9999")).unwrap();
        assert_eq!(RunFolder::create_next(&runs).unwrap().id(), "10000");
    }

    #[test]
    fn a_folder_that_exists_or_has_no_parent_is_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("mine");
        RunFolder::create(&run).unwrap();
        let text = RunFolder::create(&run).unwrap_err().to_string();
        assert!(text.contains("mine exists already: give another folder"), "{text}");
        let lost = dir.path().join("no/where");
        let text = RunFolder::create(&lost).unwrap_err().to_string();
        assert!(text.contains("its parent directory does not exist"), "{text}");
        assert!(matches!(
            RunFolder::create_next(&lost).unwrap_err(),
            FolderError::ParentMissing(_)
        ));
        assert!(matches!(RunFolder::open(dir.path()).unwrap_err(), FolderError::NotARun(_)));
        assert!(matches!(RunFolder::open(&lost).unwrap_err(), FolderError::Missing(_)));
    }

    #[test]
    fn run_json_is_replaced_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&dir.path().join("0000")).unwrap();
        run.write_run(&json!({"state": "running"})).unwrap();
        run.write_run(&json!({"state": "finished"})).unwrap();
        assert_eq!(run.read_run().unwrap()["state"], "finished");
        let mut names = run.directory().names().unwrap();
        names.sort();
        assert_eq!(names, ["formats", "run.json"]);
    }

    #[test]
    fn a_format_name_cannot_leave_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&dir.path().join("0000")).unwrap();
        for name in ["", "../x", "a/b", "a.b"] {
            assert!(matches!(run.write_format(name, ""), Err(FolderError::Name(_))), "{name}");
        }
        run.write_format("srs-vmm3", "name = \"srs-vmm3\"").unwrap();
        assert_eq!(run.formats().unwrap(), ["srs-vmm3"]);
        assert_eq!(run.read_format("srs-vmm3").unwrap(), "name = \"srs-vmm3\"");
    }
}
