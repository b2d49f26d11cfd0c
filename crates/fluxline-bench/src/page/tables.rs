//! The tables of a section.

use fluxline_report::{Cell, Table};

use super::words::{self, quantity};
use crate::result::Fact;
use crate::statistics::Summary;

/// Makes a table.
pub(super) fn table(title: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Table { title: title.to_owned(), columns, rows }
}

/// Lists the facts: columns that would be empty are left out.
pub(super) fn facts(facts: &[Fact]) -> Table {
    let count = facts.first().map_or(0, |fact| fact.samples.len());
    let is_alike = facts.iter().all(|fact| fact.samples.len() == count);
    let is_single = is_alike && count == 1;
    let spread = format!("spread of {count} samples");
    let has_floors = facts.iter().any(|fact| fact.beside.is_some());
    let mut columns = vec!["", if is_single { "one sample" } else { "median" }];
    if !is_single {
        columns.push(if is_alike { &spread } else { "spread" });
    }
    if !is_alike {
        columns.push("samples");
    }
    if has_floors {
        columns.extend(["ratio", "beside", ""]);
    }
    let row = |fact: &Fact| {
        let summary = Summary::of(&fact.samples)?;
        let mut row = vec![Cell::Text(fact.label.clone())];
        row.push(Cell::Number(quantity(summary.median, &fact.unit)));
        if !is_single {
            row.push(Cell::Number(words::spread(&summary, &fact.unit)));
        }
        if !is_alike {
            row.push(Cell::Number(summary.count.to_string()));
        }
        if has_floors {
            row.extend(floor(fact));
        }
        Some(row)
    };
    table("", &columns, facts.iter().filter_map(row).collect())
}

/// The ratio, the floor's name, and its number.
fn floor(fact: &Fact) -> [Cell; 3] {
    let Some(beside) = &fact.beside else {
        return [
            Cell::Number(String::new()),
            Cell::Text(String::new()),
            Cell::Number(String::new()),
        ];
    };
    [
        Cell::Number(fact.ratio().map_or_else(String::new, words::ratio)),
        Cell::Text(beside.label.clone()),
        Cell::Number(quantity(beside.value(), &fact.unit)),
    ]
}

/// Lists the limits of an experiment that has several: one line of `limit` each.
pub(super) fn limits(lines: &str) -> Table {
    let row = |line: &str| {
        let (what, limit) = line.split_once(": ").unwrap_or(("", line));
        vec![Cell::Text(what.to_owned()), Cell::Text(limit.to_owned())]
    };
    table("What limits", &["", "limit"], lines.lines().map(row).collect())
}
