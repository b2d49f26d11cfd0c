//! Space for the end of a run, taken at its beginning.
//!
//! Another program may fill the disk to its last byte while a run goes on. The events that are not
//! written then are counted, and the counts must have a place: `run.json`. So a file with the space
//! of the last `run.json` is written when the run begins, is filled in place when it ends, and is
//! renamed over the old one. Nothing of that needs a free block, except on file systems that write
//! each change to a new place, such as btrfs and ZFS.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::Value;

use super::folder::{FolderError, RUN_FILE, RunFolder};

/// The file with the space.
const RESERVE_FILE: &str = "run.end";
/// Space for the counts of about a hundred sources \[byte\].
const RESERVE_BYTES: usize = 256 << 10;
/// Parts that are left out, in this order, of an end that is longer than the space while the disk
/// is full.
const LEFT_OUT: [&str; 6] = ["inputs", "ledger", "control", "notes", "laws", "experiment"];

/// The space of the last `run.json`. Dropped without a write, as when the run cannot begin, it
/// stays on the disk.
#[derive(Debug)]
pub struct EndReserve {
    file: File,
    bytes: usize,
}

impl EndReserve {
    /// Takes the space; a run that has not even this cannot be recorded.
    pub fn take(folder: &RunFolder) -> Result<EndReserve, FolderError> {
        EndReserve::take_bytes(folder, RESERVE_BYTES)
    }

    fn take_bytes(folder: &RunFolder, bytes: usize) -> Result<EndReserve, FolderError> {
        let name = Path::new(RESERVE_FILE);
        let mut file = folder.directory().create(name)?;
        // Spaces, not a hole: a hole takes no space.
        let written = file.write_all(&vec![b' '; bytes]).and_then(|()| file.sync_data());
        written.map_err(|reason| {
            let _ = folder.directory().remove(name);
            FolderError::explain(&folder.path().join(name), reason)
        })?;
        Ok(EndReserve { file, bytes })
    }

    /// Replaces `run.json` by `run`.
    ///
    /// If the disk is full and `run` is longer than the space, its longest parts are left out and
    /// named in `left_out`. Errors: the disk accepts nothing, or somebody removed the folder.
    pub fn write(mut self, folder: &RunFolder, run: &Value) -> Result<(), FolderError> {
        let text = text_of(run);
        if text.len() > self.bytes {
            if folder.write_run(run).is_ok() {
                let _ = folder.directory().remove(Path::new(RESERVE_FILE));
                return Ok(());
            }
            let short = shortened(run, self.bytes);
            return self.fill(folder, &short);
        }
        self.fill(folder, &text)
    }

    fn fill(&mut self, folder: &RunFolder, text: &str) -> Result<(), FolderError> {
        let explain = |reason| FolderError::explain(&folder.path().join(RUN_FILE), reason);
        self.overwrite(text.as_bytes()).map_err(explain)?;
        folder.directory().rename(Path::new(RESERVE_FILE), Path::new(RUN_FILE))
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(bytes)?;
        self.file.set_len(bytes.len() as u64)?;
        self.file.sync_all()
    }
}

fn text_of(run: &Value) -> String {
    let mut text = serde_json::to_string_pretty(run).unwrap_or_default();
    text.push('\n');
    text
}

/// Leaves parts out until the text has at most `bytes`.
fn shortened(run: &Value, bytes: usize) -> String {
    let (mut run, mut left_out) = (run.clone(), Vec::new());
    for part in LEFT_OUT {
        if run.as_object_mut().and_then(|parts| parts.remove(part)).is_some() {
            left_out.push(part);
            run["left_out"] = left_out.clone().into();
        }
        let text = text_of(&run);
        if text.len() <= bytes {
            return text;
        }
    }
    text_of(&run)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&dir.path().join("0000")).unwrap();
        run.write_run(&json!({"state": "running"})).unwrap();
        (dir, run)
    }

    fn names(run: &RunFolder) -> Vec<String> {
        let entries = fs::read_dir(run.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_end_replaces_the_beginning_and_leaves_no_reserve() {
        for bytes in [10, 4096] {
            let (_dir, run) = folder();
            let reserve = EndReserve::take_bytes(&run, bytes).unwrap();
            assert_eq!(run.read_run().unwrap()["state"], "running");
            reserve.write(&run, &json!({"state": "finished"})).unwrap();
            assert_eq!(run.read_run().unwrap(), json!({"state": "finished"}));
            assert_eq!(names(&run), ["formats", "run.json"], "{bytes}");
        }
    }

    #[test]
    fn an_end_that_has_no_room_keeps_its_state_and_names_the_parts_left_out() {
        let (_dir, run) = folder();
        let reserve = EndReserve::take_bytes(&run, 350).unwrap();
        // As on a full disk: no other file can be made.
        fs::create_dir(run.path().join("run.new")).unwrap();
        let text = "x".repeat(300);
        let end = json!({"state": "finished", "ledger": text, "inputs": text, "notes": "short"});
        reserve.write(&run, &end).unwrap();
        let kept = run.read_run().unwrap();
        assert_eq!(
            kept,
            json!({"state": "finished", "notes": "short", "left_out": ["inputs", "ledger"]})
        );
    }

    #[test]
    fn a_folder_that_is_gone_is_a_sentence() {
        let (_dir, run) = folder();
        let reserve = EndReserve::take(&run).unwrap();
        fs::remove_dir_all(run.path()).unwrap();
        let error = reserve.write(&run, &json!({"state": "finished"})).unwrap_err();
        assert!(error.to_string().contains("run.json"), "{error}");
    }
}
