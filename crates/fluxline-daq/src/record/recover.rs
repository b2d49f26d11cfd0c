//! Mends a run whose program or machine died.
//!
//! A crash leaves complete batches, then possibly a piece of one. Other readers of Arrow stumble
//! over that piece. So it is moved into a file beside it (`events-000003.arrows.torn`, which may be
//! deleted), and the file gets its end mark. Counts are rebuilt from the batches. Proven data is
//! never changed, and a second recovery changes nothing. A crash during recovery loses nothing: the
//! piece is on the disk before it is cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::folder::{
    FolderError, RUN_FILE, RunFolder, SOURCES_FILE, SourceLine, complete_lines_bytes, sync_folder,
};
use super::integrity::{Held, Integrity, recorded_by};
use super::lock::lock;
use super::message::END_OF_STREAM;
use super::reader::{Damage, ReadError, ReadReport, RunReader, explain};
use super::regular::{Access, open_regular, read_regular};
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

/// Mends the run in `path`; see the head of this file. Reads the whole run twice.
///
/// All changes are on the disk afterwards. Errors: [`RecoverError`]; the changes made until then
/// stay.
pub fn recover(path: &Path) -> Result<RecoverReport, RecoverError> {
    let folder = RunFolder::open(path)?;
    let running = |_| RecoverError::Running(folder.path().to_path_buf());
    let _lock = lock(&folder).map_err(running)?;
    let mut report = RecoverReport::default();
    let mut last_batch = None;
    for (_, file) in folder.event_files()? {
        // An unreadable file is left unchanged; the count below names it.
        let Ok(mut scan) = Scan::open(&file, last_batch) else { continue };
        if walk(&mut scan, &mut last_batch)? == Walked::ToTheEnd {
            mend_file(&scan, &mut report)?;
        }
    }
    report.changed |= mend_lines(&folder.path().join(SOURCES_FILE))?;
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

fn mend_file(scan: &Scan, report: &mut RecoverReport) -> Result<(), FolderError> {
    let file = open_regular(scan.path(), Access::Write)?;
    mend_open(scan, file, report).map_err(|reason| FolderError::explain(scan.path(), reason))
}

fn mend_open(scan: &Scan, mut file: File, report: &mut RecoverReport) -> io::Result<()> {
    let path = scan.path();
    let kept_bytes = scan.good_end();
    if scan.torn_bytes() > 0 {
        let kept_as = free_name(path);
        file.seek(SeekFrom::Start(kept_bytes))?;
        let mut torn = File::create_new(&kept_as)?;
        io::copy(&mut Read::by_ref(&mut file).take(scan.torn_bytes()), &mut torn)?;
        torn.sync_all()?;
        path.parent().map_or(Ok(()), sync_folder)?;
        let cut_bytes = scan.torn_bytes();
        let file = path.to_path_buf();
        report.cuts.push(Cut { file, kept_bytes, cut_bytes, kept_as: Some(kept_as) });
    } else if kept_bytes == 0 {
        let file = path.to_path_buf();
        report.cuts.push(Cut { file, kept_bytes, cut_bytes: 0, kept_as: None });
    }
    if kept_bytes == 0 {
        fs::remove_file(path)?;
        return path.parent().map_or(Ok(()), sync_folder);
    }
    file.set_len(kept_bytes)?;
    if !scan.has_end() {
        file.seek(SeekFrom::Start(kept_bytes))?;
        file.write_all(&END_OF_STREAM)?;
        report.ended.push(path.to_path_buf());
    }
    file.sync_all()
}

fn free_name(path: &Path) -> PathBuf {
    let name = |suffix: String| PathBuf::from(format!("{}{suffix}", path.display()));
    let mut free = name(".torn".to_owned());
    let mut number = 2;
    while free.exists() {
        free = name(format!(".torn-{number}"));
        number += 1;
    }
    free
}

/// Completes the last line if it only lacks its end, otherwise cuts it off; returns true if it
/// changed the file.
fn mend_lines(path: &Path) -> Result<bool, FolderError> {
    let bytes = match read_regular(path) {
        // An absent file cannot be mended; the check of the run names it.
        Err(FolderError::Missing(_) | FolderError::NotAFile { .. }) => return Ok(false),
        read => read?,
    };
    mend_last_line(path, &bytes).map_err(|reason| FolderError::explain(path, reason))
}

fn mend_last_line(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let complete = complete_lines_bytes(bytes);
    let last = &bytes[complete..];
    if last.is_empty() {
        return Ok(false);
    }
    let mut file = OpenOptions::new().append(true).open(path)?;
    if serde_json::from_slice::<SourceLine>(last).is_ok() {
        file.write_all(b"\n")?;
    } else {
        file.set_len(complete as u64)?;
    }
    file.sync_all()?;
    Ok(true)
}

/// Puts state and counts into `run.json`, unless the run was finished and nothing was changed.
fn mend_run(folder: &RunFolder, report: &mut RecoverReport) -> Result<(), FolderError> {
    let read = folder.read_run();
    let mut run = match read {
        Ok(Value::Object(run)) => run,
        Ok(_) | Err(FolderError::Text { .. }) => {
            let path = folder.path().join(RUN_FILE);
            fs::rename(&path, path.with_extension("json.torn"))
                .map_err(|reason| FolderError::explain(&path, reason))?;
            Map::new()
        }
        Err(FolderError::Missing(_)) => Map::new(),
        Err(error) => return Err(error),
    };
    // A temporary file that a crash left; run.json itself is whole.
    let _ = fs::remove_file(folder.path().join(RUN_FILE).with_extension("new"));
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
