//! The ledger for people: an aligned table for the terminal.
//!
//! It gives the place of every received datagram, twice: for all inputs together, with the
//! remedies, and for each source. The rows add up, and a column is left out only where all of it is
//! zero.

use std::fmt::Write;

use fluxline_core::counters::Row;

use super::outcome::{Counted, OUTCOMES, Outcome};
use super::{LawResult, Ledger, SourceCounters, SourceEntry};

/// Most sources that a table shows.
const SOURCES_SHOWN_MAX: usize = 64;
/// Most missing ranges that a table shows per source.
const RANGES_SHOWN_MAX: usize = 8;
/// The properties of a source's packets, beside the place where they ended.
const QUALITIES: [&str; 8] = [
    "lost",
    "board_dropped",
    "reordered",
    "restarts",
    "unsequenced",
    "in_complete",
    "in_incomplete",
    "in_late",
];
/// The mark between the places, which add up to `parsed`, and the qualities.
const DIVIDER: &str = "|";

impl Ledger {
    /// Returns the ledger as a table: the places of all received data, a line per source, other
    /// counters that are not zero, and the places of lost packets. [`Self::closing`] belongs below
    /// it.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.received_lines(&mut out);
        self.source_lines(&mut out);
        self.missing_lines(&mut out);
        self.board_lines(&mut out);
        for entry in &self.inputs {
            nonzero(&mut out, &format!("input {}", entry.name), entry.counters.rows());
            let place = format!("remote writes of {}", entry.name);
            nonzero(&mut out, &place, entry.remote.rows());
        }
        nonzero(&mut out, "builder", self.builder.rows());
        nonzero(&mut out, "armed or paused", self.paused.rows());
        nonzero(&mut out, "filter", self.filter.rows());
        let feedback = self.feedback.clone().unwrap_or_default();
        nonzero(&mut out, "loop", feedback.rows());
        nonzero(&mut out, "host", self.host.rows());
        self.reject_lines(&mut out);
        self.lost_lines(&mut out);
        out
    }

    /// Returns the result of the laws, in a line or more.
    #[must_use]
    pub fn closing(&self) -> String {
        let mut out = String::new();
        let results = self.check();
        for result in results.iter().filter(|result| !result.holds()) {
            let _ = writeln!(
                out,
                "THE LEDGER DOES NOT CLOSE: {}: {} is not {}",
                result.name, result.left, result.right
            );
        }
        if results.iter().all(LawResult::holds) {
            let _ = writeln!(
                out,
                "the ledger closes: {} laws hold, every received datagram is in exactly one place",
                results.len()
            );
        }
        out
    }

    /// Writes the places of all received data, with the remedies. The indented datagrams add up to
    /// the first line.
    fn received_lines(&self, out: &mut String) {
        let outcomes = self.outcomes();
        let (datagrams, frames): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|outcome| outcome.row.of == Counted::Datagrams);
        let words = outcomes.iter().map(|outcome| outcome.row.words.len());
        let width = words.chain(["received".len()]).max().unwrap_or(0) + 2;
        let received = self.received();
        let digits = received.to_string().len();
        let _ = writeln!(out, "{:<width$}  {received} datagrams", "received");
        let mut line = |outcome: &Outcome, unit: &str| {
            let words = format!("  {}", outcome.row.words);
            let text =
                format!("{words:<width$}  {:>digits$}{unit}  {}", outcome.count, outcome.remedy());
            let _ = writeln!(out, "{}", text.trim_end());
        };
        datagrams.iter().for_each(|outcome| line(outcome, ""));
        frames.iter().for_each(|outcome| line(outcome, " frames"));
        out.push('\n');
    }

    fn source_lines(&self, out: &mut String) {
        // A column of zeros is left out, except for the three most important columns.
        let always = ["parsed", "recorded", "lost"];
        let totals = self.source_totals();
        let is_shown = |name: &&str| always.contains(name) || value_of(&totals, name) > 0;
        let ends = OUTCOMES.iter().filter_map(|row| Some((row.words, row.source_counter()?)));
        let mut columns = vec![("parsed", Column::Counter("parsed"))];
        columns.extend(
            ends.filter(|(_, name)| is_shown(name))
                .map(|(words, name)| (words, Column::Counter(name))),
        );
        columns.push((DIVIDER, Column::Divider));
        columns.extend(
            QUALITIES
                .iter()
                .filter(|name| is_shown(name))
                .map(|name| (*name, Column::Counter(name))),
        );
        let heads = columns.iter().map(|(words, _)| words.replace('_', " "));
        let mut lines = vec![row_of("source", heads)];
        let cells = |counters: &SourceCounters| -> Vec<String> {
            columns.iter().map(|(_, column)| column.cell(counters)).collect()
        };
        let (shown, more) = self.sources.split_at(self.sources.len().min(SOURCES_SHOWN_MAX));
        lines.extend(shown.iter().map(|entry| row_of(&entry.label, cells(&entry.counters))));
        if !more.is_empty() {
            lines.push(row_of(&format!("({} more)", more.len()), cells(&sum(more))));
        }
        lines.push(row_of("all", cells(&totals)));
        out.push_str(&align(&lines));
    }

    fn missing_lines(&self, out: &mut String) {
        for entry in self.sources.iter().take(SOURCES_SHOWN_MAX) {
            if entry.missing.is_empty() && entry.missing_not_listed == 0 {
                continue;
            }
            let mut shown: Vec<String> = entry
                .missing
                .iter()
                .take(RANGES_SHOWN_MAX)
                .map(|range| match range.first == range.last {
                    true => range.first.to_string(),
                    false => format!("{}-{}", range.first, range.last),
                })
                .collect();
            if entry.missing.len() > RANGES_SHOWN_MAX || entry.missing_not_listed > 0 {
                shown.push("…".to_owned());
            }
            let _ = writeln!(out, "{}: missing {}", entry.label, shown.join(", "));
        }
    }

    /// Writes the boards' own counts: from the samples to the packets that they sent.
    fn board_lines(&self, out: &mut String) {
        let Some(boards) = self.boards() else { return };
        let totals = boards.source_totals();
        let _ = writeln!(
            out,
            "boards: took {} blocks = dropped in the board's FIFO {} + sent by the board {}",
            totals.board_taken, totals.board_dropped, totals.expected
        );
        if totals.board_contradictions > 0 {
            let _ = writeln!(
                out,
                "note: the boards' counts contradict the packet counters at {} packets",
                totals.board_contradictions
            );
        }
    }

    fn reject_lines(&self, out: &mut String) {
        for entry in &self.rejects {
            let _ = writeln!(
                out,
                "rejected: {} packets, {} (packet type {}, field {}), first {} bytes from {}: {}",
                entry.packets,
                entry.reason,
                entry.packet,
                entry.field,
                entry.first_bytes,
                entry.first_sender,
                entry.first_hex
            );
        }
    }

    fn lost_lines(&self, out: &mut String) {
        let places = self.lost_places();
        if places.lost == 0 && places.note.is_empty() {
            return;
        }
        let remote = match (places.overrun, places.frames) {
            (0, 0) => String::new(),
            (overrun, frames) => format!(" + overrun {overrun} + frames refused {frames}"),
        };
        let _ = writeln!(
            out,
            "lost: {} packets = push ring {}{} + socket {} + softnet {} + network card {} + \
             rejected {} + before this host or unknown {}",
            places.lost,
            places.ring,
            remote,
            places.socket,
            places.softnet,
            places.nic,
            places.rejected,
            places.elsewhere
        );
        if !places.note.is_empty() {
            let _ = writeln!(out, "note: {}", places.note);
        }
    }
}

/// A column of the table of sources.
enum Column {
    Counter(&'static str),
    Divider,
}

impl Column {
    fn cell(&self, counters: &SourceCounters) -> String {
        match self {
            Column::Counter(name) => value_of(counters, name).to_string(),
            Column::Divider => DIVIDER.to_owned(),
        }
    }
}

fn value_of(counters: &SourceCounters, name: &str) -> u64 {
    counters.rows().find(|row| row.0.name == name).map_or(0, |row| row.1)
}

fn sum(entries: &[SourceEntry]) -> SourceCounters {
    let mut sum = SourceCounters::default();
    entries.iter().for_each(|entry| sum.merge(&entry.counters));
    sum
}

fn row_of(first: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(cells).collect()
}

/// Returns lines of cells as a table: the first column to the left, numbers to the right.
#[must_use]
pub fn align(lines: &[Vec<String>]) -> String {
    let mut out = String::new();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:<width$}", width = widths[0]),
                _ => write!(text, "  {cell:>width$}", width = widths[column]),
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

fn nonzero<'a>(out: &mut String, place: &str, rows: impl Iterator<Item = (&'a Row, u64)>) {
    let shown: Vec<String> = rows
        .filter(|row| row.1 > 0)
        .map(|(row, value)| format!("{} {value}", row.name.replace('_', " ")))
        .collect();
    if !shown.is_empty() {
        let _ = writeln!(out, "{place}: {}", shown.join(", "));
    }
}
