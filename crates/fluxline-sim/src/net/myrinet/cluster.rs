//! Nodes with a `Fabric` on a Myrinet network.

use super::{Config, ConfigError, Network};
use crate::Duration;
use crate::core::fault::{Fault, FaultKind};
use crate::fabric::courier::{Courier, Frame, Times};
use crate::world::{Cluster, World};

/// The nodes, their network and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The name of the link.
    pub link: &'static str,
    /// The network.
    pub network: Config,
    /// The host of each node.
    pub times: Times,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// Processor time of a GM call. Published: less than 0.5 us for sending and receiving together.
pub const CALL_GM: Duration = Duration::from_ns(250);

/// Returns the times of a host with calls of a length. The card uses the bus by itself, and repeats
/// lost packets, so the adapter is patient.
#[must_use]
pub fn times(call: Duration) -> Times {
    Times { call, answer: Duration::from_us(20_000), dma: None, ..Times::default() }
}

impl ClusterConfig {
    /// Builds the cluster.
    ///
    /// # Errors
    /// A parameter of the network, or a fault that it cannot have.
    pub fn build(&self) -> Result<Cluster, ConfigError> {
        let network = Network::<Frame>::new(self.network.clone())?;
        let nodes = self.network.nodes;
        let card = |node| Courier::<Network<Frame>>::new(node, self.times);
        let mut world = World::new(network, (0..nodes).map(card));
        for &fault in &self.faults {
            let (node, last) = (fault.kind.node(), nodes - 1);
            if node >= nodes {
                let text = format!("a fault names node {node}, but nodes are 0 to {last}");
                return Err(ConfigError(text));
            }
            if let Some(reason) = lacks(fault.kind) {
                return Err(ConfigError(reason.to_owned()));
            }
            world.plan_fault(fault);
        }
        Ok(Cluster::of(world, self.link, u64::MAX))
    }
}

/// Returns the reason why a fault is not possible, if it is not.
fn lacks(kind: FaultKind) -> Option<&'static str> {
    match kind {
        FaultKind::Restart(_) => {
            Some("a node of this link cannot start again; leave restart out, or use sim:ethernet")
        }
        FaultKind::CutLink { .. } | FaultKind::MendLink { .. } => {
            Some("cut and mend are for links between routers; on this link write cable:3@1ms")
        }
        _ => None,
    }
}
