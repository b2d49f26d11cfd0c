//! Checks of a scenario beyond its types.

use fluxline_toml::LoadError;

use super::network::{DIMENSIONS_MAX, PORTS_MAX};
use super::{Kind, PatternName, Scenario};
use crate::core::fault::{Fault, FaultKind};
use crate::net::ethernet::framing;

/// The reason why a scenario is rejected, in one sentence: the mistake, its location and the
/// correction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl From<&LoadError> for Refused {
    /// Puts the line in question before the sentence.
    fn from(error: &LoadError) -> Refused {
        let sentence = error.to_string();
        let end = if sentence.ends_with(['.', '?']) { "" } else { "." };
        Refused(format!("{}\n{sentence}{end}", error.excerpt()))
    }
}

/// Most nodes: SCI's node ids are 16 bits, of which the last 16 values are reserved.
const NODES_MAX: u64 = 65_520;
/// Most loads of a scenario.
const LOADS_MAX: usize = 200;
/// The least load, as a share of a link.
const LOAD_MIN: f64 = 1e-6;
/// Longest virtual time \[us\]: ten seconds, which take more than a day to compute.
const TIME_US_MAX: f64 = 1e7;
/// Most packets of a message: each is in memory from the moment it is handed over.
const PACKETS_MAX: u32 = 1 << 16;
/// Largest payload of a message \[byte\].
const BYTES_MAX: u32 = 1 << 20;
/// Largest payload of a UDP datagram \[byte\].
const DATAGRAM_BYTES_MAX: u32 = framing::UDP_PAYLOAD_BYTES_MAX as u32;

impl Scenario {
    pub(super) fn check(&self) -> Result<(), Refused> {
        self.check_network()?;
        self.check_traffic()?;
        self.check_nodes()?;
        self.check_run()?;
        self.check_faults()
    }

    fn check_network(&self) -> Result<(), Refused> {
        self.check_size()?;
        let part = &self.network;
        if let Some(rate) = part.link_mb_s {
            within("network.link-mb-s", rate, 1.0, 1e6)?;
        }
        if let Some(rate) = part.bus_mb_s {
            within("network.bus-mb-s", rate, 1.0, 1e6)?;
        }
        within("network.link-bytes-per-ns", f64::from(part.link_bytes_per_ns), 1.0, 1e6)?;
        within("network.router-ns", f64::from(part.router_ns), 0.0, 1e6)?;
        within("network.wire-ns", f64::from(part.wire_ns), 1.0, 1e6)?;
        within("network.credit-ns", f64::from(part.credit_ns), 0.0, 1e6)?;
        within("network.virtual-channels", f64::from(part.virtual_channels), 1.0, 16.0)?;
        within("network.packet-bytes", f64::from(part.packet_bytes), 1.0, 1e6)?;
        require(
            !part.kind.is_sci() || matches!(part.packet_bytes, 16 | 64 | 256),
            format_args!(
                "`network.packet-bytes` is {}; SCI packets carry 16, 64 or 256 bytes.",
                part.packet_bytes
            ),
        )?;
        within("network.header-bytes", f64::from(part.header_bytes), 0.0, 1e6)?;
        let counts = [
            ("network.pass-symbols", part.pass_symbols, 1.0),
            ("network.cable-symbols", part.cable_symbols, 0.0),
            ("network.send-queue", part.send_queue, 1.0),
            ("network.unacknowledged", part.unacknowledged, 1.0),
            ("network.receive-queue", part.receive_queue, 1.0),
        ];
        for (key, count, least) in counts {
            if let Some(count) = count {
                within(key, f64::from(count), least, 4096.0)?;
            }
        }
        match self.network.kind {
            Kind::Ethernet => {
                self.ethernet_config()?;
                self.host_config().map(|_| ())
            }
            kind if kind.is_atoll() => self.atoll_config().map(|_| ()),
            _ => Ok(()),
        }
    }

    pub(super) fn check_size(&self) -> Result<(), Refused> {
        let part = &self.network;
        let nodes = part.node_count();
        let size = match part.kind {
            Kind::Graph | Kind::AtollGraph => "edges",
            Kind::SciSwitch if !part.ringlets.is_empty() => "ringlets",
            kind if kind.is_grid() && !part.sides.is_empty() => "sides",
            Kind::AtollGrid | Kind::AtollTorus => "side",
            kind if kind.is_grid() => "side` and `dimensions",
            _ => "nodes",
        };
        require(
            (2..=NODES_MAX).contains(&nodes),
            format_args!("the network has {nodes} nodes; `{size}` must give 2 to {NODES_MAX}."),
        )?;
        within("network.dimensions", f64::from(part.dimensions), 1.0, f64::from(DIMENSIONS_MAX))?;
        within("network.ports", f64::from(part.ports), 1.0, f64::from(PORTS_MAX))?;
        if part.kind.is_grid() {
            let sides = part.sides();
            let key = if part.sides.is_empty() { "network.side" } else { "network.sides" };
            let least = if part.kind.is_atoll() { 1.0 } else { 2.0 };
            for &side in &sides {
                within(key, f64::from(side), least, 65_520.0)?;
            }
            require(
                sides.len() <= DIMENSIONS_MAX as usize,
                format_args!("`{key}` has {} numbers; at most {DIMENSIONS_MAX}.", sides.len()),
            )?;
        }
        let ringlets = &part.ringlets;
        require(
            ringlets.len() <= PORTS_MAX as usize && !ringlets.contains(&0),
            format_args!(
                "`network.ringlets` is {ringlets:?}; write at most {PORTS_MAX} numbers above 0."
            ),
        )
    }

    fn check_nodes(&self) -> Result<(), Refused> {
        let nodes = self.network.node_count();
        for (at, part) in self.node.iter().enumerate() {
            for &node in &part.nodes {
                require(
                    u64::from(node) < nodes,
                    format_args!("`node.{at}.nodes` has {node}; the nodes are 0 to {}.", nodes - 1),
                )?;
            }
            let load = part.load.unwrap_or(1.0);
            within(&format!("node.{at}.load"), load, 0.0, 1000.0)?;
            require(
                load == 0.0 || load >= 1e-3,
                format_args!("`node.{at}.load` is {load}; write 0, or 0.001 to 1000."),
            )?;
            require(
                self.traffic.window == 0
                    || load == 0.0
                    || part.load.is_none()
                    || self.traffic.pattern == PatternName::EventBuilding,
                format_args!(
                    "`node.{at}.load` is {load}, but in a closed loop a node sends as fast as it \
                     can; write 0, or leave out `traffic.window`."
                ),
            )?;
        }
        let weights = self.weights();
        require(
            weights.is_empty() || weights.iter().any(|&load| load > 0.0),
            format_args!("`node` silences every node; give one of them a load above 0."),
        )?;
        self.check_fragments(&weights)
    }

    /// Checks that a message can carry the largest fragment of an event.
    fn check_fragments(&self, weights: &[f64]) -> Result<(), Refused> {
        if self.traffic.pattern != PatternName::EventBuilding {
            return Ok(());
        }
        let weight = weights.iter().copied().fold(1.0, f64::max);
        let largest = self.sizes().iter().map(|size| size.bytes).max().unwrap_or(0);
        let is_ethernet = self.network.kind == Kind::Ethernet;
        let most = if is_ethernet { DATAGRAM_BYTES_MAX } else { BYTES_MAX };
        let bytes = f64::from(largest) * weight;
        require(
            bytes <= f64::from(most),
            format_args!(
                "a fragment of the node with the largest `node.load` has {bytes} bytes; at most \
                 {most} fit into a message."
            ),
        )
    }

    fn check_traffic(&self) -> Result<(), Refused> {
        let part = &self.traffic;
        let nodes = self.network.node_count();
        require(
            u64::from(part.hot) < nodes,
            format_args!("`traffic.hot` is {}; the nodes are 0 to {}.", part.hot, nodes - 1),
        )?;
        within("traffic.share", part.share, 0.0, 1.0)?;
        within("traffic.window", f64::from(part.window), 0.0, 4096.0)?;
        for size in &self.sizes() {
            within("traffic.bytes", f64::from(size.bytes), 1.0, f64::from(BYTES_MAX))?;
            within("a weight in traffic.sizes", f64::from(size.weight), 1.0, 1e6)?;
            require(
                self.network.kind != Kind::Ethernet || size.bytes <= DATAGRAM_BYTES_MAX,
                format_args!(
                    "a message has {} bytes, but a UDP datagram carries at most \
                     {DATAGRAM_BYTES_MAX}; write 1 to {DATAGRAM_BYTES_MAX} in `traffic.bytes` or \
                     `traffic.sizes`.",
                    size.bytes
                ),
            )?;
        }
        self.check_messages()?;
        self.check_pattern(nodes)
    }

    /// Checks that routers can hold the packets of the largest message.
    fn check_messages(&self) -> Result<(), Refused> {
        let of_trace = self.traffic.replay.as_ref().map(crate::load::traffic::Replay::largest);
        let sizes = self.sizes();
        let largest = of_trace.or_else(|| sizes.iter().map(|size| size.bytes).max()).unwrap_or(0);
        let packets = largest.div_ceil(self.network.packet_bytes.max(1));
        require(
            packets <= PACKETS_MAX,
            format_args!(
                "`network.packet-bytes` cuts a message of {largest} bytes into {packets} packets; \
                 at most {PACKETS_MAX} are possible."
            ),
        )
    }

    fn check_pattern(&self, nodes: u64) -> Result<(), Refused> {
        let pattern = self.traffic.pattern;
        let side = nodes.isqrt();
        require(
            pattern != PatternName::Transpose || side * side == nodes,
            format_args!("pattern `transpose` needs a square number of nodes, not {nodes}."),
        )?;
        let part = &self.traffic;
        within("traffic.factor", part.factor, 1e-3, 1e3)?;
        require(
            !u64::from(part.distance).is_multiple_of(nodes),
            format_args!(
                "`traffic.distance` is {}, which leads back to the sender; write a number that is \
                 not a multiple of the nodes.",
                part.distance
            ),
        )?;
        require(
            part.builders >= 1 && u64::from(part.builders) < nodes,
            format_args!("`traffic.builders` is {}; write 1 to {}.", part.builders, nodes - 1),
        )?;
        if pattern != PatternName::EventBuilding {
            return Ok(());
        }
        within("traffic.credits", f64::from(part.credits), 1.0, 4096.0)?;
        within("traffic.builder-bytes", part.builder_bytes as f64, 1.0, 1e12)?;
        within("traffic.patience-us", part.patience_us, 0.001, TIME_US_MAX)?;
        // The workload checks the rest, such as memory for an event.
        self.workload(LOAD_MIN).map(|_| ())
    }

    fn check_run(&self) -> Result<(), Refused> {
        let run = &self.run;
        require(
            !run.loads.is_empty() || run.saturation,
            format_args!(
                "the scenario runs nothing; write `loads = [0.1]` or `saturation = true`."
            ),
        )?;
        require(
            run.loads.len() <= LOADS_MAX,
            format_args!("`run.loads` has {} values; at most {LOADS_MAX}.", run.loads.len()),
        )?;
        for &load in &run.loads {
            within("a value of `run.loads`", load, LOAD_MIN, 1.0)?;
        }
        require(
            run.loads.is_sorted_by(|a, b| a < b),
            format_args!("`run.loads` must rise from value to value."),
        )?;
        require(
            self.traffic.window == 0 || !run.saturation,
            format_args!(
                "a closed loop (`traffic.window`) has no load to saturate; leave one out."
            ),
        )?;
        within("run.warm-up-us", run.warm_up_us, 0.001, TIME_US_MAX)?;
        within("run.warm-up-max-us", run.warm_up_max_us, run.warm_up_us, TIME_US_MAX)?;
        within("run.duration-us", run.duration_us, 0.1, TIME_US_MAX)?;
        within("confidence.width", self.confidence.width, 1e-4, 10.0)?;
        within("confidence.longest", self.confidence.longest, 1.0, 1000.0)
    }

    fn check_faults(&self) -> Result<(), Refused> {
        let faults = &self.faults;
        within("faults.bit-error-rate", faults.bit_error_rate, 0.0, 0.01)?;
        let nodes = self.network.node_count();
        for &node in &faults.dead_nodes {
            require(
                u64::from(node) < nodes,
                format_args!("`faults.dead-nodes` has {node}; the nodes are 0 to {}.", nodes - 1),
            )?;
        }
        for text in &faults.at {
            self.fault(text)?;
        }
        require(
            (faults.dead_nodes.len() as u64) + 1 < nodes,
            format_args!("`faults.dead-nodes` leaves fewer than two living nodes; name fewer."),
        )
    }

    /// Reads a timed fault, and checks its node.
    pub(super) fn fault(&self, text: &str) -> Result<Fault, Refused> {
        let nodes = self.network.node_count();
        let fault = Fault::parse(text).ok_or_else(|| {
            Refused(format!("`faults.at` has {text:?}; write {}.", crate::core::fault::FORMS))
        })?;
        let node = u64::from(fault.kind.last_node());
        require(
            node < nodes,
            format_args!("`faults.at` has {text:?}; the nodes are 0 to {}.", nodes - 1),
        )?;
        self.has_fault(text, fault.kind)?;
        Ok(fault)
    }

    /// Checks that the network has faults of this kind.
    fn has_fault(&self, text: &str, kind: FaultKind) -> Result<(), Refused> {
        let network = self.network.kind;
        let of_link = matches!(kind, FaultKind::CutLink { .. } | FaultKind::MendLink { .. });
        let is_known = match kind {
            FaultKind::CutLink { from, to } | FaultKind::MendLink { from, to } => {
                !network.is_sci() && network != Kind::Ethernet && self.are_joined(from, to)
            }
            FaultKind::Host(_) => true,
            FaultKind::Restart(_) => network.is_routers() || network == Kind::Ethernet,
            _ => !network.is_routers(),
        };
        let instead = match network {
            kind if kind.is_sci() => "SCI has host, power, cable and repair",
            Kind::Ethernet => "Ethernet has host, power, restart, cable and repair",
            _ if of_link => "name two neighbours, such as cut:0-1@1ms",
            kind if kind.is_atoll() => "ATOLL has host, power, cable, repair, cut and mend",
            _ => "routers have host, restart, cut and mend, such as cut:0-1@1ms",
        };
        require(is_known, format_args!("`faults.at` has {text:?}; {instead}."))
    }

    /// Returns true if two routers have a link, or two ATOLL nodes a cable.
    fn are_joined(&self, one: u32, other: u32) -> bool {
        if self.network.kind.is_atoll() {
            return self.network.atoll_wiring().is_ok_and(|wiring| wiring.are_joined(one, other));
        }
        self.network.routers().check().is_ok_and(|topology| topology.hops(one, other) == 1)
    }

    /// The sizes of messages with their weights.
    #[must_use]
    pub fn sizes(&self) -> Vec<super::Size> {
        let part = &self.traffic;
        match part.sizes.is_empty() {
            true => vec![super::Size { bytes: part.bytes, weight: 1 }],
            false => part.sizes.clone(),
        }
    }
}

impl Kind {
    /// The name as in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::SciRing => "sci-ring",
            Kind::SciTorus => "sci-torus",
            Kind::SciSwitch => "sci-switch",
            Kind::Ring => "ring",
            Kind::Mesh => "mesh",
            Kind::Torus => "torus",
            Kind::Graph => "graph",
            Kind::Ethernet => "ethernet",
            Kind::AtollGrid => "atoll-grid",
            Kind::AtollTorus => "atoll-torus",
            Kind::AtollRing => "atoll-ring",
            Kind::AtollFull => "atoll-full",
            Kind::AtollGraph => "atoll-graph",
        }
    }
}

fn require(holds: bool, message: std::fmt::Arguments<'_>) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(Refused(message.to_string())) }
}

/// Checks that a value is in its range; also refuses NaN.
fn within(key: &str, value: f64, least: f64, most: f64) -> Result<(), Refused> {
    let message = format!("{key} is {value}; write {least} to {most}.");
    require(value >= least && value <= most, format_args!("{message}"))
}
