//! Nodes with a `Fabric` on an ATOLL network.

use super::super::manager::{Managed, Settings};
use super::super::{Config, ConfigError, Network};
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::Interconnect;
use crate::fabric::courier::{Courier, Frame, Times};
use crate::world::{Cluster, Platform, World};

/// The nodes, their network and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The network.
    pub network: Config,
    /// The adapter and host of each node.
    pub times: Times,
    /// The faults.
    pub faults: Vec<Fault>,
    /// The management; `None`: paths are fixed, and faults are not repaired.
    pub management: Option<Settings>,
}

/// The name of the link.
const LINK: &str = "sim:atoll";

impl ClusterConfig {
    /// Builds the cluster.
    ///
    /// # Errors
    /// A parameter of the network, or a fault that it cannot have.
    pub fn build(&self) -> Result<Cluster, ConfigError> {
        match self.management {
            None => self.join(Network::<Frame>::new(self.network.clone())?),
            Some(settings) => self.join(Managed::<Frame>::new(self.network.clone(), settings)?),
        }
    }

    /// Joins the nodes by a network.
    fn join<W>(&self, network: W) -> Result<Cluster, ConfigError>
    where
        W: Interconnect<Frame = Frame> + Send + 'static,
        Courier<W>: Platform<Wire = W>,
    {
        let nodes = network.nodes();
        let card = |node| Courier::<W>::new(node, self.times);
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
        Ok(Cluster::of(world, LINK, u64::MAX))
    }
}

/// Returns the reason why a fault is not possible on ATOLL, if it is not.
fn lacks(kind: FaultKind) -> Option<&'static str> {
    match kind {
        FaultKind::Restart(_) => {
            Some("a node on ATOLL cannot start again; leave restart out, or use sim:ethernet")
        }
        FaultKind::CutLink { .. } | FaultKind::MendLink { .. } => {
            Some("cut and mend are for links between routers; on ATOLL write cable:3@1ms")
        }
        _ => None,
    }
}
