//! Turns contests into experiments of the report, and into lines for a terminal.

use super::contender::Cell;
use crate::contest::{best, comparison, lost, ours};
use crate::page::words::{self, quantity};
use crate::result::{Contest, Experiment, Fact, Point, Series};
use crate::statistics::Summary;

/// Makes one experiment for each quantity and path. Its facts are ours beside the best peer, its
/// contests are all contenders, its series are each contender's numbers against the size.
#[must_use]
pub fn experiments(measured: &[(Cell, Contest)]) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> = Vec::new();
    let all: Vec<Contest> = measured.iter().map(|(_, contest)| contest.clone()).collect();
    for contest in &all {
        let name = format!("{}, {}", contest.quantity, contest.path);
        let index = experiments.iter().position(|one| one.name == name).unwrap_or_else(|| {
            experiments.push(Experiment::new(&name, about(contest)));
            experiments.len() - 1
        });
        let into = &mut experiments[index];
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

/// Writes the contests of an experiment as aligned lines.
#[must_use]
pub fn lines(experiment: &Experiment) -> Vec<String> {
    let all = &experiment.contests;
    let widest = all.iter().map(|one| one.contender.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    let mut last: Option<&Contest> = None;
    for contest in all {
        if !last.is_some_and(|last| last.is_same_cell(contest)) {
            let Contest { quantity, path, bytes, .. } = contest;
            let bytes = words::quantity(*bytes as f64, "B");
            lines.push(format!("{quantity} over {path}, {bytes}"));
        }
        last = Some(contest);
        lines.push(format!("  {:<widest$}  {}", contest.contender, numbers(contest, all)));
    }
    lines
}

fn numbers(contest: &Contest, all: &[Contest]) -> String {
    let Some(summary) = Summary::of(&contest.samples) else {
        return format!("–  {}", contest.failed);
    };
    let spread = words::spread(&summary, &contest.unit);
    let lost = lost(contest).map_or_else(String::new, |lost| format!("  {lost} lost"));
    let compared = comparison(contest, all).map_or_else(String::new, |of| {
        format!("  ours/theirs {:>6}, {}", words::ratio(of.ratio), of.verdict)
    });
    format!("{:>12} {spread:>10}{lost}{compared}", quantity(summary.median, &contest.unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::{Path, Quantity};

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
        let of = |index: usize| comparison(&all[index], &all);
        assert_eq!(of(0), None);
        let slow = of(1).expect("both have numbers");
        assert!((slow.ratio - 0.5).abs() < 1e-9 && slow.is_better == Some(true));
        assert_eq!(of(2).expect("both").verdict, "equal within the noise");
        assert_eq!(of(3).expect("both").verdict, "too few rounds");
        assert_eq!(of(4).expect("both").verdict, "not equal work");
        assert_eq!(of(5), None);
    }

    #[test]
    fn ours_is_compared_with_the_best_peer_of_equal_work_and_failures_are_shown() {
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
