//! Worlds of nodes in virtual time, each node with a [`Fabric`](fluxline_core::fabric::Fabric).
//!
//! A [`World`] joins adapters of one kind by their network; its nodes and programs see a
//! [`Cluster`], whatever the network is. `crate::fabric` has the parts of a node.

mod drive;
mod driven;
pub(crate) mod dump_file;
mod look;
mod machine;
pub(crate) mod moments;
mod node;
mod nodes;
pub(crate) mod platform;
mod touched;
mod waking;
mod window;
#[expect(clippy::module_inception, reason = "a world is the main part of its folder")]
mod world;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::Capabilities;
use fluxline_core::lock::Lock;

pub use crate::fabric::OPERATION_BYTES_MAX;
pub use crate::fabric::adapter::Counts;
pub use drive::{Program, Stalled, Step};
pub(crate) use look::Look;
pub use node::Node;
pub use platform::{Due, Entry, Platform, WireEntry};
pub use world::World;

use crate::Fingerprint;
use crate::core::dump::{self, Dump};
use crate::core::interconnect::{Counter, Loss};
pub(crate) use nodes::{NodeState, Nodes};

/// Nodes that can reach each other, and their time.
pub struct Cluster {
    world: Arc<Lock<Box<dyn Nodes>>>,
    capabilities: Capabilities,
}

impl Cluster {
    /// Makes the nodes of a world ready for programs. `link` is the name of the link; puts and gets
    /// of more than `crossover_bytes` go by the DMA engine of its adapters.
    #[must_use]
    pub fn of<A: Platform>(mut world: World<A>, link: &'static str, crossover_bytes: u64) -> Cluster
    where
        A::Wire: Send,
    {
        world.capabilities = node::capabilities(link, crossover_bytes);
        let capabilities = world.capabilities;
        Cluster::of_nodes(world, capabilities)
    }

    /// Makes the nodes of a world of any kind ready for programs.
    pub(crate) fn of_nodes(world: impl Nodes + 'static, capabilities: Capabilities) -> Cluster {
        let world: Box<dyn Nodes> = Box::new(world);
        Cluster { world: Arc::new(Lock::new(world)), capabilities }
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
        Node::new(Arc::clone(&self.world), index, self.capabilities)
    }

    /// Starts a node again that was dropped or has crashed, and returns it: its memory is empty.
    /// `None`: it is alive, or nodes of this cluster cannot start again.
    ///
    /// # Panics
    /// When the index is not below the number of nodes.
    #[must_use]
    pub fn restart(&self, index: usize) -> Option<Node> {
        assert!(index < self.nodes(), "node {index} of {}", self.nodes());
        let has_started = self.world.lock().restart(index);
        has_started.then(|| self.node(index))
    }

    /// Returns the number of times that a node has started: 1, and one more after each restart.
    ///
    /// # Panics
    /// When the index is not below the number of nodes.
    #[must_use]
    pub fn starts(&self, index: usize) -> u32 {
        self.world.lock().look(index).starts
    }

    /// Returns the places where the network has lost frames.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        self.world.lock().losses()
    }

    /// Returns further counts of the network, such as those of its management.
    #[must_use]
    pub fn network_counters(&self) -> Vec<Counter> {
        self.world.lock().counters()
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Moment {
        moments::moment(self.world.lock().now())
    }

    /// Equal when two runs did the same.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.world.lock().fingerprint()
    }

    /// Returns the counts of a node's adapter.
    ///
    /// # Panics
    /// When the index is not below the number of nodes.
    #[must_use]
    pub fn counts(&self, index: usize) -> Counts {
        self.world.lock().counts(index)
    }

    /// Checks that every frame of the network is in exactly one place, by the equations of the
    /// network.
    ///
    /// # Errors
    /// The defect, in one sentence.
    pub fn check_conservation(&self) -> Result<(), String> {
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
