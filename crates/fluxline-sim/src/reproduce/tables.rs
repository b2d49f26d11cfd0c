//! The tables of a comparison, for the page, the terminal and the manual.

use fluxline_report::{Cell, Table};

use super::fact::Fact;
use super::judge::{Judged, Verdict};
use super::parameter::{Origin, Parameter};
use super::set::{Comparison, Gap, Source, Trials};

/// The mark in the column of a fact's verdict.
const MARK: &str = "yes";

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

/// Returns a number with three significant digits.
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "none".to_string();
    }
    let size = value.abs();
    match size {
        0.0 => "0".to_string(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn published(fact: &Fact) -> String {
    let (least, most) = (*fact.published.start(), *fact.published.end());
    let number = match most {
        most if least == most || most.is_infinite() => format!("{least}"),
        most => format!("{least} to {most}"),
    };
    let unit = if fact.unit.is_empty() { String::new() } else { format!(" {}", fact.unit) };
    let open = if most.is_infinite() { " or more" } else { "" };
    format!("{number}{unit}{open}")
}

fn deviation(judged: &Judged) -> String {
    if judged.deviation == 0.0 && judged.finding.fact.is_shape() {
        return "inside".to_string();
    }
    format!("{:+.1} %", 100.0 * judged.deviation)
}

fn fact_row(judged: &Judged) -> Vec<Cell> {
    let fact = judged.finding.fact;
    let mut row = vec![
        text(format!("{}, {}", fact.source, fact.place)),
        text(fact.statement),
        Cell::Number(published(fact)),
        Cell::Number(digits(judged.finding.model)),
        Cell::Number(deviation(judged)),
    ];
    row.extend(Verdict::ALL.map(|verdict| match (verdict == judged.verdict, verdict) {
        (false, _) => text(""),
        (true, Verdict::Predicted) => Cell::Good(MARK.to_string()),
        (true, Verdict::Calibrated) => text(MARK),
        (true, Verdict::Missed) => Cell::Bad(MARK.to_string()),
    }));
    row
}

/// Returns the table of all facts; each has a mark in exactly one of the last three columns.
pub fn facts(comparison: &Comparison) -> Table {
    let names = ["source", "fact", "published", "model", "off by"];
    let verdicts = Verdict::ALL.map(Verdict::name);
    Table {
        title: "Facts".to_string(),
        columns: columns(&[&names[..], &verdicts[..]].concat()),
        rows: comparison.facts.iter().map(fact_row).collect(),
    }
}

fn parameter_row(one: &Parameter) -> Vec<Cell> {
    let facts = one.facts.iter();
    let facts: Vec<String> = facts.map(|fact| format!("{}, {}", fact.source, fact.place)).collect();
    let reason = match facts.is_empty() {
        true => one.reason.to_string(),
        false => format!("{} ({})", one.reason, facts.join("; ")),
    };
    vec![
        text(one.machine),
        text(one.name),
        Cell::Number(one.value.clone()),
        text(one.origin.name()),
        text(reason),
    ]
}

/// Returns the table of parameters.
pub fn parameters(comparison: &Comparison) -> Table {
    Table {
        title: "Parameters".to_string(),
        columns: columns(&["model", "parameter", "value", "origin", "statement or reason"]),
        rows: comparison.parameters.iter().map(parameter_row).collect(),
    }
}

/// Returns the table of the origins' meanings, with the number of parameters.
pub fn origins(comparison: &Comparison) -> Table {
    let count = |origin| {
        let parameters = comparison.parameters.iter();
        parameters.filter(|parameter| parameter.origin == origin).count()
    };
    let row = |origin: Origin| {
        vec![text(origin.name()), text(origin.about()), Cell::Number(count(origin).to_string())]
    };
    Table {
        title: "Origins".to_string(),
        columns: columns(&["origin", "meaning", "parameters"]),
        rows: Origin::ALL.map(row).to_vec(),
    }
}

/// Returns the table of statements that the model cannot confirm or deny.
pub fn gaps(comparison: &Comparison) -> Table {
    let row = |gap: &Gap| vec![text(gap.source), text(gap.statement), text(gap.reason)];
    Table {
        title: "Beyond the model".to_string(),
        columns: columns(&["source", "statement", "reason"]),
        rows: comparison.set.gaps.iter().map(row).collect(),
    }
}

/// Returns the table of sources.
pub fn sources(comparison: &Comparison) -> Table {
    let row = |source: &Source| vec![text(source.name), text(source.title)];
    Table {
        title: "Sources".to_string(),
        columns: columns(&["name", "title"]),
        rows: comparison.set.sources.iter().map(row).collect(),
    }
}

/// Returns the table of variants.
pub fn trials(trials: &Trials) -> Table {
    let cell = |(at, value): (usize, &String)| match at {
        0 => text(value.clone()),
        _ => Cell::Number(value.clone()),
    };
    Table {
        title: trials.title.to_string(),
        columns: trials.columns.clone(),
        rows: trials.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect(),
    }
}
