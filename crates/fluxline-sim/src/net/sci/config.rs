//! The configuration of a network: nodes, ringlets, links, queues, rules.

use super::NodeId;
use crate::Clock;

/// The arrangement of nodes and ringlets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One ringlet through `nodes` nodes, in the order of their indices.
    Ring {
        /// Nodes, at least 2.
        nodes: u32,
    },
    /// Rings along each dimension; a node sits on one ringlet per dimension. Dimension 0 counts
    /// fastest: index = c0 + size0 * (c1 + size1 * c2).
    Torus {
        /// Nodes along each dimension, each at least 2.
        sizes: Vec<u32>,
    },
    /// Ringlets that a switch joins; it has one port on every ringlet. The switch is the last node;
    /// it takes no packets for itself.
    Switch {
        /// Nodes on each ringlet, without the switch's port; each at least 1.
        ringlets: Vec<u32>,
    },
}

impl Topology {
    /// Returns `ports` ringlets of `per_ringlet` nodes behind a switch.
    #[must_use]
    pub fn switch(ports: u32, per_ringlet: u32) -> Topology {
        Topology::Switch { ringlets: vec![per_ringlet; ports as usize] }
    }

    /// Returns the number of nodes, a switch included.
    #[must_use]
    pub(super) fn nodes(&self) -> u64 {
        match self {
            Topology::Ring { nodes } => u64::from(*nodes),
            Topology::Torus { sizes } => sizes.iter().map(|&size| u64::from(size)).product(),
            Topology::Switch { ringlets } => {
                ringlets.iter().map(|&nodes| u64::from(nodes)).sum::<u64>() + 1
            }
        }
    }

    /// Returns the ring ports of a node, as a range of numbers.
    pub(super) fn ports_of(&self, node: u32) -> std::ops::Range<u32> {
        match self {
            Topology::Ring { .. } => node..node + 1,
            Topology::Torus { sizes } => {
                let dimensions = sizes.len() as u32;
                node * dimensions..(node + 1) * dimensions
            }
            Topology::Switch { ringlets } if node == ringlets.iter().sum::<u32>() => {
                node..node + ringlets.len() as u32
            }
            Topology::Switch { .. } => node..node + 1,
        }
    }
}

/// The retry of a producer after a busy echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// A retry after a delay. Chance decides which producer gets the space: some may starve.
    Plain {
        /// Delay from the end of the echo \[symbols\].
        delay: u64,
    },
    /// The consumer admits producers by generations, A and B (reconstruction, BACKGROUND-M).
    /// Without flow control, a generation may end before all its members had their turn.
    Aged,
}

/// The faults of links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a bit is wrong after a link; 0 to 0.01.
    pub bit_error_rate: f64,
    /// The seed of the errors.
    pub seed: u64,
}

/// The shared bus of a node between its ring ports and its host (Dolphin's B-Link).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Delay of a packet that changes its ringlet, after it crossed the bus \[symbols\]. Packets
    /// from and to the host have the delays of the host's card instead.
    pub delay: u64,
}

/// The configuration of a network. [`Config::ring`] and the presets fill in usual values.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The arrangement of nodes and ringlets.
    pub topology: Topology,
    /// Address of each node, by index; all different.
    pub addresses: Vec<NodeId>,
    /// Symbols (16 bits) a second on a link; one clock for the whole network.
    pub clock: Clock,
    /// Delay from a node's input to its output without waiting \[symbols\], at least 1.
    pub pass_symbols: u32,
    /// Delay of a cable \[symbols\].
    pub cable_symbols: u32,
    /// Longest packet that the bypass FIFO can hold \[symbols\]; longer ones are refused.
    pub bypass_symbols: u32,
    /// True if go bits hold back nodes (bandwidth allocation).
    pub flow_control: bool,
    /// The retry after a busy echo.
    pub retry: Retry,
    /// Most sends of each class and priority in a ring port.
    pub send_queue: u32,
    /// Most unacknowledged sends of each class and priority.
    pub unacknowledged: u32,
    /// Most requests in a node until they are taken; with a bus, also in each ring port.
    pub request_queue: u32,
    /// The same for responses.
    pub response_queue: u32,
    /// Number of circulations without an echo after which a send is lost; at least 2.
    pub circulations: u32,
    /// Time after which a ringlet without arriving packets is declared dead \[symbols\].
    pub dead_symbols: u64,
    /// The bus of each node; `None`: the host takes packets from the ring port at once. Nodes on
    /// several ringlets need a bus.
    pub bus: Option<Bus>,
    /// Errors on links.
    pub faults: Faults,
}

/// An error of a configuration, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// First reserved node id: 65,520 ids are usable (R. Hexsel's thesis).
pub const RESERVED_IDS: u16 = 0xFFF0;

impl Config {
    /// Checks that the parts fit together; returns the first mistake.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |text: String| Err(ConfigError(text));
        let (sizes, what): (Vec<u32>, &str) = match &self.topology {
            Topology::Ring { nodes } => (vec![*nodes], "a ring"),
            Topology::Torus { sizes } => (sizes.clone(), "each dimension of a torus"),
            Topology::Switch { ringlets } => {
                (ringlets.iter().map(|nodes| nodes + 1).collect(), "a ringlet")
            }
        };
        if sizes.is_empty() || sizes.iter().any(|&size| size < 2) {
            return fail(format!("{what} needs at least 2 nodes, not {sizes:?}"));
        }
        let nodes = self.topology.nodes();
        if nodes > u64::from(RESERVED_IDS) {
            return fail(format!("{nodes} nodes are more than the 65520 addresses allow"));
        }
        if nodes != self.addresses.len() as u64 {
            return fail(format!(
                "{nodes} nodes need as many addresses, not {}",
                self.addresses.len()
            ));
        }
        let mut addresses: Vec<NodeId> = self.addresses.clone();
        addresses.sort_unstable();
        if let Some(pair) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return fail(format!("two nodes have the address {}: give each its own", pair[0].0));
        }
        if let Some(high) = addresses.last().filter(|id| id.0 >= RESERVED_IDS) {
            return fail(format!("address {:#x} is reserved: use one below 0xfff0", high.0));
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), ConfigError> {
        let fail = |text: &str| Err(ConfigError(text.to_string()));
        let queues =
            [self.send_queue, self.unacknowledged, self.request_queue, self.response_queue];
        if queues.contains(&0) {
            return fail(
                "a queue without places: send_queue, unacknowledged, request_queue and \
                         response_queue must be at least 1",
            );
        }
        if self.pass_symbols == 0 {
            return fail("pass_symbols must be at least 1: no node passes symbols at once");
        }
        if self.circulations < 2 {
            return fail(
                "circulations must be at least 2: a send may see one end just after it began",
            );
        }
        let rate = self.faults.bit_error_rate;
        if !(0.0..=0.01).contains(&rate) {
            return fail("bit_error_rate must be from 0 to 0.01");
        }
        if self.bus.is_some_and(|bus| bus.bytes_per_second == 0) {
            return fail("a bus of 0 bytes a second moves nothing");
        }
        if self.bus.is_none() && !matches!(self.topology, Topology::Ring { .. }) {
            return fail("nodes of several ringlets need a bus between them: set `bus`");
        }
        Ok(())
    }
}
