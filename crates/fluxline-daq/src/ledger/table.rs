//! The ledger for people: an aligned table for the terminal, and the page that explains the
//! counters.

use std::fmt::Write;

use fluxline_proto::counters::{Merge, Row};

use super::{
    BuilderCounters, HostCounters, InputCounters, Ledger, Needs, RemoteWriteCounters,
    SourceCounters,
};

/// How many sources and missing ranges a table shows.
const SOURCES_SHOWN_MAX: usize = 64;
/// How many missing ranges a table shows per source.
const RANGES_SHOWN_MAX: usize = 8;

impl Ledger {
    /// The ledger as a table: a line per source, what is not zero elsewhere, where packets were
    /// lost, and the laws that do not hold.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.source_lines(&mut out);
        self.missing_lines(&mut out);
        for entry in &self.inputs {
            nonzero(&mut out, &format!("input {}", entry.name), entry.counters.rows());
            let place = format!("remote writes of {}", entry.name);
            nonzero(&mut out, &place, entry.remote.rows());
        }
        nonzero(&mut out, "builder", self.builder.rows());
        nonzero(&mut out, "host", self.host.rows());
        self.reject_lines(&mut out);
        self.lost_lines(&mut out);
        self.law_lines(&mut out);
        out
    }

    fn source_lines(&self, out: &mut String) {
        let names = [
            "parsed",
            "lost",
            "reordered",
            "duplicate",
            "late",
            "restarts",
            "in_complete",
            "in_incomplete",
            "in_late",
            "late_dropped",
            "event_duplicate",
            "inconsistent",
            "builder_full",
            "recorded",
            "write_failed",
        ];
        // A column of zeros says nothing, but for the three that everybody looks for.
        let totals = self.source_totals();
        let value_of = |counters: &SourceCounters, name: &str| {
            counters.rows().find(|row| row.0.name == name).map_or(0, |row| row.1)
        };
        let always = ["parsed", "lost", "recorded"];
        let names: Vec<&str> = names
            .into_iter()
            .filter(|name| always.contains(name) || value_of(&totals, name) > 0)
            .collect();
        let mut lines = vec![row_of("source", names.iter().map(|name| name.replace('_', " ")))];
        let cells = |counters: &SourceCounters| -> Vec<String> {
            names.iter().map(|name| value_of(counters, name).to_string()).collect()
        };
        for entry in self.sources.iter().take(SOURCES_SHOWN_MAX) {
            lines.push(row_of(&entry.label, cells(&entry.counters)));
        }
        if self.sources.len() > SOURCES_SHOWN_MAX {
            let more = format!("({} more)", self.sources.len() - SOURCES_SHOWN_MAX);
            lines.push(row_of(&more, []));
        }
        lines.push(row_of("all", cells(&totals)));
        align(out, &lines);
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

    fn law_lines(&self, out: &mut String) {
        let results = self.check();
        for result in results.iter().filter(|result| !result.holds()) {
            let _ = writeln!(
                out,
                "THE LEDGER DOES NOT CLOSE: {}: {} is not {}",
                result.name, result.left, result.right
            );
        }
        if results.iter().all(super::LawResult::holds) {
            let _ = writeln!(
                out,
                "the ledger closes: {} laws hold, every packet is in exactly one place",
                results.len()
            );
        }
    }
}

/// The page that explains every counter, in Markdown.
#[must_use]
pub fn counters_page() -> String {
    let mut out = String::from(
        "# Counters\n\nEvery counter of a run: what it counts, how the values of several places \
         become one, and\nwhat to do when it is not zero. This page is generated from the rows in \
         the code.\n",
    );
    page_section(
        &mut out,
        "Inputs",
        "One set per socket, capture or emulator.",
        InputCounters::ROWS,
    );
    let about = "One set per input that peers write into memory (RoCEv2).";
    page_section(&mut out, "Remote writes", about, RemoteWriteCounters::ROWS);
    page_section(&mut out, "Sources", "One set per source.", SourceCounters::ROWS);
    page_section(&mut out, "Event builder", "One set per run.", BuilderCounters::ROWS);
    page_section(&mut out, "Host", "All traffic of the host during the run.", HostCounters::ROWS);
    out.push_str("\n## Laws\n\nChecked at the end of every run, and stored in run.json.\n\n");
    for law in super::LAWS {
        let when = match law.needs {
            Needs::Nothing => "",
            Needs::Truth => " (where an emulator says what it sent)",
            Needs::RemoteWrites => " (where peers write into memory)",
        };
        let _ = writeln!(
            out,
            "* {}{when}: `{}` = `{}`",
            law.name,
            law.left.join(" + "),
            law.right.join(" + ")
        );
    }
    out
}

fn page_section(out: &mut String, title: &str, about: &str, rows: &[Row]) {
    let _ = writeln!(out, "\n## {title}\n\n{about}\n");
    out.push_str("| counter | unit | merge | meaning | when it is not zero |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for row in rows {
        let merge = match row.merge {
            Merge::Sum => "sum",
            Merge::Maximum => "maximum",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {merge} | {} | {} |",
            row.name, row.unit, row.help, row.remedy
        );
    }
}

fn row_of(first: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(cells).collect()
}

/// Writes lines of cells: the first column to the left, numbers to the right.
fn align(out: &mut String, lines: &[Vec<String>]) {
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
