//! A report as a page: first warnings and the most important numbers, then each experiment with
//! its tables and plots, last the machines.

mod hosts;
mod lines;
mod plots;
mod tables;
pub mod words;

use fluxline_report::{Block, Headline, Page, Section};
use serde_json::Value;

use crate::host::busy::Busy;
use crate::result::{Experiment, Fact, Report};
use crate::statistics::Summary;
pub use lines::lines;
pub use plots::{Curves, plots};
use words::quantity;

/// The experiments whose first facts become headlines, by importance.
const HEADLINES: &[&str] = &["pingpong", "lossfree", "load", "stream", "datagrams", "messages"];
/// Headlines at most.
const HEADLINES_MAX: usize = 3;
/// The largest spread of a headline, as a share.
const STEADY_SPREAD_MAX: f64 = 0.5;

/// Makes the page of a report.
#[must_use]
pub fn page(report: &Report) -> Page {
    let mut sections: Vec<Section> = report.experiments.iter().map(section).collect();
    sections.extend(hosts::limits(report));
    sections.push(hosts::machines(report));
    Page {
        title: format!("fluxline bench {}", report.link),
        subtitle: subtitle(report),
        warnings: warnings(report),
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
    format!("{processor}, kernel {kernel}, {}, {at}", report.program)
}

/// Writes seconds since 1970 as a date and a time of day. Source of the calendar's arithmetic:
/// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"; years begin in March there.
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

/// Lists the warnings: a busy machine, experiments that broke off, settings that lose packets.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings: Vec<String> = busy(report).into_iter().collect();
    let broken = report.experiments.iter().filter(|one| !one.incomplete.is_empty());
    warnings.extend(broken.map(|one| format!("{} is incomplete: {}.", one.name, one.incomplete)));
    warnings.extend(hosts::bad(report));
    warnings
}

/// Returns a sentence about the programs that took the cores. `None`: none did, or it is unknown.
#[must_use]
pub fn busy(report: &Report) -> Option<String> {
    let busy: Busy = serde_json::from_value(report.environment["busy"].clone()).ok()?;
    busy.sentence()
}

/// A fact that may become a headline.
struct Candidate<'a> {
    experiment: &'a Experiment,
    fact: &'a Fact,
    summary: Summary,
}

impl Candidate<'_> {
    fn is_steady(&self) -> bool {
        self.summary.spread() <= STEADY_SPREAD_MAX
    }

    fn headline(&self) -> Headline {
        let Candidate { experiment, fact, summary } = self;
        let mut note = format!("{}, {}", experiment.name, words::spread(summary, &fact.unit));
        if let Some(beside) = &fact.beside {
            let floor = quantity(beside.value(), &fact.unit);
            note = format!("{note}; {}: {floor}", beside.label);
        }
        let (label, value) = (fact.label.clone(), quantity(summary.median, &fact.unit));
        Headline { label, value, note }
    }
}

/// The experiments that matter most and have facts, in order.
fn important(report: &Report) -> impl Iterator<Item = &Experiment> {
    let of = |name: &&str| report.experiments.iter().find(|one| one.name == **name);
    HEADLINES.iter().filter_map(of).filter(|one| !one.facts.is_empty())
}

fn headlines(report: &Report) -> Vec<Headline> {
    // The first fact of each, then the others.
    let first = important(report).map(|one| (one, &one.facts[0]));
    let further = important(report).flat_map(|one| one.facts[1..].iter().map(move |of| (one, of)));
    let all = first.chain(further).filter_map(|(experiment, fact)| {
        Some(Candidate { experiment, fact, summary: Summary::of(&fact.samples)? })
    });
    let steady = all.filter(Candidate::is_steady);
    steady.take(HEADLINES_MAX).map(|one| one.headline()).collect()
}

/// Names the limit of the most important experiment that knows it.
fn verdict(report: &Report) -> String {
    let limit = |one: &Experiment| {
        let first = one.limit.lines().next()?;
        Some(format!("{}: {first}", one.name))
    };
    important(report).find_map(limit).unwrap_or_default()
}

fn section(experiment: &Experiment) -> Section {
    let mut text = vec![experiment.about.clone()];
    let has_limits = experiment.limit.lines().count() > 1;
    if !experiment.limit.is_empty() && !has_limits {
        text.push(format!("Limit: {}", experiment.limit));
    }
    if !experiment.incomplete.is_empty() {
        text.push(format!("Incomplete: {}.", experiment.incomplete));
    }
    let mut blocks = Vec::new();
    if !experiment.facts.is_empty() {
        blocks.push(Block::Table(tables::facts(&experiment.facts)));
    }
    if has_limits {
        blocks.push(Block::Table(tables::limits(&experiment.limit)));
    }
    let curves = Curves { name: "", series: &experiment.series };
    blocks.extend(plots(&[curves]).into_iter().map(Block::Plot));
    let notes = experiment.notes.clone();
    Section { title: experiment.name.clone(), text: text.join("\n\n"), blocks, notes }
}

#[cfg(test)]
mod tests;
