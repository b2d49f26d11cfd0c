//! A report as lines for a terminal.

use super::hosts::sentences;
use super::warnings;
use super::words::{self, quantity};
use crate::result::{Experiment, Fact, Report};
use crate::statistics::Summary;

/// Writes warnings, facts and limits; marks incomplete experiments.
#[must_use]
pub fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = warnings(report).iter().map(|one| format!("! {one}")).collect();
    lines.extend(sentences(report));
    let facts = report.experiments.iter().flat_map(|one| &one.facts);
    let widest = facts.map(|fact| fact.label.chars().count()).max().unwrap_or(0);
    for experiment in &report.experiments {
        lines.push(String::new());
        lines.extend(of(experiment, widest));
    }
    lines
}

fn of(experiment: &Experiment, widest: usize) -> Vec<String> {
    let mut lines = vec![experiment.name.clone()];
    lines.extend(experiment.facts.iter().filter_map(|fact| line(fact, widest)));
    let indented = |text: String| format!("  {text}");
    lines.extend(experiment.limit.lines().map(|line| indented(line.to_owned())));
    if !experiment.incomplete.is_empty() {
        lines.push(indented(format!("incomplete: {}", experiment.incomplete)));
    }
    lines
}

fn line(fact: &Fact, widest: usize) -> Option<String> {
    let summary = Summary::of(&fact.samples)?;
    let (value, spread) =
        (quantity(summary.median, &fact.unit), words::spread(&summary, &fact.unit));
    let beside = fact.beside.as_ref().map_or_else(String::new, |beside| {
        let ratio = fact.ratio().map_or_else(String::new, words::ratio);
        format!("  {ratio:>6} of {}", beside.label)
    });
    Some(format!("  {:<widest$}  {value:>18}  {spread:>10}{beside}", fact.label))
}
