//! The list of the runs in a folder, as a table, as CSV and as JSON.

use std::fmt::Write;
use std::path::Path;

use fluxline_run::runs::{RunFilter, RunList, RunRow};
use serde_json::json;

use super::row::{HEADS, IS_NUMBER, columns, values};
use crate::failure::Failure;
use crate::runs_arguments::ListArguments;
use crate::{inform, say_text};

/// Lists the runs that the arguments ask for.
pub fn list(arguments: &ListArguments, json: bool) -> Result<(), Failure> {
    let runs = &arguments.folder;
    let filter = RunFilter {
        search: arguments.search.clone(),
        tags: arguments.tag.clone(),
        since: arguments.since,
        until: arguments.until,
        verdicts: arguments.status.clone(),
        sort: arguments.sort,
        reverse: arguments.reverse,
        limit: arguments.limit,
    };
    let RunList { rows, matching, all, links } = fluxline_run::runs::list(runs, &filter)?;
    if json {
        let documents: Vec<_> = rows.iter().map(|row| row.document(runs)).collect();
        crate::output::print_json(&json!({
            "folder": runs.to_string_lossy(), "runs": documents, "matching": matching,
            "all": all, "links": links,
        }));
    } else if arguments.csv {
        say_text!("{}", csv(&rows));
    } else {
        say_text!("{}", table(&rows));
        inform!("{}", closing(runs, rows.len(), all, links));
    }
    Ok(())
}

/// Returns the sentence below the table.
fn closing(runs: &Path, shown: usize, all: usize, links: usize) -> String {
    let mut out = format!("{shown} of {all} runs in {}", runs.display());
    if links > 0 {
        let _ = write!(out, "; {links} links in it are not followed");
    }
    out.push('.');
    out
}

/// Returns the rows as a table for people; columns that nobody uses are narrow.
fn table(rows: &[RunRow]) -> String {
    let lines: Vec<_> = rows.iter().map(columns).collect();
    let mut widths = HEADS.map(|head| head.chars().count());
    for line in &lines {
        for (width, text) in widths.iter_mut().zip(line) {
            *width = (*width).max(text.chars().count());
        }
    }
    let mut out = String::new();
    let heads = HEADS.map(str::to_owned);
    for line in std::iter::once(&heads).chain(&lines) {
        let mut text = String::new();
        for (column, of) in line.iter().enumerate() {
            let space = widths[column] - of.chars().count();
            let (before, after) = if IS_NUMBER[column] { (space, 0) } else { (0, space) };
            let _ = write!(text, "{:before$}{of}{:after$}  ", "", "");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

/// Returns the rows as comma-separated values (RFC 4180).
fn csv(rows: &[RunRow]) -> String {
    let quoted = |text: &String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.clone(),
    };
    let mut out = format!("{}\n", HEADS.join(","));
    for row in rows {
        let values: Vec<_> = values(row).iter().map(quoted).collect();
        let _ = writeln!(out, "{}", values.join(","));
    }
    out
}
