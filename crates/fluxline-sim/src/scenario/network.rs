//! The part of a scenario that describes nodes and links.

use serde::{Deserialize, Serialize};

use crate::net::sci::Preset;

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
    /// Nodes on the ports of one Ethernet switch.
    Ethernet,
}

impl Kind {
    /// Returns true if its links are SCI's.
    #[must_use]
    pub fn is_sci(self) -> bool {
        matches!(self, Kind::SciRing | Kind::SciTorus | Kind::SciSwitch)
    }

    /// Returns true if `side` and `dimensions` define its size, not `nodes`.
    #[must_use]
    pub fn is_grid(self) -> bool {
        matches!(self, Kind::SciTorus | Kind::Mesh | Kind::Torus)
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
    /// Nodes along each dimension of a mesh or torus.
    pub side: u32,
    /// Dimensions of a mesh or torus.
    pub dimensions: u32,
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
    /// Routers: virtual channels of a link.
    pub virtual_channels: u8,
    /// Routers: buffer of each virtual channel \[byte\].
    pub buffer_bytes: u32,
    /// Routers: largest payload of a packet \[byte\].
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
            side: 8,
            dimensions: 2,
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
            Kind::SciRing | Kind::Ring | Kind::Ethernet => u64::from(self.nodes),
            Kind::SciSwitch => u64::from(self.nodes) * u64::from(self.ports),
            _ => u64::from(self.side).saturating_pow(self.dimensions),
        }
    }
}
