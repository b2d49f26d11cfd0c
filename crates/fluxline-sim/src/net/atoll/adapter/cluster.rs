//! Nodes with a `Fabric` on an ATOLL network.

use super::super::{Config, ConfigError, Network, Wiring};
use crate::core::fault::{Fault, FaultKind};
use crate::fabric::courier::{Courier, Frame, Times};
use crate::world::{Cluster, World};

/// The nodes, their network and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The network.
    pub network: Config,
    /// The adapter and host of each node.
    pub times: Times,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// The name of the link.
const LINK: &str = "sim:atoll";

impl ClusterConfig {
    /// Builds the cluster.
    ///
    /// # Errors
    /// A parameter of the network, or a fault that it cannot have.
    pub fn build(&self) -> Result<Cluster, ConfigError> {
        let network = Network::<Frame>::new(self.network.clone())?;
        let nodes = self.network.wiring.nodes();
        let card = |node| Courier::<Network<Frame>>::new(node, self.times);
        let mut world = World::new(network, (0..nodes).map(card));
        for &fault in &self.faults {
            let (node, last) = (fault.kind.last_node(), nodes - 1);
            if node >= nodes {
                let text = format!("a fault names node {node}, but nodes are 0 to {last}");
                return Err(ConfigError(text));
            }
            if let Some(reason) = lacks(fault.kind, &self.network.wiring) {
                return Err(ConfigError(reason.to_owned()));
            }
            world.plan_fault(fault);
        }
        Ok(Cluster::of(world, LINK, u64::MAX))
    }
}

/// Returns the reason why a fault is not possible on ATOLL, if it is not.
fn lacks(kind: FaultKind, wiring: &Wiring) -> Option<&'static str> {
    match kind {
        FaultKind::Restart(_) => {
            Some("a node on ATOLL cannot start again; leave restart out, or use sim:ethernet")
        }
        FaultKind::CutLink { from, to } | FaultKind::MendLink { from, to }
            if !wiring.are_joined(from, to) =>
        {
            Some("cut and mend need two nodes with a cable, such as cut:0-1@1ms")
        }
        _ => None,
    }
}
