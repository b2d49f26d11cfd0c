//! A map of a simulated network: its nodes and links, their load and faults over time, a route, and
//! the proof that routes cannot deadlock.
//!
//! [`survey`] runs a scenario at one load and looks at it at equal intervals. It knows networks by
//! the links that they report, so a network of any kind has a map. [`page`] makes a page for
//! readers, [`drawing`] the drawing alone; a [`Survey`] is plain data for programs.
//!
//! ```
//! use fluxline_sim::scenario::Scenario;
//! use fluxline_sim::topo::{Options, survey};
//!
//! let scenario = Scenario::of_url("sim:atoll?grid=3x2")?;
//! let survey = survey(&scenario, &Options::of(&scenario))?;
//! assert_eq!((survey.nodes.len(), survey.links.len()), (6, 14));
//! assert_eq!(survey.proof.is_free, Some(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod circle;
mod faults;
mod layout;
mod page;
mod proof;
mod stress;
mod watch;
mod ways;

use serde::Serialize;

use crate::load::sweep::LinkUse;
use crate::scenario::{Refused, Scenario};

pub use page::{drawing, page};

/// The choices of a survey.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The load of each node, as a share of a link; a closed loop ignores it.
    pub load: f64,
    /// The virtual time \[us\].
    pub us: f64,
    /// The number of intervals.
    pub steps: u32,
    /// The pair of nodes whose route is marked.
    pub route: Option<Pair>,
}

/// A source and a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The source.
    pub from: u32,
    /// The target.
    pub to: u32,
}

/// The number of intervals. A choice.
const STEPS: u32 = 20;
/// The most intervals: each is in the page.
pub const STEPS_MAX: u32 = 1000;
/// The longest virtual time \[us\]. A choice: a second.
pub const US_MAX: f64 = 1e6;

impl Options {
    /// Returns the usual choices: the middle one of the scenario's loads, and its measured time, or
    /// a quarter more than the time of its last fault.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Options {
        let loads = &scenario.run.loads;
        let load = loads.get(loads.len().saturating_sub(1) / 2).copied().unwrap_or(0.1);
        let last = scenario.last_fault_us() * 1.25;
        Options { load, us: scenario.run.duration_us.max(last), steps: STEPS, route: None }
    }

    fn check(&self, scenario: &Scenario) -> Result<(), Refused> {
        let Options { load, us, steps, route } = *self;
        let nodes = scenario.network.node_count();
        let is_node = |node: u32| u64::from(node) < nodes;
        let problem = if !(load > 0.0 && load <= 1.0) {
            format!("the load is {load}; write a share of a link, above 0 and at most 1.")
        } else if !(us > 0.0 && us <= US_MAX) {
            format!("the virtual time is {us} us; write more than 0, and at most {US_MAX}.")
        } else if !(1..=STEPS_MAX).contains(&steps) {
            format!("there are {steps} intervals; write 1 to {STEPS_MAX}.")
        } else if let Some(Pair { from, to }) = route
            && !(is_node(from) && is_node(to) && from != to)
        {
            let last = nodes - 1;
            format!("the route is {from}:{to}; write two different nodes from 0 to {last}.")
        } else {
            return Ok(());
        };
        Err(Refused(problem))
    }
}

/// A network, and what happened in it.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// The kind of network.
    pub kind: &'static str,
    /// The seed.
    pub seed: u64,
    /// The load of each node, as a share of a link.
    pub load: f64,
    /// The nodes, then the switches.
    pub nodes: Vec<Node>,
    /// The links, each in one direction.
    pub links: Vec<Link>,
    /// The intervals, in the order of time.
    pub intervals: Vec<Interval>,
    /// The marked route.
    pub route: Option<Route>,
    /// The proof that routes cannot deadlock, or the cycle.
    pub proof: Proof,
    /// The hash of all events.
    pub fingerprint: String,
}

/// A node or a switch.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// The name.
    pub name: String,
    /// True if it is a switch without a program.
    pub is_switch: bool,
    /// The position to the right; neighbours are about 1 apart.
    pub x: f64,
    /// The position downwards.
    pub y: f64,
    /// Payload of the node that was delivered \[MB/s\].
    pub sent_mb_s: f64,
    /// Payload delivered to the node \[MB/s\].
    pub received_mb_s: f64,
}

/// A link from one node to another.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// The index of the node at its start.
    pub from: u32,
    /// The index of the node at its end.
    pub to: u32,
    /// The time for which it was busy, of all the time \[%\].
    pub busy: f64,
    /// The direction in which it leaves the drawing, if it goes around its border.
    pub wraps: Option<Way>,
    /// The distance to the right of the straight line; 0: on it.
    pub lane: f64,
}

/// A vector of the drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Way {
    /// To the right.
    pub x: f64,
    /// Down the page.
    pub y: f64,
}

/// The network in an interval of time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interval {
    /// Its start \[us\].
    pub from_us: f64,
    /// Its end \[us\].
    pub to_us: f64,
    /// Messages delivered in it.
    pub messages: u64,
    /// Payload delivered in it, of all nodes \[MB/s\].
    pub delivered_mb_s: f64,
    /// Messages lost in it.
    pub lost: u64,
    /// Messages under way at its end.
    pub in_flight: u64,
    /// The time for which each link was busy \[%\].
    pub busy: Vec<f64>,
    /// Faults and repairs in it, as in a scenario file.
    pub faults: Vec<String>,
    /// Links that are dead at its end.
    pub dead_links: Vec<usize>,
    /// Nodes that are dead at its end.
    pub dead_nodes: Vec<usize>,
    /// Links that wait for each other in a circle at its end.
    pub circle: Vec<usize>,
    /// The circle in words; empty: there is none.
    pub deadlock: String,
}

/// The route of a pair of nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// The pair.
    pub pair: Pair,
    /// The indices of its links, in their order; empty: there is no path.
    pub links: Vec<usize>,
}

/// The proof that routes cannot deadlock.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// True if no packets can wait for each other in a circle; `None`: it was not checked.
    pub is_free: Option<bool>,
    /// The argument, or the cycle, in sentences.
    pub text: String,
    /// The links of the cycle.
    pub cycle: Vec<usize>,
}

/// Runs a scenario at one load, and describes it at equal intervals.
///
/// # Errors
/// When an option is out of its range, the scenario cannot be built, or a law of the model breaks:
/// one sentence. A deadlock is a result.
pub fn survey(scenario: &Scenario, options: &Options) -> Result<Survey, Refused> {
    options.check(scenario)?;
    let watched = watch::watch(scenario, options)?;
    let ends = &watched.links;
    let ways = ways::Ways::of(scenario)?;
    let index = ways::LinkIndex::of(ends);
    let route = options.route.map(|pair| Route { pair, links: ways.links(pair, &index) });
    let proof = proof::of(&ways, &index);
    let drawn = layout::of(scenario, ends);
    let links = ends.iter().zip(drawn.links).zip(&watched.busy);
    let link = |((of, drawn), &busy): ((&LinkUse, layout::Drawn), &f64)| {
        let layout::Drawn { lane, wraps } = drawn;
        Link { from: of.from, to: of.to, busy, wraps, lane }
    };
    Ok(Survey {
        kind: scenario.network.kind.name(),
        seed: scenario.seed,
        load: options.load,
        links: links.map(link).collect(),
        nodes: nodes(scenario, &watched, &drawn.places),
        intervals: watched.intervals,
        route,
        proof,
        fingerprint: watched.fingerprint,
    })
}

/// Describes the nodes; those beyond the scenario's are switches.
fn nodes(scenario: &Scenario, watched: &watch::Watched, places: &[Way]) -> Vec<Node> {
    let count = scenario.network.node_count() as usize;
    let switches = places.len().saturating_sub(count);
    let name = |index: usize| match index.checked_sub(count) {
        None => index.to_string(),
        Some(_) if switches == 1 => "switch".to_owned(),
        Some(number) => format!("switch {number}"),
    };
    let rate = |list: &[f64], index: usize| list.get(index).copied().unwrap_or(0.0);
    let node = |(index, &Way { x, y }): (usize, &Way)| Node {
        name: name(index),
        is_switch: index >= count,
        x,
        y,
        sent_mb_s: rate(&watched.sent_mb_s, index),
        received_mb_s: rate(&watched.received_mb_s, index),
    };
    places.iter().enumerate().map(node).collect()
}

#[cfg(test)]
mod tests;
