//! Nodes with a `Fabric` on an ATOLL network.

use super::super::manager::{Managed, Settings};
use super::super::{Config, ConfigError, Network, Wiring};
use super::shared::Shared;
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::Interconnect;
use crate::fabric::courier::{Courier, Frame, Times};
use crate::host::SharedBus;
use crate::world::{Cluster, Platform, World};

/// The nodes, their network and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The network.
    pub network: Config,
    /// Processes of each node, 1 to 4: each has a host port and a `Fabric`. Process p of node n
    /// has the number n times `processes` plus p.
    pub processes: u32,
    /// The adapter and host of each node.
    pub times: Times,
    /// The faults; they name nodes.
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
        let (network, many) = (self.network.clone(), self.processes);
        match (self.management, many) {
            (None, 1) => self.join(<Network<Frame>>::new(network)?),
            (None, _) => self.join(Shared::new(<Network<_>>::new(network)?, many)?),
            (Some(settings), 1) => self.join(Managed::<Frame>::new(network, settings)?),
            (Some(settings), _) => self.join(Shared::new(Managed::new(network, settings)?, many)?),
        }
    }

    /// Joins the processes by a network. Those of a node share its bus.
    fn join<W>(&self, network: W) -> Result<Cluster, ConfigError>
    where
        W: Interconnect<Frame = Frame> + Send + 'static,
        Courier<W>: Platform<Wire = W>,
    {
        let nodes = self.network.wiring.nodes();
        let bus = || self.times.dma.map(|dma| SharedBus::new(dma.bus));
        let buses: Vec<Option<SharedBus>> = (0..nodes).map(|_| bus()).collect();
        let card = |process: u32| {
            let bus = buses[(process / self.processes) as usize].clone();
            Courier::<W>::on_bus(process, self.times, bus)
        };
        let mut world = World::new(network, (0..nodes * self.processes).map(card));
        for &fault in &self.faults {
            self.check(fault)?;
            for kind in self.of_processes(fault.kind) {
                world.plan_fault(Fault { kind, ..fault });
            }
        }
        Ok(Cluster::of(world, LINK, u64::MAX))
    }

    fn check(&self, fault: Fault) -> Result<(), ConfigError> {
        let (node, last) = (fault.kind.last_node(), self.network.wiring.nodes() - 1);
        if node > last {
            let text = format!("a fault names node {node}, but nodes are 0 to {last}");
            return Err(ConfigError(text));
        }
        lacks(fault.kind, &self.network.wiring)
            .map_or(Ok(()), |reason| Err(ConfigError(reason.to_owned())))
    }

    /// Returns a fault of a node as faults of its processes: all of them end with their machine.
    fn of_processes(&self, kind: FaultKind) -> Vec<FaultKind> {
        let all = self.processes;
        let own = |node: u32| node * all..(node + 1) * all;
        match kind {
            FaultKind::Host(node) => own(node).map(FaultKind::Host).collect(),
            FaultKind::Power(node) => own(node).map(FaultKind::Power).collect(),
            FaultKind::Restart(node) => own(node).map(FaultKind::Restart).collect(),
            FaultKind::Cable(node) => vec![FaultKind::Cable(node * all)],
            FaultKind::Repair(node) => vec![FaultKind::Repair(node * all)],
            FaultKind::CutLink { from, to } => {
                vec![FaultKind::CutLink { from: from * all, to: to * all }]
            }
            FaultKind::MendLink { from, to } => {
                vec![FaultKind::MendLink { from: from * all, to: to * all }]
            }
        }
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
