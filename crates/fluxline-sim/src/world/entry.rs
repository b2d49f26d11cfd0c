//! The entries of a cluster's agenda.

use super::fault::Misfortune;
use super::{plain_link, wire};
use crate::net::sci::link;
use crate::{Duration, host};

/// The interval at which a driver checks that its peers are alive. Assumed.
pub const PROBE_EVERY: Duration = Duration::from_us(10_000);

/// An entry of a cluster's agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The network's.
    Wire(wire::Entry),
    /// A host's.
    Host(host::Entry),
    /// Time-outs of a node's transactions.
    Timer {
        /// The node.
        node: u32,
    },
    /// A node looks whether its peers are alive.
    Probe {
        /// The node.
        node: u32,
    },
    /// A message has waited for its buffer.
    NoBuffer {
        /// The node.
        node: u32,
        /// On which end.
        endpoint: u32,
    },
    /// Something goes wrong.
    Fault(Misfortune),
}

impl From<plain_link::Entry> for Entry {
    fn from(entry: plain_link::Entry) -> Entry {
        Entry::Wire(wire::Entry::Plain(entry))
    }
}

impl From<link::Entry> for Entry {
    fn from(entry: link::Entry) -> Entry {
        Entry::Wire(wire::Entry::Network(entry))
    }
}

impl From<host::Entry> for Entry {
    fn from(entry: host::Entry) -> Entry {
        Entry::Host(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Wire(wire::Entry::Plain(entry)) => crate::Entry::component(entry),
            Entry::Wire(wire::Entry::Network(entry)) => crate::Entry::component(entry),
            Entry::Host(entry) => crate::Entry::component(entry),
            Entry::Timer { node } | Entry::Probe { node } | Entry::NoBuffer { node, .. } => *node,
            Entry::Fault(
                Misfortune::Host(node) | Misfortune::Power(node) | Misfortune::Cable(node),
            ) => *node as u32,
        }
    }

    /// The parts' kinds are apart: hosts from 0x40, the cluster's own from 0x80.
    fn kind(&self) -> u8 {
        match self {
            Entry::Wire(wire::Entry::Plain(entry)) => crate::Entry::kind(entry),
            Entry::Wire(wire::Entry::Network(entry)) => crate::Entry::kind(entry),
            Entry::Host(entry) => 0x40 + crate::Entry::kind(entry),
            Entry::Timer { .. } => 0x80,
            Entry::Probe { .. } => 0x81,
            Entry::NoBuffer { .. } => 0x82,
            Entry::Fault(_) => 0x83,
        }
    }
}
