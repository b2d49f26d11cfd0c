//! `alarms.jsonl` of a run folder: one line for each change of an alarm, in the order of time.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use fluxline_daq::record::{FolderError, RunFolder};
use serde_json::{Value, json};

use super::table::{AlarmChange, Change};

/// The file of a run's alarms.
pub const ALARMS_FILE: &str = "alarms.jsonl";
/// Most lines of a run: a rule that chatters for a day fills no disk.
const LINES_MAX: u64 = 100_000;

/// The open file; made by the first change.
#[derive(Debug)]
pub struct AlarmLog {
    folder: RunFolder,
    file: Option<File>,
    lines: u64,
    /// A write failed: the run goes on without it.
    has_failed: bool,
}

impl AlarmLog {
    /// Makes the log of a run folder.
    pub fn new(folder: RunFolder) -> AlarmLog {
        AlarmLog { folder, file: None, lines: 0, has_failed: false }
    }

    /// Appends a change. Returns the sentence on the first failure.
    pub fn append(&mut self, change: &AlarmChange) -> Option<String> {
        if self.has_failed || self.lines >= LINES_MAX {
            return None;
        }
        self.lines += 1;
        let written = self.write(change);
        self.has_failed = written.is_err();
        let error = written.err()?;
        Some(format!("{ALARMS_FILE} cannot be written, so the run's alarms are not kept: {error}"))
    }

    fn write(&mut self, change: &AlarmChange) -> std::io::Result<()> {
        if self.file.is_none() {
            let made = self.folder.directory().create(Path::new(ALARMS_FILE));
            self.file = Some(made.map_err(std::io::Error::other)?);
        }
        let mut line = serde_json::to_vec(change)?;
        line.push(b'\n');
        match &mut self.file {
            Some(file) => file.write_all(&line),
            None => Ok(()),
        }
    }
}

/// An alarm that a run had, from its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedAlarm {
    /// The change that raised it, or made it worse.
    pub raised: AlarmChange,
    /// Its beginning \[ns since 1970\].
    pub since_ns: u64,
    /// Its end \[ns since 1970\]; `None`: the run ended before.
    pub cleared_ns: Option<u64>,
    /// The time at which a person saw it \[ns since 1970\].
    pub acknowledged_ns: Option<u64>,
}

impl RaisedAlarm {
    /// Returns the alarms of a run, the oldest first.
    #[must_use]
    pub fn of(changes: &[AlarmChange]) -> Vec<RaisedAlarm> {
        let mut alarms: Vec<RaisedAlarm> = Vec::new();
        for change in changes {
            let newest = alarms.iter_mut().rev().find(|alarm| alarm.raised.name == change.name);
            match (change.change, newest) {
                (Change::Raised, _) => alarms.push(RaisedAlarm {
                    raised: change.clone(),
                    since_ns: change.at_ns,
                    cleared_ns: None,
                    acknowledged_ns: None,
                }),
                (Change::Worse, Some(alarm)) => {
                    alarm.raised = change.clone();
                    alarm.acknowledged_ns = None;
                }
                (Change::Cleared, Some(alarm)) => alarm.cleared_ns = Some(change.at_ns),
                (Change::Acknowledged, Some(alarm)) => alarm.acknowledged_ns = Some(change.at_ns),
                _ => {}
            }
        }
        alarms
    }

    /// Returns it as the page has the alarms of a live run.
    #[must_use]
    pub fn document(&self) -> Value {
        json!({
            "name": self.raised.name,
            "severity": self.raised.severity,
            "state": if self.cleared_ns.is_none() { "active" } else { "cleared" },
            "ended": true,
            "acknowledged": self.acknowledged_ns.is_some(),
            "shelved_until_ns": null,
            "since_ns": self.since_ns,
            "cleared_ns": self.cleared_ns,
            "sentence": self.raised.sentence,
            "advice": self.raised.advice,
        })
    }
}

/// Reads the changes of a run's alarms; a last line without an end is torn, and left out. A run
/// without alarms has no file, and no changes.
///
/// # Errors
/// [`FolderError`]: the file cannot be read, or a line is not a change of an alarm.
pub fn read_alarms(folder: &RunFolder) -> Result<Vec<AlarmChange>, FolderError> {
    let bytes = match folder.directory().read(Path::new(ALARMS_FILE)) {
        Ok(bytes) => bytes,
        Err(FolderError::Missing(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let lines = bytes[..end].split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| FolderError::Text {
                file: folder.path().join(ALARMS_FILE),
                line: index + 1,
                reason: error.to_string(),
            })
        })
        .collect()
}
