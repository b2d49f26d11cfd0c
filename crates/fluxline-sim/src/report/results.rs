//! The results of a scenario as plain numbers, in the units of the report.

use serde::Serialize;

use crate::load::sweep::CoreShares;

/// All points of a scenario.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The points, in the order of their loads; a closed loop has one.
    pub points: Vec<Point>,
    /// The saturation of the network, where it was requested.
    pub saturation: Option<Saturation>,
    /// The hash of all events in all points.
    pub fingerprint: String,
}

/// The saturation of the network.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Saturation {
    /// The highest load that was accepted, as a share of what a link carries.
    pub stable: f64,
    /// The lowest load that was not accepted.
    pub saturated: f64,
}

/// The measurement of one load.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Payload offered by each node, as a share of what a link carries. In a closed loop it is
    /// measured.
    pub load: f64,
    /// Payload offered by a node, mean over nodes \[MB/s\].
    pub offered_mb_s: f64,
    /// Payload delivered per node, mean over nodes \[MB/s\].
    pub accepted_mb_s: f64,
    /// Latency from posting a message to its complete arrival; `None`: nothing was delivered.
    pub latency_us: Option<Latency>,
    /// The number of messages behind the latency.
    pub messages: u64,
    /// Messages that were given up since the start, and have not arrived.
    pub lost: u64,
    /// Messages under way at the end: neither delivered nor lost.
    pub in_flight: u64,
    /// Payload of each source that was delivered \[MB/s\]; NaN: a silent node.
    pub sources_mb_s: Vec<f64>,
    /// Payload delivered to each target \[MB/s\]; NaN: a node that no message goes to.
    pub targets_mb_s: Vec<f64>,
    /// Jain's fairness index of the sources that send; 1 is even. `None`: nothing was delivered.
    pub source_jain: Option<f64>,
    /// Jain's fairness index of the targets that messages go to.
    pub target_jain: Option<f64>,
    /// Event building; `None`: other traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Virtual time of the warm-up \[us\].
    pub warm_up_us: f64,
    /// Virtual time that was measured \[us\].
    pub measured_us: f64,
    /// True if latency still rose at the end, so it has no steady state.
    pub is_rising: bool,
    /// The precision of the mean latency, compared with the goal.
    pub precision: Precision,
    /// Share of its time that each link was busy, in the layout of the network.
    pub links: Vec<LinkGrid>,
    /// Shares of its time that each core of a host used; empty: a network without hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreShares>,
    /// Frames lost in the measured time, by place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Lost>,
    /// Largest latency of a bin \[us\] and messages in it.
    pub histogram: Vec<(f64, u64)>,
    /// Entries of the agenda.
    pub entries: u64,
    /// Number of packet-link-hops.
    pub hops: u64,
    /// The hash of all events.
    pub fingerprint: String,
}

/// The precision of the mean latency, compared with the goal of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// No goal was set.
    NotAsked,
    /// The interval is as narrow as asked for.
    Reached,
    /// It is wider, although the measurement was as long as allowed.
    Missed,
    /// The latency has no steady state, so the measurement was not extended.
    NoSteadyState,
}

impl Precision {
    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::NotAsked => "not-asked",
            Precision::Reached => "reached",
            Precision::Missed => "missed",
            Precision::NoSteadyState => "no-steady-state",
        }
    }
}

/// Latency \[us\].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The mean's interval of 95 % confidence; `None`: too few messages.
    pub interval: Option<[f64; 2]>,
    /// Half of all are faster.
    pub p50: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1000 are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// Event building at one load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Events {
    /// Events of which every fragment arrived.
    pub built: u64,
    /// Events that their builder gave up.
    pub incomplete: u64,
    /// Triggers that were refused, because too many events were open.
    pub vetoed: u64,
    /// Events built a second.
    pub per_s: f64,
    /// Payload of these, of all builders together \[MB/s\].
    pub built_mb_s: f64,
    /// Fragments that were triggered and had not arrived, mean over time.
    pub waiting: f64,
    /// The most of them since the start.
    pub waiting_most: u64,
    /// Bytes of open events in a builder, mean over time and builders.
    pub memory_bytes: f64,
    /// The most of them in one builder since the start.
    pub memory_most_bytes: u64,
    /// From trigger to the last fragment \[us\]: half of the events are faster.
    pub p50_us: f64,
    /// 99 of 100 are faster \[us\].
    pub p99_us: f64,
    /// The slowest \[us\].
    pub max_us: f64,
}

impl Latency {
    /// Returns the lower end of the interval; NaN: there is none.
    pub fn low(&self) -> f64 {
        self.interval.map_or(f64::NAN, |[low, _]| low)
    }

    /// Returns the upper end of the interval; NaN: there is none.
    pub fn high(&self) -> f64 {
        self.interval.map_or(f64::NAN, |[_, high]| high)
    }
}

/// Frames lost at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The place.
    pub place: String,
    /// The number of frames; of hosts: of datagrams.
    pub frames: u64,
}

/// Links of one kind in a grid.
#[derive(Clone, Debug, Serialize)]
pub struct LinkGrid {
    /// The title: the links shown.
    pub title: String,
    /// Name of each row, and for each column the busy share of the link; NaN without a link.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl Point {
    /// The busiest link, as a share of its time; 0 without links.
    pub fn busiest(&self) -> f64 {
        let all = self.links.iter().flat_map(|grid| &grid.rows).flat_map(|(_, row)| row);
        all.copied().filter(|share| share.is_finite()).fold(0.0, f64::max)
    }
}
