//! A run as a row of the list: its columns for people, for tables of other programs, and as JSON.

use std::path::{Path, PathBuf};

use fluxline_daq::record::{RunEnd, RunSummary};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use crate::local_time;
use crate::output::escaped_line;
use crate::runs_arguments::RunVerdict;

/// The widest column of a name or a list of tags \[character\].
const NAME_WIDTH: usize = 28;
/// The widest column of comments \[character\].
const COMMENT_WIDTH: usize = 60;
/// The heads of the columns, for people and for tables.
pub const HEADS: [&str; 12] = [
    "run",
    "experiment",
    "shot",
    "start",
    "length",
    "events",
    "incomplete",
    "lost",
    "size",
    "verdict",
    "tags",
    "comment",
];
/// The columns of numbers, which are aligned to the right.
pub const IS_NUMBER: [bool; 12] =
    [false, false, true, false, true, true, true, true, true, false, false, false];

/// A run of the list.
pub struct Row {
    /// The name of its folder.
    pub name: PathBuf,
    /// Its line.
    pub run: RunSummary,
    /// The time at which the list is made \[ns since 1970\].
    pub now_ns: u64,
}

impl Row {
    /// Returns the verdict.
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
    pub fn seconds(&self) -> Option<f64> {
        let ended_ns = match self.run.end {
            RunEnd::Running => Some(self.now_ns),
            _ => self.run.ended_ns,
        };
        Some(ended_ns?.saturating_sub(self.run.began_ns?) as f64 * 1e-9)
    }

    /// Returns the key that sorts names: numbers by value, before other names.
    pub fn order_of_name(&self) -> (u64, &Path) {
        let number = self.name.to_str().and_then(|name| name.parse().ok());
        (number.unwrap_or(u64::MAX), &self.name)
    }

    /// Returns the name of its folder as text.
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Returns the first line of the comment, or the fault of a file in its place.
    fn remark(&self) -> &str {
        let fault = self.run.fault.as_deref().or(self.run.marks.fault.as_deref());
        fault.unwrap_or_else(|| self.run.marks.comment_text()).lines().next().unwrap_or_default()
    }

    /// Returns its columns for people.
    pub fn columns(&self) -> [String; 12] {
        let count =
            |number: Option<u64>| number.map_or("-".into(), |of| HumanCount(of).to_string());
        let run = &self.run;
        // The sentence of a fault is whole: it says what to do.
        let remark_width =
            if self.verdict() == RunVerdict::Damaged { usize::MAX } else { COMMENT_WIDTH };
        [
            cut(&self.name(), NAME_WIDTH),
            cut(run.experiment.as_deref().unwrap_or("-"), NAME_WIDTH),
            run.shot.map_or("-".into(), |shot| shot.to_string()),
            run.began_ns.map_or("-".into(), local_time::iso),
            self.seconds().map_or("-".into(), local_time::length),
            count(run.events),
            count(run.incomplete),
            count(run.lost),
            HumanBytes(run.file_bytes).to_string(),
            self.verdict().word().to_owned(),
            cut(&run.marks.tags.join(" "), NAME_WIDTH),
            cut(self.remark(), remark_width),
        ]
    }

    /// Returns its columns for tables of other programs: lengths in seconds, sizes in bytes.
    pub fn values(&self) -> [String; 12] {
        let number = |number: Option<u64>| number.map(|of| of.to_string()).unwrap_or_default();
        let run = &self.run;
        [
            self.name(),
            run.experiment.clone().unwrap_or_default(),
            number(run.shot),
            run.began_ns.map(local_time::iso).unwrap_or_default(),
            self.seconds().map(|seconds| format!("{seconds:.3}")).unwrap_or_default(),
            number(run.events),
            number(run.incomplete),
            number(run.lost),
            run.file_bytes.to_string(),
            self.verdict().word().to_owned(),
            run.marks.tags.join(" "),
            self.remark().to_owned(),
        ]
    }

    /// Returns it as JSON; `runs` is the folder of the list.
    pub fn document(&self, runs: &Path) -> Value {
        let run = &self.run;
        let mut document = super::marks_document(&run.marks);
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
        });
        if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
            document.extend(more);
        }
        document
    }

    /// Returns true when one of its texts has `text`, which is in lower case.
    pub fn has(&self, text: &str) -> bool {
        let run = &self.run;
        let name = self.name();
        let texts =
            [Some(name.as_str()), run.experiment.as_deref(), Some(run.marks.comment_text())];
        let lists = run.notes.iter().chain(&run.marks.tags).map(String::as_str);
        texts.into_iter().flatten().chain(lists).any(|of| of.to_lowercase().contains(text))
    }
}

/// Returns a text as one line of at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    let text = escaped_line(text);
    match text.char_indices().nth(width) {
        None => text.into_owned(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}
