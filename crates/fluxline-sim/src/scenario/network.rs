//! The part of a scenario that describes nodes and links.

use serde::{Deserialize, Serialize};

use crate::net::atoll::Wiring;
use crate::net::router::Graph;
use crate::net::sci::Preset;

/// Most dimensions of a mesh or torus.
pub(super) const DIMENSIONS_MAX: u32 = 6;
/// Most ringlets of a switch.
pub(super) const PORTS_MAX: u32 = 64;

/// The kind of network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One SCI ringlet.
    #[default]
    SciRing,
    /// SCI ringlets along each dimension.
    SciTorus,
    /// SCI ringlets joined by one switch.
    SciSwitch,
    /// A ring of routers.
    Ring,
    /// A mesh of routers: lines along each dimension.
    Mesh,
    /// A torus of routers: rings along each dimension.
    Torus,
    /// Routers on any connected graph.
    Graph,
    /// Nodes on the ports of one Ethernet switch.
    Ethernet,
    /// ATOLL nodes in rows and columns.
    AtollGrid,
    /// ATOLL nodes in rows and columns whose ends are joined.
    AtollTorus,
    /// ATOLL nodes in a ring.
    AtollRing,
    /// ATOLL nodes with a cable between each two.
    AtollFull,
    /// ATOLL nodes with any cables.
    AtollGraph,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 13] = [
        Kind::SciRing,
        Kind::SciTorus,
        Kind::SciSwitch,
        Kind::Ring,
        Kind::Mesh,
        Kind::Torus,
        Kind::Graph,
        Kind::Ethernet,
        Kind::AtollGrid,
        Kind::AtollTorus,
        Kind::AtollRing,
        Kind::AtollFull,
        Kind::AtollGraph,
    ];

    /// Returns true if its links are SCI's.
    #[must_use]
    pub fn is_sci(self) -> bool {
        matches!(self, Kind::SciRing | Kind::SciTorus | Kind::SciSwitch)
    }

    /// Returns true if its nodes are ATOLL chips.
    #[must_use]
    pub fn is_atoll(self) -> bool {
        matches!(
            self,
            Kind::AtollGrid
                | Kind::AtollTorus
                | Kind::AtollRing
                | Kind::AtollFull
                | Kind::AtollGraph
        )
    }

    /// Returns true if it is a network of generic routers.
    #[must_use]
    pub fn is_routers(self) -> bool {
        matches!(self, Kind::Ring | Kind::Mesh | Kind::Torus | Kind::Graph)
    }

    /// Returns true if `side` and `dimensions` define its size, not `nodes`.
    #[must_use]
    pub fn is_grid(self) -> bool {
        matches!(
            self,
            Kind::SciTorus | Kind::Mesh | Kind::Torus | Kind::AtollGrid | Kind::AtollTorus
        )
    }
}

/// The retry of an SCI node after a busy echo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryName {
    /// By generations: no node starves.
    #[default]
    Aged,
    /// At once.
    Plain,
}

/// The nodes and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetworkPart {
    /// The kind.
    pub kind: Kind,
    /// Nodes of a ring; of a switch: on each ringlet.
    pub nodes: u32,
    /// Ringlets of a switch.
    pub ports: u32,
    /// Nodes of each ringlet of a switch, if they differ.
    pub ringlets: Vec<u32>,
    /// Nodes along each dimension of a mesh or torus.
    pub side: u32,
    /// Dimensions of a mesh or torus.
    pub dimensions: u32,
    /// Nodes along each dimension, if they differ.
    pub sides: Vec<u32>,
    /// The file with the links of a graph, or the cables of ATOLL nodes.
    pub edges: String,
    /// The content of this file.
    #[serde(skip)]
    pub graph: Option<Graph>,
    /// The cables of this file, for kind `atoll-graph`.
    #[serde(skip)]
    pub wiring: Option<Wiring>,
    /// SCI: which cards; the keys below override single values of them.
    pub preset: Preset,
    /// SCI: rate of a link \[MB/s\].
    pub link_mb_s: Option<f64>,
    /// SCI: delay from a node's input to its output \[symbols\].
    pub pass_symbols: Option<u32>,
    /// SCI: delay of a cable \[symbols\].
    pub cable_symbols: Option<u32>,
    /// SCI: true if go bits allocate the bandwidth.
    pub flow_control: bool,
    /// SCI: the retry after a busy echo.
    pub retry: RetryName,
    /// SCI: sends that a node can hold.
    pub send_queue: Option<u32>,
    /// SCI: sends that may be unacknowledged at once.
    pub unacknowledged: Option<u32>,
    /// SCI: packets that a node can hold until its host takes them.
    pub receive_queue: Option<u32>,
    /// SCI torus and switch: the bus between a node's ringlets and its host \[MB/s\].
    pub bus_mb_s: Option<f64>,
    /// Routers: rate of a link \[bytes/ns\].
    pub link_bytes_per_ns: u32,
    /// Routers: time from a head's arrival until it can leave \[ns\].
    pub router_ns: u32,
    /// Routers: time on a link \[ns\].
    pub wire_ns: u32,
    /// Routers: time that the routers add to a credit's way back over the link \[ns\].
    pub credit_ns: u32,
    /// Routers: virtual channels of a link.
    pub virtual_channels: u8,
    /// Routers: buffer of each virtual channel \[byte\].
    pub buffer_bytes: u32,
    /// Largest payload of a packet \[byte\].
    pub packet_bytes: u32,
    /// Routers: header of each packet \[byte\].
    pub header_bytes: u32,
}

impl Default for NetworkPart {
    fn default() -> NetworkPart {
        NetworkPart {
            kind: Kind::SciRing,
            nodes: 8,
            ports: 4,
            ringlets: Vec::new(),
            side: 8,
            dimensions: 2,
            sides: Vec::new(),
            edges: String::new(),
            graph: None,
            wiring: None,
            preset: Preset::Lc2,
            link_mb_s: None,
            pass_symbols: None,
            cable_symbols: None,
            flow_control: true,
            retry: RetryName::Aged,
            send_queue: None,
            unacknowledged: None,
            receive_queue: None,
            bus_mb_s: None,
            link_bytes_per_ns: 16,
            router_ns: 5,
            wire_ns: 1,
            credit_ns: 0,
            virtual_channels: 2,
            buffer_bytes: 128,
            packet_bytes: 64,
            header_bytes: 0,
        }
    }
}

impl NetworkPart {
    /// Returns the number of nodes that send and receive.
    #[must_use]
    pub fn node_count(&self) -> u64 {
        match self.kind {
            Kind::SciRing | Kind::Ring | Kind::Ethernet | Kind::AtollRing | Kind::AtollFull => {
                u64::from(self.nodes)
            }
            Kind::AtollGraph => self.wiring.as_ref().map_or(0, |of| u64::from(of.nodes())),
            Kind::SciSwitch => self.ringlets().iter().map(|&nodes| u64::from(nodes)).sum(),
            Kind::Graph => self.graph.as_ref().map_or(0, |graph| u64::from(graph.nodes())),
            Kind::SciTorus | Kind::Mesh | Kind::Torus | Kind::AtollGrid | Kind::AtollTorus => {
                let product = |all: u64, &side: &u32| all.saturating_mul(u64::from(side));
                self.sides().iter().fold(1, product)
            }
        }
    }

    /// Returns the nodes along each dimension of a mesh or torus.
    #[must_use]
    pub fn sides(&self) -> Vec<u32> {
        match self.sides.is_empty() {
            true => vec![self.side; self.dimensions.min(DIMENSIONS_MAX + 1) as usize],
            false => self.sides.clone(),
        }
    }

    /// Returns the nodes on each ringlet of a switch.
    #[must_use]
    pub fn ringlets(&self) -> Vec<u32> {
        match self.ringlets.is_empty() {
            true => vec![self.nodes; self.ports.min(PORTS_MAX + 1) as usize],
            false => self.ringlets.clone(),
        }
    }
}
