//! Nodes that differ from the others.

use serde::{Deserialize, Serialize};

use super::Scenario;
use crate::host::{config, preset};

/// A table of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodePart {
    /// The numbers of the nodes; empty: all nodes.
    pub nodes: Vec<u32>,
    /// The load relative to the other nodes; `None`: as before.
    pub load: Option<f64>,
    /// The host; `None`: as before.
    pub host: Option<HostName>,
}

/// The bus between the memory and the card of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostName {
    /// No delay.
    #[default]
    #[serde(rename = "none")]
    None,
    /// PCI, 32 bits at 33 MHz.
    #[serde(rename = "pci-32-33")]
    Pci32At33,
    /// PCI, 64 bits at 66 MHz.
    #[serde(rename = "pci-64-66")]
    Pci64At66,
    /// PCI-X at 100 MHz.
    #[serde(rename = "pci-x-100")]
    PciXAt100,
    /// PCI-X at 133 MHz.
    #[serde(rename = "pci-x-133")]
    PciXAt133,
}

impl HostName {
    fn bus(self) -> Option<config::Bus> {
        Some(match self {
            HostName::None => return None,
            HostName::Pci32At33 => preset::pci_32_33(),
            HostName::Pci64At66 => preset::pci_64_66(),
            HostName::PciXAt100 => preset::pci_x_100(),
            HostName::PciXAt133 => preset::pci_x_133(),
        })
    }
}

impl NodePart {
    /// Returns true if the table describes a node.
    fn is_for(&self, node: u32) -> bool {
        self.nodes.is_empty() || self.nodes.contains(&node)
    }
}

impl Scenario {
    /// Returns the load of each node relative to the others; empty: all are equal.
    pub(super) fn weights(&self) -> Vec<f64> {
        if self.node.iter().all(|part| part.load.is_none()) {
            return Vec::new();
        }
        let mut weights = vec![1.0; self.network.node_count() as usize];
        for part in &self.node {
            let Some(load) = part.load else { continue };
            for (node, weight) in (0..).zip(&mut weights) {
                if part.is_for(node) {
                    *weight = load;
                }
            }
        }
        weights
    }

    /// Returns the bus of each node's host; empty: no node has one.
    pub(super) fn hosts(&self) -> Vec<Option<config::Bus>> {
        if self.node.iter().all(|part| part.host.is_none()) {
            return Vec::new();
        }
        let mut hosts = vec![None; self.network.node_count() as usize];
        for part in &self.node {
            let Some(host) = part.host else { continue };
            for (node, bus) in (0..).zip(&mut hosts) {
                if part.is_for(node) {
                    *bus = host.bus();
                }
            }
        }
        hosts
    }
}
