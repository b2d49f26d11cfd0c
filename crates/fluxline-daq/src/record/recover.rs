//! Mends a run whose program or machine died.
//!
//! A crash leaves complete batches, then possibly a piece of one. Other readers of Arrow stumble
//! over that piece. So it is moved into a file beside it (`events-000003.arrows.torn`, which may be
//! deleted), and the file gets its end mark. Counts are rebuilt from the batches. Proven data is
//! never changed, and a second recovery changes nothing. A crash during recovery loses nothing: the
//! piece is on the disk before it is cut off.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::extents::copy_data;

use super::directory::{Access, Directory};
use super::folder::{
    FolderError, RUN_FILE, RunFolder, SOURCES_FILE, SourceLine, complete_lines_bytes,
};
use super::integrity::{Held, Integrity, recorded_by};
use super::lock::lock;
use super::message::END_OF_STREAM;
use super::reader::{Damage, ReadError, ReadReport, RunReader, explain};
use super::scan::{Scan, ScanFault};

/// The reason why a run cannot be mended.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The run has not ended.
    #[error("{} is being recorded right now: stop the run first", .0.display())]
    Running(PathBuf),
    /// The run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<FolderError> for RecoverError {
    fn from(error: FolderError) -> RecoverError {
        RecoverError::Read(error.into())
    }
}

/// A piece that was cut off a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: PathBuf,
    /// Size of the rest \[byte\]; without a rest, the file is gone.
    pub kept_bytes: u64,
    /// Size of the piece \[byte\].
    pub cut_bytes: u64,
    /// The file that has the piece now.
    pub kept_as: Option<PathBuf>,
}

/// The changes, and the contents of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverReport {
    /// The pieces that were cut off.
    pub cuts: Vec<Cut>,
    /// Files that got their end mark.
    pub ended: Vec<PathBuf>,
    /// The contents of the run, with damage in the middle of files, which stays.
    pub found: ReadReport,
    /// The recorded data that is missing.
    pub integrity: Integrity,
    /// Something was changed.
    pub changed: bool,
}

/// The status of a run that did not end by itself (docs/exit-status.md: "finished, but look").
const STATUS_WITHOUT_END: u8 = 7;
const SENTENCE_WITHOUT_END: &str =
    "the run did not end by itself: what it had received and not yet written is unknown.";

/// Mends the run in `path`; see the head of this file. Reads the whole run twice.
///
/// All changes are on the disk afterwards. Errors: [`RecoverError`]; the changes made until then
/// stay.
pub fn recover(path: &Path) -> Result<RecoverReport, RecoverError> {
    let folder = RunFolder::open(path)?;
    folder.check_is_here()?;
    let running = |_| RecoverError::Running(folder.path().to_path_buf());
    let _lock = lock(&folder).map_err(running)?;
    let mut report = RecoverReport::default();
    let mut last_batch = None;
    for (_, file) in folder.event_files()? {
        // An unreadable file is left unchanged; the count below names it.
        let Ok(mut scan) = Scan::open(folder.directory(), &file, last_batch) else { continue };
        if walk(&mut scan, &mut last_batch)? == Walked::ToTheEnd {
            mend_file(folder.directory(), &scan, &mut report)?;
        }
    }
    report.changed |= mend_lines(folder.directory())?;
    report.changed |= !report.cuts.is_empty() || !report.ended.is_empty();
    report.found = count(path)?;
    mend_run(&folder, &mut report)?;
    report.integrity = Integrity::of(&folder, &report.found);
    Ok(report)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walked {
    ToTheEnd,
    UntilItCouldNotBeRead,
}

fn walk(scan: &mut Scan, last_batch: &mut Option<u64>) -> Result<Walked, ReadError> {
    loop {
        match scan.next_batch() {
            Ok(Some(good)) => *last_batch = Some(good.number),
            Ok(None) => return Ok(Walked::ToTheEnd),
            Err(ScanFault::Io(_)) => return Ok(Walked::UntilItCouldNotBeRead),
            Err(fault) => return Err(explain(scan.path(), fault)),
        }
    }
}

fn count(path: &Path) -> Result<ReadReport, ReadError> {
    let mut reader = RunReader::open(path)?;
    while reader.next_batch()?.is_some() {}
    Ok(reader.report().clone())
}

fn mend_file(
    folder: &Directory,
    scan: &Scan,
    report: &mut RecoverReport,
) -> Result<(), FolderError> {
    let path = scan.path();
    let name = Path::new(path.file_name().unwrap_or_default());
    let mut file = folder.file(name, Access::Write)?;
    let explain = |reason| FolderError::explain(path, reason);
    let kept_bytes = scan.good_end();
    if scan.torn_bytes() > 0 {
        let torn = free_name(folder, name);
        keep_torn(scan, &file, &folder.create(&torn)?).map_err(explain)?;
        folder.sync().map_err(explain)?;
        let (cut_bytes, kept_as) = (scan.torn_bytes(), Some(folder.path().join(torn)));
        report.cuts.push(Cut { file: path.to_path_buf(), kept_bytes, cut_bytes, kept_as });
    } else if kept_bytes == 0 {
        let file = path.to_path_buf();
        report.cuts.push(Cut { file, kept_bytes, cut_bytes: 0, kept_as: None });
    }
    if kept_bytes == 0 {
        folder.remove(name)?;
        return folder.sync().map_err(explain);
    }
    end_file(scan, &mut file).map_err(explain)?;
    if !scan.has_end() {
        report.ended.push(path.to_path_buf());
    }
    Ok(())
}

/// Copies the piece behind the last good message; it has the permissions of its file.
fn keep_torn(scan: &Scan, file: &File, torn: &File) -> io::Result<()> {
    torn.set_permissions(file.metadata()?.permissions())?;
    copy_data(file, scan.good_end(), scan.torn_bytes(), torn)?;
    torn.sync_all()
}

/// Cuts a file behind its last good message, and adds the end mark if it has none.
fn end_file(scan: &Scan, file: &mut File) -> io::Result<()> {
    file.set_len(scan.good_end())?;
    if !scan.has_end() {
        file.seek(SeekFrom::Start(scan.good_end()))?;
        file.write_all(&END_OF_STREAM)?;
    }
    file.sync_all()
}

fn free_name(folder: &Directory, name: &Path) -> PathBuf {
    let with = |suffix: String| PathBuf::from(format!("{}{suffix}", name.display()));
    let mut free = with(".torn".to_owned());
    let mut number = 2;
    while folder.has(&free) {
        free = with(format!(".torn-{number}"));
        number += 1;
    }
    free
}

/// Completes the last line if it only lacks its end, otherwise cuts it off; returns true if it
/// changed the file.
fn mend_lines(folder: &Directory) -> Result<bool, FolderError> {
    let name = Path::new(SOURCES_FILE);
    let bytes = match folder.read(name) {
        // What is not there, or not a file, cannot be mended; the check of the run names it.
        Err(FolderError::Missing(_) | FolderError::NotAFile { .. } | FolderError::Link(_)) => {
            return Ok(false);
        }
        read => read?,
    };
    let complete = complete_lines_bytes(&bytes);
    let last = &bytes[complete..];
    if last.is_empty() {
        return Ok(false);
    }
    let mut file = folder.file(name, Access::Write)?;
    let is_whole = serde_json::from_slice::<SourceLine>(last).is_ok();
    let mut mend = || {
        match is_whole {
            true => file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(b"\n"))?,
            false => file.set_len(complete as u64)?,
        }
        file.sync_all()
    };
    mend().map_err(|reason| FolderError::explain(&folder.path().join(name), reason))?;
    Ok(true)
}

/// Puts state and counts into `run.json`, unless the run was finished and nothing was changed.
fn mend_run(folder: &RunFolder, report: &mut RecoverReport) -> Result<(), FolderError> {
    let read = folder.read_run();
    let mut run = match read {
        Ok(Value::Object(run)) => run,
        Ok(_) | Err(FolderError::Text { .. }) => {
            let directory = folder.directory();
            let torn = free_name(directory, Path::new(RUN_FILE));
            directory.rename(Path::new(RUN_FILE), &torn)?;
            Map::new()
        }
        Err(FolderError::Missing(_)) => Map::new(),
        Err(error) => return Err(error),
    };
    // Temporary files that a crash left; run.json itself is whole.
    for left in ["new", "end"] {
        let _ = folder.directory().remove(&Path::new(RUN_FILE).with_extension(left));
    }
    let settled =
        matches!(run.get("state").and_then(Value::as_str), Some("finished" | "recovered"));
    if settled && !report.changed {
        return Ok(());
    }
    let recorded = recorded_by(&Value::Object(run.clone()));
    let earlier = run.get("recovered").and_then(|earlier| earlier.get("cuts")?.as_array().cloned());
    let mut cuts = earlier.unwrap_or_default();
    cuts.extend(report.cuts.iter().map(|cut| {
        json!({
            "file": name(&cut.file), "kept_bytes": cut.kept_bytes, "cut_bytes": cut.cut_bytes,
            "kept_as": cut.kept_as.as_deref().map(name),
        })
    }));
    let before = run.insert("state".to_owned(), json!("recovered"));
    if let Some(state) = before.filter(|state| state != "recovered") {
        if state == "running" {
            run.insert("status".to_owned(), json!(STATUS_WITHOUT_END));
            run.insert("sentence".to_owned(), json!(SENTENCE_WITHOUT_END));
        }
        run.insert("state_before".to_owned(), state);
    }
    let found = &report.found;
    let mut counts = json!({
        "batches": found.batches, "batches_missing": found.batches_missing,
        "events": found.events, "packets": found.packets, "bytes": found.bytes,
        "damages": found.damages.iter().map(damage_value).collect::<Vec<_>>(),
        "cuts": cuts,
    });
    // The contents that the run once had stay known, however often it is damaged and mended.
    if let Some(Held { batches, events, packets }) = recorded {
        counts["recorded"] = json!({ "batches": batches, "events": events, "packets": packets });
    }
    run.insert("recovered".to_owned(), counts);
    report.changed = true;
    folder.write_run(&Value::Object(run))
}

fn damage_value(damage: &Damage) -> Value {
    json!({
        "file": name(&damage.file), "start": damage.start, "bytes": damage.bytes,
        "batch": damage.batch, "reason": damage.reason,
    })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
