//! A scenario: a file that describes a simulated network, its traffic, and the time of the run.
//!
//! Every key has a default. A key that is unknown, or that has no effect, is refused with its line.
//! One table of keys ([`KEYS`]) feeds the reader, its refusals, the listing and the manual.

mod atoll;
mod cards;
mod check;
mod effect;
mod ethernet;
mod files;
mod host;
mod keys;
mod network;
mod node;
mod of_url;
mod page;
mod read;
pub(crate) mod run;
mod sci;
mod sweep;
pub mod url;
mod url_parts;

use serde::{Deserialize, Serialize};

pub use atoll::{AtollPart, RoutingName};
pub use check::Refused;
pub use ethernet::{EthernetPart, ForwardingName, Switched};
pub use host::{CoalescingName, HostPart, StackName};
pub use keys::{KEYS, Key, When};
pub use network::{Kind, NetworkPart};
pub use node::{HostName, NodePart};
pub use page::page;
pub use run::{Measured, Saturated};
pub use sweep::{SweepPart, Variant};

use crate::load::traffic::Replay;

/// The content of a scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The heading of the report.
    pub title: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The nodes and links.
    pub network: NetworkPart,
    /// The links and the switch of kind `ethernet`.
    pub ethernet: EthernetPart,
    /// The hosts of kind `ethernet`.
    pub host: HostPart,
    /// The chips and cables of kinds `atoll-…`.
    pub atoll: AtollPart,
    /// The traffic: senders, receivers and times.
    pub traffic: TrafficPart,
    /// Nodes that differ from the others; a later table overrides an earlier one.
    pub node: Vec<NodePart>,
    /// The measurement.
    pub run: RunPart,
    /// The precision of the mean latency.
    pub confidence: ConfidencePart,
    /// The faults.
    pub faults: FaultsPart,
    /// A key that takes several values.
    pub sweep: SweepPart,
    /// The scenarios of the sweep, of which this one is the first; empty: no sweep.
    #[serde(skip)]
    pub variants: Vec<Variant>,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            title: String::new(),
            seed: 1,
            network: NetworkPart::default(),
            ethernet: EthernetPart::default(),
            host: HostPart::default(),
            atoll: AtollPart::default(),
            traffic: TrafficPart::default(),
            node: Vec::new(),
            run: RunPart::default(),
            confidence: ConfidencePart::default(),
            faults: FaultsPart::default(),
            sweep: SweepPart::default(),
            variants: Vec::new(),
        }
    }
}

/// The pattern of receivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternName {
    /// Every node sends to all others, equally often.
    #[default]
    Uniform,
    /// Every node sends to the next one.
    Neighbour,
    /// All nodes send a fixed share of their messages to one node.
    HotReceiver,
    /// One node sends a multiple of the load of the others.
    HotSender,
    /// Each node sends to the node with the inverse number: the first to the last.
    BitComplement,
    /// Each node sends to the node with row and column exchanged.
    Transpose,
    /// Every source sends one fragment of each event to the builder whose turn it is.
    EventBuilding,
    /// The messages of a file.
    Trace,
}

impl PatternName {
    /// Returns the name as in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PatternName::Uniform => "uniform",
            PatternName::Neighbour => "neighbour",
            PatternName::HotReceiver => "hot-receiver",
            PatternName::HotSender => "hot-sender",
            PatternName::BitComplement => "bit-complement",
            PatternName::Transpose => "transpose",
            PatternName::EventBuilding => "event-building",
            PatternName::Trace => "trace",
        }
    }
}

/// The SCI command that carries a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandName {
    /// A move: done with its echo.
    #[default]
    Move,
    /// A write: answered by its target.
    Write,
}

/// In which order the sources of an event builder send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderName {
    /// Each source begins with another event: every builder has its own source at any time.
    #[default]
    Shifted,
    /// All the fragments of one event, then of the next.
    Together,
    /// The fragments that their builders have asked for.
    Credits,
}

/// The arrival of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independently of each other: exponential gaps.
    #[default]
    Poisson,
    /// Evenly, each node with its own phase.
    Periodic,
}

/// The traffic: senders, receivers and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TrafficPart {
    /// The pattern of receivers.
    pub pattern: PatternName,
    /// The file with the messages of a trace.
    pub trace: String,
    /// The content of this file.
    #[serde(skip)]
    pub replay: Option<Replay>,
    /// The arrival of messages, in an open loop.
    pub arrivals: Arrivals,
    /// Messages of a node under way at a time, a closed loop; 0: open loop.
    pub window: u32,
    /// Payload of a message \[byte\].
    pub bytes: u32,
    /// Messages of several sizes, instead of `bytes`.
    pub sizes: Vec<Size>,
    /// SCI: the command that carries a message.
    pub command: CommandName,
    /// The hot node, for the patterns that have one.
    pub hot: u32,
    /// Share of messages that goes to the hot receiver.
    pub share: f64,
    /// The hot sender's load, as a multiple of the others' load.
    pub factor: f64,
    /// The distance to the receiver.
    pub distance: u32,
    /// Nodes that build events: the last ones.
    pub builders: u32,
    /// In which order the sources of an event builder send.
    pub order: OrderName,
    /// Fragments that a builder asks for at a time.
    pub credits: u32,
    /// Memory of a builder \[byte\].
    pub builder_bytes: u64,
    /// Time after which a builder gives up an event \[us\].
    pub patience_us: f64,
}

impl Default for TrafficPart {
    fn default() -> TrafficPart {
        TrafficPart {
            pattern: PatternName::Uniform,
            trace: String::new(),
            replay: None,
            arrivals: Arrivals::Poisson,
            window: 0,
            bytes: 64,
            sizes: Vec::new(),
            command: CommandName::Move,
            hot: 0,
            share: 1.0,
            factor: 4.0,
            distance: 1,
            builders: 1,
            order: OrderName::Shifted,
            credits: 2,
            builder_bytes: 1 << 20,
            patience_us: 1000.0,
        }
    }
}

/// One of several sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Size {
    /// Payload \[byte\].
    pub bytes: u32,
    /// The load relative to the other nodes.
    pub weight: u32,
}

/// The measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunPart {
    /// Offered payload of each node, as a share of what its link carries.
    pub loads: Vec<f64>,
    /// True if the saturation load is searched, too.
    pub saturation: bool,
    /// Virtual time of the first check for the end of the warm-up \[us\].
    pub warm_up_us: f64,
    /// Latest virtual time at which the measurement begins \[us\].
    pub warm_up_max_us: f64,
    /// Shortest virtual time of the measurement \[us\].
    pub duration_us: f64,
}

impl Default for RunPart {
    fn default() -> RunPart {
        RunPart {
            loads: vec![0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3],
            saturation: false,
            warm_up_us: 20.0,
            warm_up_max_us: 320.0,
            duration_us: 200.0,
        }
    }
}

/// The precision of the mean latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfidencePart {
    /// The target: half the interval of 95 % confidence, as a share of the mean.
    pub width: f64,
    /// The longest measurement, as a multiple of the shortest.
    pub longest: f64,
}

impl Default for ConfidencePart {
    fn default() -> ConfidencePart {
        ConfidencePart { width: 0.05, longest: 8.0 }
    }
}

/// The faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct FaultsPart {
    /// Probability that a bit is wrong after a link.
    pub bit_error_rate: f64,
    /// Nodes that are dead from the start.
    pub dead_nodes: Vec<u32>,
    /// Faults and repairs at their times, such as `cable:3@1ms`.
    pub at: Vec<String>,
}

impl Scenario {
    /// Returns the scenario with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Scenario {
        self.seed = seed;
        self.each_variant(|scenario| scenario.with_seed(seed))
    }

    /// Returns the scenario with a tenth of the virtual time, at most 4 loads and no extension of
    /// the measurement, for a quick result.
    #[must_use]
    pub fn quick(mut self) -> Scenario {
        self.confidence.longest = 1.0;
        self.run.warm_up_us /= 10.0;
        self.run.warm_up_max_us /= 10.0;
        self.run.duration_us /= 10.0;
        let loads = self.run.loads.len();
        if loads > 4 {
            let kept = [0, loads / 3, 2 * loads / 3, loads - 1];
            self.run.loads = kept.map(|at| self.run.loads[at]).to_vec();
        }
        self.each_variant(Scenario::quick)
    }

    /// Changes every scenario of a sweep.
    fn each_variant(mut self, change: impl Fn(Scenario) -> Scenario) -> Scenario {
        for variant in &mut self.variants {
            variant.scenario = change(std::mem::take(&mut variant.scenario));
        }
        self
    }
}

#[cfg(test)]
mod tests;
