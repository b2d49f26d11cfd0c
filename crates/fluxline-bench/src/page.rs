//! A report as a page: first the numbers that matter and what limits them, then every experiment
//! with its curves, last the machines.

use std::collections::BTreeSet;

use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, Page, Plot, Scale, Section, Style, Table,
};
use serde_json::Value;

use crate::peers::table;
use crate::result::{Contest, Experiment, Fact, Placement, Report, Series};
use crate::statistics::Summary;

mod hosts;

/// Which experiments' first facts are the headlines, by weight.
const HEADLINES: &[&str] =
    &["pingpong", "lossfree", "load", "stream", "datagrams", "rings", "messages"];
/// Headlines and sentences of the verdict at most.
const HEADLINES_MAX: usize = 3;
/// Curves of a plot at most. Source: [`Plot::curves`].
const CURVES_MAX: usize = 8;

/// The page of a report.
#[must_use]
pub fn page(report: &Report) -> Page {
    let mut sections: Vec<Section> = report.experiments.iter().map(section).collect();
    sections.extend(hosts::limits(report));
    sections.push(hosts::machines(report));
    Page {
        title: format!("fluxline bench {}", report.link),
        subtitle: subtitle(report),
        headlines: headlines(report),
        verdict: verdict(report),
        sections,
    }
}

fn subtitle(report: &Report) -> String {
    let near = &report.environment["near"];
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let (processor, kernel) = (text(&near["processor"]), text(&near["kernel"]));
    let at = utc(report.began_s);
    format!("{processor}, kernel {kernel}, {}, {at}, {}", report.program, report.link)
}

/// Seconds since 1970 as a date and time of day. Source of the calendar's arithmetic: H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms"; years begin in March there.
fn utc(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400 + 719_468, seconds / 60 % 1440);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

fn weighty(report: &Report) -> impl Iterator<Item = &Experiment> {
    let of = |name: &&str| report.experiments.iter().find(|one| one.name == **name);
    HEADLINES.iter().filter_map(of).filter(|one| !one.facts.is_empty())
}

fn headlines(report: &Report) -> Vec<Headline> {
    // One of each first, then what else the weightiest has.
    let first = weighty(report).map(|one| (one, 0));
    let further = weighty(report).flat_map(|one| (1..one.facts.len()).map(move |at| (one, at)));
    let headline = |(one, at): (&Experiment, usize)| {
        let fact = &one.facts[at];
        let summary = Summary::of(&fact.samples)?;
        let mut note = format!("{}, spread {}", one.name, percent(summary.spread()));
        if let Some(beside) = &fact.beside {
            note = format!("{note}; {}: {} {}", beside.label, short(beside.value()), fact.unit);
        }
        let value = format!("{} {}", short(summary.median), fact.unit);
        Some(Headline { label: fact.label.clone(), value, note })
    };
    first.chain(further).filter_map(headline).take(HEADLINES_MAX).collect()
}

fn verdict(report: &Report) -> String {
    let limits = weighty(report).filter(|one| !one.limit.is_empty());
    let mut sentences: Vec<String> =
        limits.take(2).map(|one| format!("{}: {}", one.name, one.limit)).collect();
    let broken = report.experiments.iter().filter(|one| !one.incomplete.is_empty());
    sentences.extend(broken.map(|one| format!("{} is incomplete: {}.", one.name, one.incomplete)));
    let notes = ["pinned", "interrupts"].map(|note| report.environment[note].as_str());
    sentences.extend(notes.into_iter().flatten().map(|note| format!("{note}.")));
    sentences.extend(hosts::sentence(report));
    sentences.join(" ")
}

fn section(experiment: &Experiment) -> Section {
    let mut text = experiment.about.clone();
    if !experiment.limit.is_empty() {
        text = format!("{text} What limits: {}", experiment.limit);
    }
    if !experiment.incomplete.is_empty() {
        text = format!("{text} Incomplete: {}.", experiment.incomplete);
    }
    let mut blocks = Vec::new();
    if !experiment.facts.is_empty() {
        blocks.push(Block::Table(facts(&experiment.facts)));
    }
    if !experiment.contests.is_empty() {
        blocks.push(Block::Table(contests(&experiment.contests)));
    }
    if !experiment.placements.is_empty() {
        blocks.push(Block::Table(placements(&experiment.placements)));
    }
    blocks.extend(plots(&[("", &experiment.series)]).into_iter().map(Block::Plot));
    Section { title: experiment.name.clone(), text, blocks }
}

fn facts(facts: &[Fact]) -> Table {
    let columns = ["", "median", "unit", "spread", "samples", "beside it", "", "ratio"];
    let row = |fact: &Fact| {
        let summary = Summary::of(&fact.samples)?;
        let (name, value, ratio) = match &fact.beside {
            Some(beside) => {
                let ratio = fact.ratio().map_or_else(String::new, short);
                (beside.label.clone(), short(beside.value()), ratio)
            }
            None => Default::default(),
        };
        Some(vec![
            Cell::Text(fact.label.clone()),
            Cell::Number(short(summary.median)),
            Cell::Text(fact.unit.clone()),
            Cell::Number(percent(summary.spread())),
            Cell::Number(summary.count.to_string()),
            Cell::Text(name),
            Cell::Number(value),
            Cell::Number(ratio),
        ])
    };
    Table {
        title: String::new(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: facts.iter().filter_map(row).collect(),
    }
}

/// Who ran on which cores.
fn placements(all: &[Placement]) -> Table {
    let row = |one: &Placement| {
        vec![Cell::Text(one.who.clone()), Cell::Text(one.what.clone()), Cell::Text(one.on())]
    };
    Table {
        title: "Who ran where".to_owned(),
        columns: ["", "is a", "allowed"].map(str::to_owned).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

/// Each contender beside ours.
fn contests(all: &[Contest]) -> Table {
    let columns = [
        "",
        "contender",
        "median",
        "unit",
        "spread",
        "rounds",
        "lost",
        "ours/theirs",
        "verdict",
        "what is not equal",
    ];
    let row = |contest: &Contest| {
        let summary = Summary::of(&contest.samples);
        let beside = table::beside(contest, all);
        let of_summary = |text: &dyn Fn(&Summary) -> String| {
            Cell::Number(summary.as_ref().map_or_else(|| "-".to_owned(), text))
        };
        let word = beside.as_ref().map_or_else(String::new, |beside| beside.verdict.to_owned());
        vec![
            Cell::Text(format!("{} over {}, {} B", contest.quantity, contest.path, contest.bytes)),
            Cell::Text(contest.contender.clone()),
            of_summary(&|summary| short(summary.median)),
            Cell::Text(contest.unit.clone()),
            of_summary(&|summary| percent(summary.spread())),
            of_summary(&|summary| summary.count.to_string()),
            Cell::Number(table::lost(contest).map_or_else(String::new, |lost| format!("{lost} %"))),
            Cell::Number(beside.as_ref().map_or_else(String::new, |beside| short(beside.ratio))),
            match beside.and_then(|beside| beside.is_better) {
                Some(true) => Cell::Good(word),
                Some(false) => Cell::Bad(word),
                None => Cell::Text(word),
            },
            Cell::Text(match contest.failed.as_str() {
                "" => contest.note.clone(),
                failed => format!("{} {failed}", contest.note),
            }),
        ]
    };
    Table {
        title: "Beside peers".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

/// One plot for all curves of the same axes; each report's curves begin with its name.
#[must_use]
pub fn plots(reports: &[(&str, &[Series])]) -> Vec<Plot> {
    let axes = |series: &Series| {
        [&series.x_label, &series.x_unit, &series.y_label, &series.y_unit].map(String::clone)
    };
    let mut seen = BTreeSet::new();
    let all = || reports.iter().flat_map(|(name, all)| all.iter().map(move |one| (*name, one)));
    let mut plots = Vec::new();
    for (_, first) in all() {
        if !seen.insert(axes(first)) {
            continue;
        }
        let alike: Vec<(&str, &Series)> =
            all().filter(|(_, one)| axes(one) == axes(first) && !one.points.is_empty()).collect();
        for (part, few) in alike.chunks(CURVES_MAX).enumerate() {
            let more = if part == 0 { String::new() } else { format!(", {}", part + 1) };
            plots.push(plot(few, &more));
        }
    }
    plots
}

fn plot(alike: &[(&str, &Series)], more: &str) -> Plot {
    let first = alike[0].1;
    let xs = || alike.iter().flat_map(|(_, one)| one.points.iter().map(|point| point.x));
    let ys = || {
        let points = alike.iter().flat_map(|(_, one)| one.points.iter());
        points.filter_map(|point| Summary::of(&point.samples)).map(|summary| summary.median)
    };
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    Plot {
        title: format!("{} against {}{more}", first.y_label, first.x_label),
        x: axis(&first.x_label, &first.x_unit, scale(&mut xs())),
        y: axis(&first.y_label, &first.y_unit, scale(&mut ys())),
        curves: alike.iter().map(|(name, series)| curve(name, series)).collect(),
        marks: Vec::new(),
    }
}

/// By decades where there is more than one, and nothing that such an axis cannot show.
fn scale(values: &mut dyn Iterator<Item = f64>) -> Scale {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    if least > 0.0 && most > 20.0 * least { Scale::Logarithmic } else { Scale::Linear }
}

fn curve(name: &str, series: &Series) -> Curve {
    let label =
        if name.is_empty() { series.label.clone() } else { format!("{name}: {}", series.label) };
    let summaries: Vec<(f64, Summary)> = series
        .points
        .iter()
        .filter_map(|point| Some((point.x, Summary::of(&point.samples)?)))
        .collect();
    Curve {
        label,
        points: summaries.iter().map(|(x, summary)| (*x, summary.median)).collect(),
        band: summaries.iter().map(|(_, summary)| (summary.low, summary.high)).collect(),
        style: Style::Line,
    }
}

/// Three digits or more.
#[must_use]
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// A share in percent, with its sign of spread.
fn percent(share: f64) -> String {
    format!("±{:.1} %", share * 100.0)
}

/// A report in some lines for a terminal: facts, limits, what is incomplete.
#[must_use]
pub fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let widest = report.experiments.iter().flat_map(|one| &one.facts);
    let widest = widest.map(|fact| fact.label.chars().count()).max().unwrap_or(0);
    for experiment in &report.experiments {
        lines.push(experiment.name.clone());
        for fact in &experiment.facts {
            let Some(summary) = Summary::of(&fact.samples) else { continue };
            let (value, spread) = (short(summary.median), percent(summary.spread()));
            let beside = fact.beside.as_ref().map_or_else(String::new, |beside| {
                format!("  {} of {}", short(fact.ratio().unwrap_or(f64::NAN)), beside.label)
            });
            let (label, unit) = (&fact.label, &fact.unit);
            lines.push(format!("  {label:<widest$}  {value:>9} {unit:<6} {spread:>8}{beside}"));
        }
        for one in &experiment.placements {
            lines.push(format!("  {} is a {} on {}", one.who, one.what, one.on()));
        }
        if !experiment.limit.is_empty() {
            lines.push(format!("  {}", experiment.limit));
        }
        if !experiment.incomplete.is_empty() {
            lines.push(format!("  incomplete: {}", experiment.incomplete));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
