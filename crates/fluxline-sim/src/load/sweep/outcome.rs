//! The outcome of a measurement, in the same form for all models.

use serde::Serialize;

use crate::load::statistics::{Estimate, Fairness, Histogram};
use crate::{Duration, Fingerprint};

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
    /// The interval is as narrow as asked for, and its batches are independent.
    Reached,
    /// It is not, although the measurement was as long as allowed.
    Missed,
    /// The latency has no steady state, so a longer measurement would not help.
    NoSteadyState,
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
    /// The end of the warm-up.
    pub warm_up_end: WarmUp,
    /// The precision of the mean latency.
    pub goal: Goal,
    /// The measured time.
    pub measured: Duration,
    /// Agenda entries, warm-up included.
    pub entries: u64,
    /// Packets times links, warm-up included.
    pub hops: u64,
    /// The fingerprint, warm-up included: equal runs have equal ones.
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
