//! A run as a row of the list: its columns for people, and for tables of other programs.

use std::borrow::Cow;

use fluxline_run::runs::{RunRow, RunVerdict};
use indicatif::{HumanBytes, HumanCount};

use crate::local_time;
use crate::output::escaped_line;

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

/// Returns the first line of the comment, or the fault of a file in its place; before it the
/// place of the archive, if the files are only there.
fn remark(row: &RunRow) -> Cow<'_, str> {
    let fault = row.run.fault.as_deref().or(row.run.marks.fault.as_deref());
    let text = fault.unwrap_or_else(|| row.run.marks.comment_text());
    let line = text.lines().next().unwrap_or_default();
    match row.run.archive.as_ref().filter(|archive| archive.removed) {
        None => line.into(),
        Some(archive) if line.is_empty() => format!("archived at {}", archive.target).into(),
        Some(archive) => format!("archived at {}; {line}", archive.target).into(),
    }
}

/// Returns the columns of a run for people.
pub fn columns(row: &RunRow) -> [String; 12] {
    let count = |number: Option<u64>| number.map_or("-".into(), |of| HumanCount(of).to_string());
    let run = &row.run;
    // The sentence of a fault and the place of an archive are whole: they say what to do.
    let is_removed = run.archive.as_ref().is_some_and(|archive| archive.removed);
    let is_whole = row.verdict() == RunVerdict::Damaged || is_removed;
    let remark_width = if is_whole { usize::MAX } else { COMMENT_WIDTH };
    [
        cut(&row.name(), NAME_WIDTH),
        cut(run.experiment.as_deref().unwrap_or("-"), NAME_WIDTH),
        run.shot.map_or("-".into(), |shot| shot.to_string()),
        run.began_ns.map_or("-".into(), local_time::iso),
        row.seconds().map_or("-".into(), local_time::length),
        count(run.events),
        count(run.incomplete),
        count(run.lost),
        HumanBytes(run.file_bytes).to_string(),
        row.verdict().word().to_owned(),
        cut(&run.marks.tags.join(" "), NAME_WIDTH),
        cut(&remark(row), remark_width),
    ]
}

/// Returns the columns of a run for tables of other programs: lengths in seconds, sizes in bytes.
pub fn values(row: &RunRow) -> [String; 12] {
    let number = |number: Option<u64>| number.map(|of| of.to_string()).unwrap_or_default();
    let run = &row.run;
    [
        row.name(),
        run.experiment.clone().unwrap_or_default(),
        number(run.shot),
        run.began_ns.map(local_time::iso).unwrap_or_default(),
        row.seconds().map(|seconds| format!("{seconds:.3}")).unwrap_or_default(),
        number(run.events),
        number(run.incomplete),
        number(run.lost),
        run.file_bytes.to_string(),
        row.verdict().word().to_owned(),
        run.marks.tags.join(" "),
        remark(row).into_owned(),
    ]
}

/// Returns a text as one line of at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    let text = escaped_line(text);
    match text.char_indices().nth(width) {
        None => text.into_owned(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}
