//! The outcome of a measurement, in the same form for all models.

use serde::Serialize;

use crate::core::interconnect::Loss;
use crate::load::statistics::{Estimate, Fairness, Histogram};
use crate::load::traffic::EventCounts;
use crate::load::traffic::events::Level;
use crate::{Duration, Fingerprint, Instant};

/// The load of one node, as a source or as a target \[bytes a second\].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeLoad {
    /// Offered load.
    pub offered: f64,
    /// Delivered load.
    pub delivered: f64,
}

impl NodeLoad {
    /// Returns true if the node takes part: a silent one neither offers nor gets anything.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.offered > 0.0 || self.delivered > 0.0
    }
}

/// The part of the measured time in which a link was busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkUtilisation {
    /// The node or router that it comes from.
    pub from: u32,
    /// The node at its end.
    pub to: u32,
    /// 0 to 1.
    pub utilisation: f64,
}

/// The parts of the measured time that a core of a host used, by kind: 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreShares {
    /// The node.
    pub node: u32,
    /// The core.
    pub core: u32,
    /// Time of programs.
    pub user: f64,
    /// Time of system calls.
    pub system: f64,
    /// Time of interrupt handlers.
    pub irq: f64,
    /// Time of the softirq.
    pub softirq: f64,
}

impl CoreShares {
    /// Returns the sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// The end of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// The latencies had settled: MSER-5 leaves out less than half of them, and at most a tenth of
    /// the offered load is under way.
    Settled,
    /// They had not settled within the longest warm-up: beyond saturation they never do.
    CutShort,
    /// No warm-up: everything is measured, from the start.
    LeftOut,
}

/// The precision of the mean latency, compared with the goal of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The measurement had no goal.
    None,
    /// A run of this length had an interval as narrow as asked for, with independent batches. The
    /// outcome is of a run behind it, so its interval may be slightly wider.
    Reached,
    /// It is not, although the measurement was as long as allowed.
    Missed,
    /// The latency has no steady state, so a longer measurement would not help.
    NoSteadyState,
}

/// Event building in the measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventOutcome {
    /// Events of which every fragment arrived.
    pub built: u64,
    /// Events that their builder gave up.
    pub incomplete: u64,
    /// Triggers that were refused, because too many events were open.
    pub vetoed: u64,
    /// Events built \[1/s\].
    pub per_s: f64,
    /// Payload of the events built, of all builders together \[bytes a second\].
    pub bytes_per_s: f64,
    /// Fragments that were triggered and had not arrived: the mean over time.
    pub waiting_mean: f64,
    /// The most of them since the start.
    pub waiting_most: u64,
    /// Bytes of open events in a builder: the mean over time and builders.
    pub memory_mean: f64,
    /// The most of them in one builder since the start.
    pub memory_most: u64,
    /// From the trigger to the last fragment: half of the events took no longer.
    pub p50: Duration,
    /// 99 % took no longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl EventOutcome {
    /// Converts the counts of a measured time that ends now.
    #[must_use]
    pub fn of(counts: &EventCounts, measured: Duration, now: Instant) -> EventOutcome {
        let seconds = measured.as_ps().max(1) as f64 / 1e12;
        let memory: f64 = counts.memory.iter().map(|level| level.mean(measured, now)).sum();
        EventOutcome {
            built: counts.built,
            incomplete: counts.incomplete,
            vetoed: counts.vetoed,
            per_s: counts.built as f64 / seconds,
            bytes_per_s: counts.bytes as f64 / seconds,
            waiting_mean: counts.waiting.mean(measured, now),
            waiting_most: counts.waiting.most(),
            memory_mean: memory / counts.memory.len().max(1) as f64,
            memory_most: counts.memory.iter().map(Level::most).max().unwrap_or(0),
            p50: counts.latency.quantile(0.5),
            p99: counts.latency.quantile(0.99),
            max: counts.latency.max(),
        }
    }
}

/// One measured point. It counts messages that were delivered in the measured time; latencies begin
/// when a message is offered.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Offered load, mean over all nodes \[bytes a second\].
    pub offered_bytes_per_s: f64,
    /// Delivered load, mean over all nodes \[bytes a second\].
    pub accepted_bytes_per_s: f64,
    /// Load dropped at full sources, mean over all nodes \[bytes a second\].
    pub refused_bytes_per_s: f64,
    /// The load of each node as a source.
    pub sources: Vec<NodeLoad>,
    /// The load of each node as a target.
    pub targets: Vec<NodeLoad>,
    /// Messages that were delivered.
    pub messages: u64,
    /// Messages that were given up in the measured time.
    pub lost: u64,
    /// The places that lost frames in the measured time.
    pub losses: Vec<Loss>,
    /// Mean latency with its 95 % interval \[ns\].
    pub latency_ns: Estimate,
    /// Half of the messages took no longer.
    pub p50: Duration,
    /// 99 % took no longer.
    pub p99: Duration,
    /// 99.9 % took no longer.
    pub p99_9: Duration,
    /// The longest.
    pub max: Duration,
    /// All latencies.
    pub histogram: Histogram,
    /// Each link.
    pub links: Vec<LinkUtilisation>,
    /// Each core of a host; empty: a network without hosts.
    pub cores: Vec<CoreShares>,
    /// The length of the warm-up, which is left out.
    pub warm_up: Duration,
    /// The events that were built; `None`: the traffic has none.
    pub events: Option<EventOutcome>,
    /// The end of the warm-up.
    pub warm_up_end: WarmUp,
    /// The time of the run that found how long to measure, which is left out as well; 0 if the
    /// goal was not reached.
    pub search: Duration,
    /// The precision of the mean latency.
    pub goal: Goal,
    /// The measured time.
    pub measured: Duration,
    /// Agenda entries, warm-up and search included.
    pub entries: u64,
    /// Packets times links, warm-up and search included.
    pub hops: u64,
    /// The fingerprint, warm-up and search included: equal runs have equal ones.
    pub fingerprint: Fingerprint,
}

impl Outcome {
    /// Returns the fairness of deliveries over the sources that send; `None`: nothing was
    /// delivered.
    #[must_use]
    pub fn source_fairness(&self) -> Option<Fairness> {
        fairness(&self.sources)
    }

    /// Returns the fairness of deliveries over the targets that messages go to; `None`: nothing was
    /// delivered.
    #[must_use]
    pub fn target_fairness(&self) -> Option<Fairness> {
        fairness(&self.targets)
    }

    /// Returns the mean and the largest utilisation of a link.
    #[must_use]
    pub fn link_utilisation(&self) -> (f64, f64) {
        let shares = self.links.iter().map(|link| link.utilisation);
        let mean = shares.clone().sum::<f64>() / self.links.len().max(1) as f64;
        (mean, shares.fold(0.0, f64::max))
    }
}

fn fairness(loads: &[NodeLoad]) -> Option<Fairness> {
    let active = loads.iter().filter(|load| load.is_active());
    let shares: Vec<f64> = active.map(|load| load.delivered).collect();
    shares.iter().any(|&share| share > 0.0).then(|| Fairness::of(&shares))
}

#[cfg(test)]
mod tests {
    use super::{NodeLoad, fairness};

    fn load(offered: f64, delivered: f64) -> NodeLoad {
        NodeLoad { offered, delivered }
    }

    #[test]
    fn silent_nodes_do_not_count_and_starved_ones_do() {
        let fair = fairness(&[load(5.0, 4.0), load(0.0, 0.0), load(5.0, 4.0)]);
        assert_eq!(fair.map(|fair| fair.jain), Some(1.0));
        let starved = fairness(&[load(5.0, 4.0), load(5.0, 0.0)]);
        assert_eq!(starved.map(|fair| fair.jain), Some(0.5));
    }

    #[test]
    fn a_network_that_delivers_nothing_is_not_fair() {
        assert_eq!(fairness(&[load(5.0, 0.0), load(5.0, 0.0)]), None);
        assert_eq!(fairness(&[]), None);
    }
}
