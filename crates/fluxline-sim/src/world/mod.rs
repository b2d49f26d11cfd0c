//! A cluster of nodes on SCI as a [`Fabric`](fluxline_core::fabric::Fabric), in virtual time.
//!
//! ```text
//!   program      Fabric: put, get, atomics, messages ............ node.rs, driver.rs
//!   driver       connections, order, completion, rights ......... driver/, endpoint.rs
//!   mailbox      what drivers tell each other, as remote writes . message.rs
//!   host         stores or DMA, and what they cost .............. mover.rs, crate::host
//!   adapter      transactions: ids, answers, repetition ......... requester.rs, responder.rs
//!   memory       48 bits of address, who may touch what ......... space.rs
//!   interrupts   numbers that other nodes raise ................. interrupt.rs, interrupts.rs
//!   network      packets on ringlets ............................ wire.rs, crate::sci
//! ```
//!
//! The bytes really move: a put's are in packets of at most 64 bytes, which can be lost, and are in
//! the owner's memory when the host's bus has carried them. docs/simulation/fabric.md has what the
//! model adds to SCI, and what it leaves out.

mod address;
mod drive;
mod driver;
mod dump_file;
mod endpoint;
mod entry;
mod fault;
mod interrupt;
#[cfg(test)]
mod interrupt_tests;
mod interrupts;
mod look;
mod machine;
mod message;
mod moments;
mod mover;
mod node;
mod plain_link;
pub mod requester;
pub mod responder;
mod space;
#[cfg(test)]
mod transaction_tests;
mod window;
mod wire;
mod world;

pub use drive::{Program, Stalled, Step};
pub use endpoint::OPERATION_BYTES_MAX;
pub use fault::{Fault, Misfortune};
pub use interrupt::{
    Condition, INTERRUPTS_MAX, InterruptCounts, InterruptError, InterruptReport, TriggerError,
};
pub use interrupts::Interrupts;
pub use machine::Counts;
pub use node::Node;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::lock::Lock;

use crate::core::dump::{self, Dump};
use crate::host::{self, Host};
use crate::net::sci::{self, ConfigError, Network, NodeId};
use crate::{Duration, Fingerprint};
use entry::Entry;
use wire::Wire;
use world::World;

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
    pub times: requester::Times,
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
    Network(sci::Config),
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

/// Nodes that can reach each other, and their time.
pub struct Cluster {
    world: Arc<Lock<World>>,
    crossover_bytes: u64,
}

impl Cluster {
    /// Puts a cluster together. Errors: [`ClusterError`].
    pub fn new(config: &Config) -> Result<Cluster, ClusterError> {
        let (wire, ids) = wire_of(config)?;
        let most = ids.len().min(NODES_MAX);
        if !(2..=most).contains(&config.nodes) {
            return Err(ClusterError::Nodes { nodes: config.nodes, most });
        }
        let mut host = config.host.clone();
        host.card.posting = host::config::Posting::Write;
        let machine = |number: usize| {
            let host = Host::new(number as u32, host.clone())?;
            let mover = mover::Mover::new(config.crossover_bytes);
            Ok(machine::Machine::new(number, &ids, host, mover, config.times))
        };
        let machines: Result<Vec<_>, ClusterError> = (0..config.nodes).map(machine).collect();
        let mut world = World::new(wire, machines?);
        for fault in &config.faults {
            let (Misfortune::Host(node) | Misfortune::Power(node) | Misfortune::Cable(node)) =
                fault.what;
            if node >= config.nodes {
                return Err(ClusterError::Fault { node, last: config.nodes - 1 });
            }
            world.agenda.schedule(fault.at, Entry::Fault(fault.what));
        }
        let world = Arc::new(Lock::new(world));
        Ok(Cluster { world, crossover_bytes: config.crossover_bytes })
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.world.lock().nodes()
    }

    /// Returns a node by its index. Take each node once: dropping it switches it off.
    ///
    /// # Panics
    /// When the index is not below the number of nodes.
    #[must_use]
    pub fn node(&self, index: usize) -> Node {
        assert!(index < self.nodes(), "node {index} of {}", self.nodes());
        Node::new(Arc::clone(&self.world), index, node::capabilities(self.crossover_bytes))
    }

    /// Returns the remote interrupts of a node, by its index; its program uses them beside the
    /// node.
    ///
    /// # Panics
    /// When the index is not below the number of nodes.
    #[must_use]
    pub fn interrupts(&self, index: usize) -> Interrupts {
        assert!(index < self.nodes(), "node {index} of {}", self.nodes());
        Interrupts::new(Arc::clone(&self.world), index)
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Moment {
        moments::moment(self.world.lock().agenda.now())
    }

    /// Equal when two runs did the same.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.world.lock().fingerprint
    }

    /// Returns the counts of a node's adapter.
    ///
    /// # Panics
    /// When the index is not below the number of nodes.
    #[must_use]
    pub fn counts(&self, index: usize) -> Counts {
        self.world.lock().machine(index).counts()
    }

    /// Checks that every packet of the network is in exactly one place, by the equations of
    /// `sci::Network`.
    pub fn check_conservation(&self) -> Result<(), sci::Unbalanced> {
        self.world.lock().check_conservation()
    }

    /// Puts every packet of every link into a new pcapng file from now on, at most `limit_bytes`.
    /// It is written while time goes on, and whole after [`Cluster::end_dump`] or when the cluster
    /// and its nodes are dropped. `false`: a plain link has no packets to show.
    ///
    /// # Errors
    /// When the file exists, or cannot be made.
    pub fn begin_dump(&self, file: &Path, limit_bytes: u64) -> io::Result<bool> {
        self.world.lock().begin_dump(file, Dump::new(limit_bytes))
    }

    /// Ends the dump; `None`: there is none.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn end_dump(&self) -> io::Result<Option<dump::Written>> {
        self.world.lock().end_dump()
    }

    /// Requests that are not over, of all nodes.
    #[must_use]
    pub fn transactions_open(&self) -> usize {
        self.world.lock().transactions_open()
    }
}

fn wire_of(config: &Config) -> Result<(Wire, Vec<NodeId>), ConfigError> {
    match &config.link {
        Link::Plain { delay, loss } => {
            let ids: Vec<NodeId> =
                (0..config.nodes.min(NODES_MAX)).map(|node| NodeId(node as u16)).collect();
            let link = plain_link::PlainLink::new(&ids, *delay, *loss, config.seed);
            Ok((Wire::Plain(link), ids))
        }
        Link::Network(network) => {
            let wire = Wire::Network(Box::new(Network::new(network)?));
            let hosts = match network.topology {
                sci::Topology::Switch { .. } => network.addresses.len().saturating_sub(1),
                _ => network.addresses.len(),
            };
            Ok((wire, network.addresses[..hosts].to_vec()))
        }
    }
}
