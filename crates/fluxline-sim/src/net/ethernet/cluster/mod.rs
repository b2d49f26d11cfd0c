//! Clusters of nodes on Ethernet: the configuration, and the world that is built of it.

mod port;
mod station;
mod world;

pub use port::{Buffers, LINK};
pub use station::HostCost;

use station::Common;
use world::World;

use super::config::{Config as NetworkConfig, ConfigError};
use super::host::{self, BadHost, Hosts};
use super::network::Network;
use crate::core::fault::{Fault, FaultKind};
use crate::world::Cluster;

/// The configuration of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The network.
    pub network: NetworkConfig,
    /// The buffers of each socket.
    pub buffers: Buffers,
    /// The work of a processor for each frame.
    pub host: HostCost,
    /// The PC of every node; `None`: frames cost `host` alone.
    pub machine: Option<host::Config>,
    /// The faults, with their times.
    pub faults: Vec<Fault>,
}

/// A reason why a cluster cannot be built, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The network's.
    #[error(transparent)]
    Network(#[from] ConfigError),
    /// The MTU is too small for the set-up frames of the endpoint.
    #[error("an MTU of {mtu} bytes is too small to connect nodes; write {least} or more")]
    Mtu {
        /// The MTU \[byte\].
        mtu: u32,
        /// The least that works \[byte\].
        least: u32,
    },
    /// The hosts'.
    #[error(transparent)]
    Host(#[from] BadHost),
    /// A fault of a node that does not exist.
    #[error("a fault names node {node}, but nodes are 0 to {last}")]
    Fault {
        /// The node.
        node: u32,
        /// The last.
        last: u32,
    },
    /// A fault of a link between routers.
    #[error("Ethernet has one switch, and no links between routers; write cable:3@1ms")]
    Link,
}

/// The least MTU over which two endpoints connect \[byte\]: their set-up frames have 128 bytes.
/// Source: docs/wire.md.
const MTU_MIN: u32 = 128 + 28;

impl Config {
    /// Returns a cluster on this network, whose hosts cost no time.
    #[must_use]
    pub fn new(network: NetworkConfig) -> Config {
        let (buffers, host) = (Buffers::default(), HostCost::default());
        Config { network, buffers, host, machine: None, faults: Vec::new() }
    }

    /// Builds the cluster.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn build(&self) -> Result<Cluster, ClusterError> {
        let Config { network: config, buffers, host, machine, faults } = self;
        let network = Network::new(config.clone())?;
        if config.mtu < MTU_MIN {
            return Err(ClusterError::Mtu { mtu: config.mtu, least: MTU_MIN });
        }
        let common = Common { config: config.clone(), buffers: *buffers, host: *host };
        let hosts = match machine {
            None => Hosts::without(network),
            Some(_) => Hosts::new(network, &vec![machine.clone(); config.nodes as usize])?,
        };
        let mut world = World::new(hosts, common);
        for &fault in faults {
            let node = fault.kind.last_node();
            if node >= config.nodes {
                return Err(ClusterError::Fault { node, last: config.nodes - 1 });
            }
            if matches!(fault.kind, FaultKind::CutLink { .. } | FaultKind::MendLink { .. }) {
                return Err(ClusterError::Link);
            }
            world.plan_fault(fault);
        }
        let capabilities = world.capabilities();
        Ok(Cluster::of_nodes(world, capabilities))
    }
}
