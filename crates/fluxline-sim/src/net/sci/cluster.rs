//! Clusters of nodes on SCI: the configuration, and the world that is built of it.

use std::sync::Arc;

use super::adapter::{Card, Ids, Mover, PlainWire, Step, Times};
use super::{Config as NetworkConfig, ConfigError, Network, NodeId, Topology, link};
use crate::Duration;
use crate::core::fault::{Fault, FaultKind};
use crate::host::{self, Host};
use crate::net::plain;
use crate::world::{Cluster, Due, Platform, World};

/// The configuration of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Nodes, of which there are at least 2.
    pub nodes: usize,
    /// Each node's machine. Stores are always sent as writes, which are answered, even if the card
    /// could send moves: without an answer, the sender does not know that the bytes are in place.
    pub host: host::Config,
    /// The link between the nodes.
    pub link: Link,
    /// The seed of a plain link; a network has its own.
    pub seed: u64,
    /// Puts and gets of more than this go by the DMA engine \[byte\].
    pub crossover_bytes: u64,
    /// Of the transaction layer.
    pub times: Times,
    /// The faults, with their times.
    pub faults: Vec<Fault>,
}

/// The link between the nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// A fixed delay; each packet and each echo is lost with a chance.
    Plain {
        /// One way.
        delay: Duration,
        /// The chance.
        loss: f64,
    },
    /// An SCI network; its first nodes are the cluster's.
    Network(NetworkConfig),
}

/// A reason why a cluster cannot be built, in one sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// The network's.
    #[error("the network: {0}")]
    Network(#[from] ConfigError),
    /// The host's.
    #[error("{0}")]
    Host(#[from] host::config::BadConfig),
    /// Too few nodes, or more than the network has.
    #[error("a cluster has 2 to {most} nodes here, not {nodes}")]
    Nodes {
        /// The number requested.
        nodes: usize,
        /// The largest possible number.
        most: usize,
    },
    /// A fault that this network does not have.
    #[error("{0}")]
    NoSuchFault(&'static str),
    /// A fault of a node that does not exist.
    #[error("a fault names node {node}, but nodes are 0 to {last}")]
    Fault {
        /// The node.
        node: usize,
        /// The last.
        last: usize,
    },
}

/// The most nodes: each has a host of some kilobytes. A choice.
const NODES_MAX: usize = 4096;

/// The name of the link.
const LINK: &str = "sim:sci";

impl<S> From<link::Entry> for Due<link::Entry, S> {
    fn from(entry: link::Entry) -> Due<link::Entry, S> {
        Due::Wire(entry)
    }
}

impl<S> From<plain::Entry> for Due<plain::Entry, S> {
    fn from(entry: plain::Entry) -> Due<plain::Entry, S> {
        Due::Wire(entry)
    }
}

impl<W> From<Step> for Due<W, Step> {
    fn from(step: Step) -> Due<W, Step> {
        Due::Step(step)
    }
}

impl Config {
    /// Builds the cluster. Errors: [`ClusterError`].
    pub fn build(&self) -> Result<Cluster, ClusterError> {
        match &self.link {
            Link::Plain { delay, loss } => {
                let count = self.nodes.min(NODES_MAX);
                let ids = Arc::new(Ids::new((0..count).map(|node| NodeId(node as u16)).collect()));
                self.world(PlainWire::new(&ids, *delay, *loss, self.seed), self.host.clone(), &ids)
            }
            Link::Network(config) => {
                let network = Network::new(config)?;
                let hosts = match config.topology {
                    Topology::Switch { .. } => config.addresses.len().saturating_sub(1),
                    _ => config.addresses.len(),
                };
                let ids = Arc::new(Ids::new(config.addresses[..hosts].to_vec()));
                let mut host = self.host.clone();
                if config.bus.is_some() {
                    // The network's bus carries each packet between host and ring ports.
                    host.card.internal_mb_per_s = u32::MAX;
                }
                self.world(network, host, &ids)
            }
        }
    }

    fn world<W>(
        &self,
        wire: W,
        mut host: host::Config,
        ids: &Arc<Ids>,
    ) -> Result<Cluster, ClusterError>
    where
        Card<W>: Platform<Wire = W>,
        W: Send,
    {
        let most = ids.len().min(NODES_MAX);
        if !(2..=most).contains(&self.nodes) {
            return Err(ClusterError::Nodes { nodes: self.nodes, most });
        }
        host.card.posting = host::config::Posting::Write;
        let card = |number: u32| {
            let host = Host::new(number, host.clone())?;
            Ok(Card::new(number, ids, host, Mover::new(self.crossover_bytes), self.times))
        };
        let cards: Result<Vec<Card<W>>, ClusterError> = (0..self.nodes as u32).map(card).collect();
        let mut world = World::new(wire, cards?);
        for &fault in &self.faults {
            let node = fault.kind.last_node() as usize;
            if let Some(reason) = sci_lacks(fault.kind) {
                return Err(ClusterError::NoSuchFault(reason));
            }
            if node >= self.nodes {
                return Err(ClusterError::Fault { node, last: self.nodes - 1 });
            }
            world.plan_fault(fault);
        }
        Ok(Cluster::of(world, LINK, self.crossover_bytes))
    }
}

/// Returns the reason why a fault is not possible on SCI, if it is not.
#[must_use]
pub fn sci_lacks(kind: FaultKind) -> Option<&'static str> {
    match kind {
        FaultKind::Restart(_) => Some(
            "a node on SCI cannot start again: its peers keep the numbers of its mailboxes; leave \
             restart out, or use sim:ethernet",
        ),
        FaultKind::CutLink { .. } | FaultKind::MendLink { .. } => {
            Some("cut and mend are for links between routers; on SCI write cable:3@1ms")
        }
        _ => None,
    }
}
