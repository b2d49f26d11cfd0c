//! Measures every load of a scenario, and converts the outcomes to the units of the report.

use std::num::NonZeroUsize;

use super::links;
use super::results::{Events, Latency, Lost, Point, Precision, Results, Saturation};
use crate::Fingerprint;
use crate::core::interconnect::Loss;
use crate::load::statistics::Estimate;
use crate::load::sweep::{self, EventOutcome, Goal, NodeLoad, Outcome, Progress, WarmUp};
use crate::scenario::{Measured, Refused, Scenario, Variant};

/// The stage of a simulation, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// This many points are measured.
    Points(usize),
    /// The search for the saturation load began.
    Saturation,
}

/// Returns the loads that are measured. A closed loop and a trace have one point for all loads.
fn loads(scenario: &Scenario) -> Vec<f64> {
    match scenario.traffic.window > 0 || scenario.traffic.replay.is_some() {
        false => scenario.run.loads.clone(),
        true => vec![1.0],
    }
}

/// Returns the scenarios that are measured: those of the sweep, or this one.
fn scenarios(scenario: &Scenario) -> Vec<&Scenario> {
    match scenario.variants.is_empty() {
        true => vec![scenario],
        false => scenario.variants.iter().map(|variant| &variant.scenario).collect(),
    }
}

/// Returns the number of stages of [`simulate()`] or [`sweep()`]: points, and searches for
/// saturation.
#[must_use]
pub fn stages(scenario: &Scenario) -> u64 {
    let of =
        |scenario: &Scenario| loads(scenario).len() as u64 + u64::from(scenario.run.saturation);
    scenarios(scenario).into_iter().map(of).sum()
}

/// Measures all loads on up to `threads` threads (`None`: one per core), and the saturation load if
/// the scenario asks for it. The number of threads does not change the results.
///
/// # Errors
/// A network that cannot be built, or a failed check of the model: one sentence with the load.
pub fn simulate(
    scenario: &Scenario,
    threads: Option<NonZeroUsize>,
    progress: impl FnMut(Stage) + Send,
) -> Result<Results, Refused> {
    let mut all = all(&[scenario], threads, progress)?;
    Ok(all.swap_remove(0))
}

/// The results of one value of a sweep.
#[derive(Debug)]
pub struct Swept<'a> {
    /// The value, and its scenario.
    pub variant: &'a Variant,
    /// The results.
    pub results: Results,
}

/// Measures every value of a scenario's sweep, as [`simulate()`] does.
///
/// # Errors
/// Those of [`simulate()`].
pub fn sweep(
    scenario: &Scenario,
    threads: Option<NonZeroUsize>,
    progress: impl FnMut(Stage) + Send,
) -> Result<Vec<Swept<'_>>, Refused> {
    let results = all(&scenarios(scenario), threads, progress)?;
    let swept = scenario.variants.iter().zip(results);
    Ok(swept.map(|(variant, results)| Swept { variant, results }).collect())
}

/// One point of one scenario.
struct Task<'a> {
    scenario: &'a Scenario,
    load: f64,
}

fn all(
    scenarios: &[&Scenario],
    threads: Option<NonZeroUsize>,
    mut progress: impl FnMut(Stage) + Send,
) -> Result<Vec<Results>, Refused> {
    let tasks: Vec<Task<'_>> = scenarios
        .iter()
        .flat_map(|&scenario| loads(scenario).into_iter().map(move |load| Task { scenario, load }))
        .collect();
    let done = |of: Progress| progress(Stage::Points(of.done));
    let measure = |task: &Task<'_>| task.scenario.measure(task.load);
    let mut measured = tasks.iter().zip(sweep::run_all(&tasks, threads, measure, done));
    let mut all = Vec::new();
    for &scenario in scenarios {
        let points = measured.by_ref().take(loads(scenario).len());
        let mut results = of_points(points)?;
        if scenario.run.saturation {
            progress(Stage::Saturation);
            let found = scenario.saturation()?;
            let (stable, saturated) = (found.followed, found.not_followed);
            results.saturation = Some(Saturation { stable, saturated });
        }
        all.push(results);
    }
    Ok(all)
}

fn of_points<'a>(
    measured: impl Iterator<Item = (&'a Task<'a>, Result<Measured, Refused>)>,
) -> Result<Results, Refused> {
    let (mut points, mut print) = (Vec::new(), Fingerprint::default());
    for (Task { scenario, load }, measured) in measured {
        let at_load = |problem: Refused| Refused(format!("at load {load}: {problem}"));
        let measured = measured.map_err(at_load)?;
        print.join(measured.outcome.fingerprint);
        points.push(point(scenario, *load, &measured));
    }
    Ok(Results { points, saturation: None, fingerprint: print.to_string() })
}

fn point(scenario: &Scenario, load: f64, measured: &Measured) -> Point {
    let Measured { outcome, in_flight } = measured;
    let is_given = scenario.traffic.window == 0 && scenario.traffic.replay.is_none();
    let load = match is_given {
        false => outcome.offered_bytes_per_s / scenario.link_bytes_per_s(),
        true => load,
    };
    let links = links::grids(scenario, &outcome.links);
    let of = |loss: &Loss| Lost { place: loss.place.clone(), frames: loss.frames };
    let losses = outcome.losses.iter().map(of).collect();
    Point { in_flight: *in_flight, links, losses, ..Point::of(load, outcome) }
}

impl Point {
    /// Converts the outcome at a load to the units of the report; links are listed by node.
    #[must_use]
    pub fn of(load: f64, outcome: &Outcome) -> Point {
        let mega = |bytes_per_s: f64| bytes_per_s / 1e6;
        let Estimate { mean, low, high, .. } = outcome.latency_ns;
        let latency = Latency {
            mean: mean / 1e3,
            interval: Some([low / 1e3, high / 1e3]).filter(|_| high.is_finite()),
            p50: outcome.p50.as_us(),
            p99: outcome.p99.as_us(),
            p999: outcome.p99_9.as_us(),
            max: outcome.max.as_us(),
        };
        let buckets = outcome.histogram.buckets();
        Point {
            load,
            offered_mb_s: mega(outcome.offered_bytes_per_s),
            accepted_mb_s: mega(outcome.accepted_bytes_per_s),
            latency_us: Some(latency).filter(|_| outcome.messages > 0),
            messages: outcome.messages,
            lost: outcome.lost,
            in_flight: 0,
            sources_mb_s: delivered_mb_s(&outcome.sources),
            targets_mb_s: delivered_mb_s(&outcome.targets),
            source_jain: outcome.source_fairness().map(|fairness| fairness.jain),
            target_jain: outcome.target_fairness().map(|fairness| fairness.jain),
            events: outcome.events.as_ref().map(events),
            warm_up_us: outcome.warm_up.as_us(),
            measured_us: outcome.measured.as_us(),
            is_rising: outcome.warm_up_end == WarmUp::CutShort,
            precision: match outcome.goal {
                Goal::None => Precision::NotAsked,
                Goal::Reached => Precision::Reached,
                Goal::Missed => Precision::Missed,
                Goal::NoSteadyState => Precision::NoSteadyState,
            },
            links: vec![links::by_node(&outcome.links)],
            cores: outcome.cores.clone(),
            losses: Vec::new(),
            histogram: buckets.map(|(largest, count)| (largest.as_us(), count)).collect(),
            entries: outcome.entries,
            hops: outcome.hops,
            fingerprint: outcome.fingerprint.to_string(),
        }
    }
}

fn events(of: &EventOutcome) -> Events {
    Events {
        built: of.built,
        incomplete: of.incomplete,
        vetoed: of.vetoed,
        per_s: of.per_s,
        built_mb_s: of.bytes_per_s / 1e6,
        waiting: of.waiting_mean,
        waiting_most: of.waiting_most,
        memory_bytes: of.memory_mean,
        memory_most_bytes: of.memory_most,
        p50_us: of.p50.as_us(),
        p99_us: of.p99.as_us(),
        max_us: of.max.as_us(),
    }
}

fn delivered_mb_s(loads: &[NodeLoad]) -> Vec<f64> {
    let rate = |load: &NodeLoad| if load.is_active() { load.delivered / 1e6 } else { f64::NAN };
    loads.iter().map(rate).collect()
}
