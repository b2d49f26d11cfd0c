//! The configuration of a network.

use super::error::NetworkError;
use super::graph::Graph;
use super::topology::{Dateline, Dimension, Topology, Ways, Wrap};
use crate::Clock;

/// A network of cut-through routers: a packet leaves as soon as its head has arrived, its output is
/// free and the next buffer has room for all of it, or gets room as fast as the packet arrives.
///
/// Each router has one node. Virtual channels share a link packet by packet (a packet is not
/// interrupted); every input channel has its own path to the switch. A credit travels back over the
/// wire, and the routers add `credit_ticks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The grid.
    pub dimensions: Vec<Dimension>,
    /// The graph that replaces the grid.
    pub graph: Option<Graph>,
    /// The avoidance of deadlocks in rings.
    pub dateline: Dateline,
    /// The clock of all links and routers.
    pub clock: Clock,
    /// The rate of a link \[bytes per tick\].
    pub bytes_per_tick: u32,
    /// Virtual channels of each link.
    pub channels: u8,
    /// Buffer of each channel at its receiving end \[bytes\]; at least one whole packet.
    pub buffer_bytes: u32,
    /// The largest payload of a packet \[bytes\].
    pub packet_bytes: u32,
    /// The header of each packet \[bytes\].
    pub header_bytes: u32,
    /// Time from a head's arrival until it can leave the router \[ticks\].
    pub router_ticks: u32,
    /// Time on a link \[ticks\], including links from and to nodes; at least 1.
    pub wire_ticks: u32,
    /// Time that the routers add to the way of a credit back over the wire: from the free space of
    /// a whole packet until the credit leaves, and from its arrival until the sender may use it
    /// \[ticks\].
    pub credit_ticks: u32,
    /// Most packets that wait at a node; beyond them it refuses messages of an open loop.
    pub source_packets: u32,
}

impl NetworkConfig {
    /// Returns a torus (or ring) of `sides` with links both ways, 16 bytes per nanosecond, and two
    /// channels with two packets of 64 bytes each; router and wire take 5 + 1 ticks. Assumed: a
    /// simple machine for comparisons, not a real one.
    #[must_use]
    pub fn torus(sides: &[u32]) -> NetworkConfig {
        let dimension = |&routers| Dimension { routers, wrap: Wrap::Ring, ways: Ways::Both };
        NetworkConfig {
            dimensions: sides.iter().map(dimension).collect(),
            graph: None,
            dateline: Dateline::Kept,
            clock: Clock::from_hertz(1_000_000_000),
            bytes_per_tick: 16,
            channels: 2,
            buffer_bytes: 128,
            packet_bytes: 64,
            header_bytes: 0,
            router_ticks: 5,
            wire_ticks: 1,
            credit_ticks: 0,
            source_packets: 1024,
        }
    }

    /// The rate of a link \[bytes a second\].
    #[must_use]
    pub fn link_bytes_per_s(&self) -> f64 {
        self.clock.hertz() as f64 * f64::from(self.bytes_per_tick)
    }

    /// Checks the configuration and returns its topology.
    ///
    /// # Errors
    /// Names the invalid value and the allowed ones.
    pub fn check(&self) -> Result<Topology, NetworkError> {
        let topology = match &self.graph {
            None => Topology::new(&self.dimensions, self.dateline)?,
            Some(graph) => Topology::of_graph(graph.clone()),
        };
        let has_ring = self.graph.is_none()
            && self.dimensions.iter().any(|dimension| dimension.wrap == Wrap::Ring);
        let packet = u64::from(self.packet_bytes) + u64::from(self.header_bytes);
        let inputs = topology.ports() * u32::from(self.channels);
        let problem = if self.bytes_per_tick == 0 || self.packet_bytes == 0 {
            "a link must carry bytes, and a packet hold some: give bytes_per_tick and packet_bytes \
             of 1 or more"
                .into()
        } else if self.wire_ticks == 0 {
            "wire_ticks is 0: a link takes 1 tick or more".into()
        } else if self.clock.hertz() > 100_000_000_000 {
            format!("a clock of {} Hz: give at most 100 GHz", self.clock.hertz())
        } else if self.channels == 0 || inputs > 64 {
            format!("{inputs} channels into a router: give 1 to 64 (ports times channels)")
        } else if has_ring && self.dateline == Dateline::Kept && self.channels < 2 {
            "a ring with a dateline needs 2 channels or more".into()
        } else if packet > u64::from(self.buffer_bytes) {
            format!("a buffer of {} bytes holds no packet of {packet}", self.buffer_bytes)
        } else if self.source_packets == 0 {
            "source_packets is 0: a node must hold a packet to send it".into()
        } else {
            return Ok(topology);
        };
        Err(NetworkError(problem))
    }
}
