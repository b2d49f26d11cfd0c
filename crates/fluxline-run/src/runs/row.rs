//! A run as a row of the list.

use std::path::{Path, PathBuf};

use fluxline_daq::record::{Marks, RunEnd, RunSummary};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::local_time;

/// A run of the list.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// The name of its folder.
    pub name: PathBuf,
    /// Its line.
    pub run: RunSummary,
    /// The time at which the list is made \[ns since 1970\].
    pub now_ns: u64,
}

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerdict {
    /// It is being recorded.
    Running,
    /// Everything that this host received is in the files.
    Complete,
    /// It finished, but look: status 7.
    Look,
    /// Recording stopped early: status 5.
    RecordingStopped,
    /// The ledger does not close: status 4.
    LedgerOpen,
    /// The program or the machine stopped during the run.
    NoEnd,
    /// It had no end, and was mended.
    Recovered,
    /// `run.json` is missing or cannot be read.
    Damaged,
    /// `run.json` does not say.
    Unknown,
}

impl RunVerdict {
    /// Returns its word in tables and on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunVerdict::Running => "running",
            RunVerdict::Complete => "complete",
            RunVerdict::Look => "look",
            RunVerdict::RecordingStopped => "recording-stopped",
            RunVerdict::LedgerOpen => "ledger-open",
            RunVerdict::NoEnd => "no-end",
            RunVerdict::Recovered => "recovered",
            RunVerdict::Damaged => "damaged",
            RunVerdict::Unknown => "unknown",
        }
    }
}

impl RunRow {
    /// Returns the verdict.
    #[must_use]
    pub fn verdict(&self) -> RunVerdict {
        if self.run.fault.is_some() {
            return RunVerdict::Damaged;
        }
        match (self.run.end, self.run.status) {
            (RunEnd::Running, _) => RunVerdict::Running,
            (RunEnd::Killed, _) => RunVerdict::NoEnd,
            (RunEnd::Recovered, _) => RunVerdict::Recovered,
            (_, Some(4)) => RunVerdict::LedgerOpen,
            (RunEnd::RecordingStopped, _) | (_, Some(5)) => RunVerdict::RecordingStopped,
            (_, Some(7)) => RunVerdict::Look,
            (RunEnd::Finished, Some(0)) => RunVerdict::Complete,
            _ => RunVerdict::Unknown,
        }
    }

    /// Returns the length \[s\], of a run that goes on so far.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let ended_ns = match self.run.end {
            RunEnd::Running => Some(self.now_ns),
            _ => self.run.ended_ns,
        };
        Some(ended_ns?.saturating_sub(self.run.began_ns?) as f64 * 1e-9)
    }

    /// Returns the key that sorts names: numbers by value, before other names.
    #[must_use]
    pub fn order_of_name(&self) -> (u64, &Path) {
        let number = self.name.to_str().and_then(|name| name.parse().ok());
        (number.unwrap_or(u64::MAX), &self.name)
    }

    /// Returns the name of its folder as text.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Returns it as JSON; `runs` is the folder of the list.
    #[must_use]
    pub fn document(&self, runs: &Path) -> Value {
        let run = &self.run;
        let mut document = marks_document(&run.marks);
        let marks_fault = document["fault"].take();
        let more = json!({
            "name": self.name(),
            "path": runs.join(&self.name).to_string_lossy(),
            "experiment": run.experiment,
            "shot": run.shot,
            "began_ns": run.began_ns,
            "start": run.began_ns.map(local_time::iso),
            "ended_ns": run.ended_ns,
            "seconds": self.seconds(),
            "events": run.events,
            "incomplete": run.incomplete,
            "lost": run.lost,
            "bytes": run.file_bytes,
            "verdict": self.verdict().word(),
            "status": run.status,
            "sentence": run.sentence,
            "notes": run.notes,
            "fault": run.fault,
            "marks_fault": marks_fault,
            "archived_at": run.archive.as_ref().map(|archive| &archive.target),
            "files_removed": run.archive.as_ref().is_some_and(|archive| archive.removed),
        });
        if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
            document.extend(more);
        }
        document
    }

    /// Returns true when one of its texts has `text`, which is in lower case.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        let run = &self.run;
        let name = self.name();
        let texts =
            [Some(name.as_str()), run.experiment.as_deref(), Some(run.marks.comment_text())];
        let lists = run.notes.iter().chain(&run.marks.tags).map(String::as_str);
        texts.into_iter().flatten().chain(lists).any(|of| of.to_lowercase().contains(text))
    }
}

/// Returns tags and comment as JSON.
#[must_use]
pub fn marks_document(marks: &Marks) -> Value {
    let comment = marks.comment.as_ref();
    json!({
        "tags": marks.tags,
        "comment": comment.map(|comment| &comment.text),
        "comment_by": comment.map(|comment| &comment.author.user),
        "comment_at_ns": comment.map(|comment| comment.author.at_ns),
        "fault": marks.fault,
    })
}
