//! Contests as experiments of the report, and as lines: each contender beside ours.

use super::Cell;
use crate::page::short;
use crate::result::{Beside, Contest, Experiment, Fact, Point, Series};
use crate::statistics::{Better, Summary, Verdict, compare, median};

/// The first of ours in the same cell, which all others are held against.
fn ours<'a>(of: &Contest, all: &'a [Contest]) -> Option<&'a Contest> {
    all.iter().find(|one| one.is_ours && one.is_equal && one.is_same_cell(of))
}

/// How ours does beside a contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Ours by theirs.
    pub ratio: f64,
    /// In words.
    pub verdict: &'static str,
    /// Ours is better, or worse; else not told apart.
    pub is_better: Option<bool>,
}

/// Holds ours against a contender; `None`: it is ours, or one has no number.
#[must_use]
pub fn beside(contest: &Contest, all: &[Contest]) -> Option<Comparison> {
    let ours = ours(contest, all).filter(|ours| *ours != contest)?;
    let ratio = median(&ours.samples)? / median(&contest.samples)?;
    if !contest.is_equal {
        return Some(Comparison { ratio, verdict: "not equal work", is_better: None });
    }
    let found = compare(&contest.samples, &ours.samples, Better::by_unit(&contest.unit));
    let (verdict, is_better) = match found {
        Verdict::Better => ("different: fluxline better", Some(true)),
        Verdict::Worse => ("different: fluxline worse", Some(false)),
        Verdict::Same => ("not different in the noise", None),
        Verdict::Unknown => ("too few rounds to say", None),
    };
    Some(Comparison { ratio, verdict, is_better })
}

/// Returns the best peer of equal work in the cell of `ours`.
fn best(ours: &Contest, all: &[Contest]) -> Option<Beside> {
    let is_peer = |one: &&Contest| !one.is_ours && one.is_equal && one.is_same_cell(ours);
    let peers = all
        .iter()
        .filter(is_peer)
        .filter_map(|one| Beside::of(&one.contender, one.samples.clone()));
    let order = |one: &Beside, other: &Beside| one.value().total_cmp(&other.value());
    match Better::by_unit(&ours.unit) {
        Better::Lower => peers.min_by(order),
        Better::Higher => peers.max_by(order),
    }
}

/// One experiment for each quantity and path: facts are ours beside the best peer, contests all,
/// series each contender's against the size.
#[must_use]
pub fn experiments(measured: &[(Cell, Contest)]) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> = Vec::new();
    let all: Vec<Contest> = measured.iter().map(|(_, contest)| contest.clone()).collect();
    for contest in &all {
        let name = format!("{}, {}", contest.quantity, contest.path);
        let place = experiments.iter().position(|one| one.name == name).unwrap_or_else(|| {
            experiments.push(Experiment::new(&name, about(contest)));
            experiments.len() - 1
        });
        let into = &mut experiments[place];
        into.contests.push(contest.clone());
        add_to_series(contest, &mut into.series);
        if ours(contest, &all) == Some(contest) && !contest.samples.is_empty() {
            let label = format!("{} over {}, {} B", contest.quantity, contest.path, contest.bytes);
            into.facts.push(Fact {
                beside: best(contest, &all),
                ..Fact::new(label, &contest.unit, contest.samples.clone())
            });
        }
    }
    experiments
}

fn about(contest: &Contest) -> &'static str {
    match contest.unit.as_str() {
        "us" => {
            "Programs of peers and ours in turns within each round, on the same two cores. Half \
             round trips: a message there and one back, by two."
        }
        _ => {
            "Programs of peers and ours in turns within each round, on the same two cores. \
             Payload that arrives, one way."
        }
    }
}

fn add_to_series(contest: &Contest, all: &mut Vec<Series>) {
    if contest.samples.is_empty() {
        return;
    }
    let point = Point { x: contest.bytes as f64, samples: contest.samples.clone() };
    if let Some(series) = all.iter_mut().find(|one| one.label == contest.contender) {
        series.points.push(point);
        return;
    }
    all.push(Series {
        label: contest.contender.clone(),
        x_label: "message".to_owned(),
        x_unit: "B".to_owned(),
        y_label: format!("{} over {}", contest.quantity, contest.path),
        y_unit: contest.unit.clone(),
        points: vec![point],
    });
}

/// The contests of an experiment as lines that line up.
#[must_use]
pub fn lines(experiment: &Experiment) -> Vec<String> {
    let all = &experiment.contests;
    let widest = all.iter().map(|one| one.contender.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    let mut last: Option<&Contest> = None;
    for contest in all {
        if !last.is_some_and(|last| last.is_same_cell(contest)) {
            let Contest { quantity, path, bytes, unit, .. } = contest;
            lines.push(format!("{quantity} over {path}, {bytes} B [{unit}]"));
        }
        last = Some(contest);
        lines.push(format!("  {:<widest$}  {}", contest.contender, numbers(contest, all)));
    }
    lines
}

fn numbers(contest: &Contest, all: &[Contest]) -> String {
    let Some(summary) = Summary::of(&contest.samples) else {
        return format!("-  {}", contest.failed);
    };
    let spread = format!("±{:.0} %", summary.spread() * 100.0);
    let lost = lost(contest).map_or_else(String::new, |lost| format!("  {lost} % lost"));
    let beside = beside(contest, all).map_or_else(String::new, |beside| {
        format!("  ours/theirs {:>6}, {}", short(beside.ratio), beside.verdict)
    });
    format!("{:>9} {spread:>7}{lost}{beside}", short(summary.median))
}

/// The median of what was lost \[%\], as people write it.
#[must_use]
pub fn lost(contest: &Contest) -> Option<String> {
    median(&contest.lost).map(|lost| format!("{lost:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Path, Quantity};

    fn contest(contender: &str, is_ours: bool, samples: &[f64]) -> (Cell, Contest) {
        let cell = Cell { quantity: Quantity::Trip, path: Path::Shm, bytes: 64 };
        let contest = Contest {
            quantity: cell.quantity.name().into(),
            path: cell.path.name().into(),
            bytes: cell.bytes,
            unit: cell.quantity.unit().into(),
            contender: contender.into(),
            is_ours,
            is_equal: true,
            samples: samples.to_vec(),
            lost: Vec::new(),
            note: String::new(),
            failed: String::new(),
        };
        (cell, contest)
    }

    fn measured() -> Vec<(Cell, Contest)> {
        let mut put = contest("put", false, &[0.5; 5]);
        put.1.is_equal = false;
        let mut hangs = contest("hangs", false, &[]);
        hangs.1.failed = "took longer than 15 s".into();
        vec![
            contest("ours", true, &[1.0, 1.01, 0.99, 1.0, 1.0]),
            contest("slow", false, &[2.0, 2.02, 1.98, 2.0, 2.0]),
            contest("alike", false, &[1.001, 1.01, 0.99, 1.0, 1.0]),
            contest("once", false, &[3.0]),
            put,
            hangs,
        ]
    }

    #[test]
    fn verdicts_are_about_noise_equal_work_and_the_number_of_rounds() {
        let all: Vec<Contest> = measured().into_iter().map(|(_, contest)| contest).collect();
        let of = |place: usize| beside(&all[place], &all);
        assert_eq!(of(0), None);
        let slow = of(1).expect("both have numbers");
        assert!((slow.ratio - 0.5).abs() < 1e-9 && slow.is_better == Some(true));
        assert_eq!(of(2).expect("both").verdict, "not different in the noise");
        assert_eq!(of(3).expect("both").verdict, "too few rounds to say");
        assert_eq!(of(4).expect("both").verdict, "not equal work");
        assert_eq!(of(5), None);
    }

    #[test]
    fn ours_stands_beside_the_best_peer_of_equal_work_and_failures_are_told() {
        let experiments = experiments(&measured());
        assert_eq!(experiments.len(), 1);
        let fact = &experiments[0].facts[0];
        let peer = fact.beside.as_ref().expect("a peer");
        assert_eq!((peer.label.as_str(), peer.value()), ("alike", 1.0));
        assert_eq!(experiments[0].series.len(), 5, "one that has no number has no curve");
        let lines = lines(&experiments[0]);
        assert_eq!(lines.len(), 7);
        assert!(lines[6].ends_with("took longer than 15 s"), "{lines:?}");
    }
}
