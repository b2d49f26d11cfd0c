//! The host ports of nodes, and the processes that own them.
//!
//! The driver of a node gives each of the four host ports to at most one process, with a key that
//! nobody else has. A port with an owner takes messages of its owner alone, and delivers messages
//! of granted senders alone. A port without an owner is open.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::random::Draw;

/// A host port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortName {
    /// The node.
    pub node: u32,
    /// The host port, 0 to 3.
    pub port: u8,
}

/// The right of a process to use its host port. Only the driver makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPort {
    name: PortName,
    key: u64,
}

impl HostPort {
    /// Returns the port.
    #[must_use]
    pub fn name(&self) -> PortName {
        self.name
    }
}

/// A refusal of a driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The node does not exist.
    #[error("node {node} does not exist; nodes are 0 to {last}")]
    Node {
        /// The given node.
        node: u32,
        /// The last node.
        last: u32,
    },
    /// All host ports have owners.
    #[error("all four host ports of node {node} belong to processes: {owners}; end one of them")]
    NoPort {
        /// The node.
        node: u32,
        /// The owners.
        owners: String,
    },
    /// The key is not that of the owner.
    #[error(
        "host port {port} of node {node} belongs to {owner}; a process sends by its own host port"
    )]
    NotOwner {
        /// The node.
        node: u32,
        /// The port.
        port: u8,
        /// The owner, or `nobody`.
        owner: String,
    },
    /// The message names another port than that of its sender.
    #[error("the message names host port {given}, but the process owns host port {own}")]
    OtherPort {
        /// The port of the message.
        given: u8,
        /// The port of the process.
        own: u8,
    },
    /// The queue is full: try again after a message has ended.
    #[error("too many messages of this process wait; try again after one of them has ended")]
    Full,
    /// The target has no route, or the message is too long.
    #[error("node {target} has no route from here, or the message is too long")]
    Unreachable {
        /// The receiver.
        target: u32,
    },
}

#[derive(Clone, Debug)]
struct Owner {
    process: String,
    key: u64,
    /// Nodes whose processes may write.
    granted: BTreeSet<u32>,
}

/// A message that a port did not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The sender.
    pub from: PortName,
    /// The receiver.
    pub to: PortName,
}

/// The host ports of all nodes.
#[derive(Clone, Debug)]
pub struct HostPorts {
    nodes: u32,
    owners: BTreeMap<PortName, Owner>,
    draw: Draw,
}

impl HostPorts {
    /// Makes the ports of `nodes` nodes, all open.
    #[must_use]
    pub fn new(nodes: u32, seed: u64) -> HostPorts {
        HostPorts { nodes, owners: BTreeMap::new(), draw: Draw::new(seed) }
    }

    /// Gives the lowest free host port of a node to a process.
    ///
    /// # Errors
    /// [`PortError::Node`], [`PortError::NoPort`].
    pub fn assign(&mut self, node: u32, process: &str) -> Result<HostPort, PortError> {
        if node >= self.nodes {
            return Err(PortError::Node { node, last: self.nodes - 1 });
        }
        let names = (0..4).map(|port| PortName { node, port });
        let Some(name) = names.clone().find(|name| !self.owners.contains_key(name)) else {
            let owners: Vec<&str> = names.map(|name| self.owner(name)).collect();
            return Err(PortError::NoPort { node, owners: owners.join(", ") });
        };
        let key = self.draw.bits();
        let (process, granted) = (process.to_owned(), BTreeSet::new());
        self.owners.insert(name, Owner { process, key, granted });
        Ok(HostPort { name, key })
    }

    /// Takes a host port back from its process.
    ///
    /// # Errors
    /// [`PortError::NotOwner`].
    pub fn release(&mut self, port: HostPort) -> Result<(), PortError> {
        self.check(port)?;
        self.owners.remove(&port.name);
        Ok(())
    }

    /// Lets the processes of another node write to this port.
    ///
    /// # Errors
    /// [`PortError::NotOwner`].
    pub fn grant(&mut self, port: HostPort, from: u32) -> Result<(), PortError> {
        self.check(port)?;
        if let Some(owner) = self.owners.get_mut(&port.name) {
            owner.granted.insert(from);
        }
        Ok(())
    }

    /// Takes that right back.
    ///
    /// # Errors
    /// [`PortError::NotOwner`].
    pub fn revoke(&mut self, port: HostPort, from: u32) -> Result<(), PortError> {
        self.check(port)?;
        if let Some(owner) = self.owners.get_mut(&port.name) {
            owner.granted.remove(&from);
        }
        Ok(())
    }

    /// Checks that a key is that of the owner.
    pub(super) fn check(&self, port: HostPort) -> Result<(), PortError> {
        let owner = self.owners.get(&port.name);
        if owner.is_some_and(|owner| owner.key == port.key) {
            return Ok(());
        }
        let PortName { node, port: number } = port.name;
        let owner = self.owner(port.name).to_owned();
        Err(PortError::NotOwner { node, port: number, owner })
    }

    /// Returns true if a message without a key may leave by a port: it has no owner.
    pub(super) fn is_open(&self, name: PortName) -> bool {
        !self.owners.contains_key(&name)
    }

    /// Returns true if a port takes a message of a node.
    pub(super) fn accepts(&self, name: PortName, from: u32) -> bool {
        self.owners.get(&name).is_none_or(|owner| owner.granted.contains(&from))
    }

    fn owner(&self, name: PortName) -> &str {
        self.owners.get(&name).map_or("nobody", |owner| &owner.process)
    }
}
