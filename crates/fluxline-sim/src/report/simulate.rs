//! Measures every load of a scenario, and converts the outcomes to the units of the report.

use std::num::NonZeroUsize;

use super::links;
use super::results::{Latency, Point, Results, Saturation};
use crate::Fingerprint;
use crate::load::sweep::{self, NodeLoad, Outcome, Progress, WarmUp};
use crate::scenario::{Measured, Refused, Scenario};

/// The stage of a simulation, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// This many points are measured.
    Points(usize),
    /// The search for the saturation load began.
    Saturation,
}

/// Returns the loads that are measured. A closed loop has one point for all loads.
fn loads(scenario: &Scenario) -> Vec<f64> {
    match scenario.traffic.window {
        0 => scenario.run.loads.clone(),
        _ => vec![1.0],
    }
}

/// Returns the number of stages of [`simulate()`]: its points, and the search for saturation.
#[must_use]
pub fn stages(scenario: &Scenario) -> u64 {
    loads(scenario).len() as u64 + u64::from(scenario.run.saturation)
}

/// Measures all loads on up to `threads` threads (`None`: one per core), and the saturation load if
/// the scenario asks for it. The number of threads does not change the results.
///
/// # Errors
/// A network that cannot be built, or a failed check of the model: one sentence with the load.
pub fn simulate(
    scenario: &Scenario,
    threads: Option<NonZeroUsize>,
    mut progress: impl FnMut(Stage) + Send,
) -> Result<Results, Refused> {
    let loads = loads(scenario);
    let done = |of: Progress| progress(Stage::Points(of.done));
    let measured = sweep::run_all(&loads, threads, |&load| scenario.measure(load), done);
    let mut points = Vec::new();
    let mut print = Fingerprint::default();
    for (&load, measured) in loads.iter().zip(measured) {
        let at_load = |problem: Refused| Refused(format!("at load {load}: {problem}"));
        let measured = measured.map_err(at_load)?;
        print.join(measured.outcome.fingerprint);
        points.push(point(scenario, load, &measured));
    }
    let mut saturation = None;
    if scenario.run.saturation {
        progress(Stage::Saturation);
        let found = scenario.saturation()?;
        saturation = Some(Saturation { stable: found.followed, saturated: found.not_followed });
    }
    Ok(Results { points, saturation, fingerprint: print.to_string() })
}

fn point(scenario: &Scenario, load: f64, measured: &Measured) -> Point {
    let Measured { outcome, lost } = measured;
    let is_closed = scenario.traffic.window > 0;
    let load = match is_closed {
        true => outcome.offered_bytes_per_s / scenario.link_bytes_per_s(),
        false => load,
    };
    Point { lost: *lost, links: links::grids(scenario, &outcome.links), ..Point::of(load, outcome) }
}

impl Point {
    /// Converts the outcome at a load to the units of the report; links are listed by node.
    #[must_use]
    pub fn of(load: f64, outcome: &Outcome) -> Point {
        let mega = |bytes_per_s: f64| bytes_per_s / 1e6;
        let latency = Latency {
            mean: outcome.latency_ns.mean / 1e3,
            half_width: Some(outcome.latency_ns.half_width / 1e3).filter(|half| half.is_finite()),
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
            lost: 0,
            sources_mb_s: delivered_mb_s(&outcome.sources),
            targets_mb_s: delivered_mb_s(&outcome.targets),
            source_jain: outcome.source_fairness().map(|fairness| fairness.jain),
            target_jain: outcome.target_fairness().map(|fairness| fairness.jain),
            warm_up_us: outcome.warm_up.as_us(),
            measured_us: outcome.measured.as_us(),
            is_rising: outcome.warm_up_end == WarmUp::CutShort,
            links: vec![links::by_node(&outcome.links)],
            histogram: buckets.map(|(largest, count)| (largest.as_us(), count)).collect(),
            entries: outcome.entries,
            hops: outcome.hops,
            fingerprint: outcome.fingerprint.to_string(),
        }
    }
}

fn delivered_mb_s(loads: &[NodeLoad]) -> Vec<f64> {
    let rate = |load: &NodeLoad| if load.is_active() { load.delivered / 1e6 } else { f64::NAN };
    loads.iter().map(rate).collect()
}
