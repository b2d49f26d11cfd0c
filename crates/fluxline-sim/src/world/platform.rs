//! The entries of a world's agenda, and the platforms that worlds are built of.

use crate::core::fault::FaultKind;
use crate::core::interconnect::Interconnect;
use crate::fabric::adapter::Adapter;
use crate::fabric::courier;

/// An entry of a world of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A node checks that its peers are alive.
    Probe {
        /// The node.
        node: u32,
    },
    /// A message has waited for its buffer.
    NoBuffer {
        /// The node.
        node: u32,
        /// Its endpoint.
        endpoint: u32,
    },
    /// A fault happens.
    Fault(FaultKind),
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Probe { node } | Entry::NoBuffer { node, .. } => *node,
            Entry::Fault(kind) => kind.node(),
        }
    }

    /// The kinds of a world begin behind those of networks and adapters.
    fn kind(&self) -> u8 {
        match self {
            Entry::Probe { .. } => 0x81,
            Entry::NoBuffer { .. } => 0x82,
            Entry::Fault(_) => 0x83,
        }
    }
}

/// An entry of a world's agenda: of its network, of an adapter, or of its own. Networks and
/// adapters implement `From` for their entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due<W, S> {
    /// Of the network.
    Wire(W),
    /// Of an adapter; its component is the node.
    Step(S),
    /// Of the world.
    World(Entry),
}

impl<W, S> From<Entry> for Due<W, S> {
    fn from(entry: Entry) -> Due<W, S> {
        Due::World(entry)
    }
}

impl<W> From<courier::Step> for Due<W, courier::Step> {
    fn from(step: courier::Step) -> Due<W, courier::Step> {
        Due::Step(step)
    }
}

impl<W: crate::Entry, S: crate::Entry> crate::Entry for Due<W, S> {
    fn component(&self) -> u32 {
        match self {
            Due::Wire(entry) => entry.component(),
            Due::Step(step) => step.component(),
            Due::World(entry) => entry.component(),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Due::Wire(entry) => entry.kind(),
            Due::Step(step) => step.kind(),
            Due::World(entry) => entry.kind(),
        }
    }
}

/// The entry of an adapter's network.
pub type WireEntry<A> = <<A as Adapter>::Wire as Interconnect>::Entry;

/// A kind of adapter with its network, ready for a world. Every adapter is one whose entries, and
/// those of its network, convert into [`Due`].
pub trait Platform: Adapter + Sized + Send + 'static {
    /// The entry of the agenda.
    type Entry: From<WireEntry<Self>>
        + From<Self::Step>
        + From<Entry>
        + Into<Due<WireEntry<Self>, Self::Step>>
        + crate::Entry
        + Send;
}

impl<A> Platform for A
where
    A: Adapter + Send + 'static,
    A::Step: Send,
    WireEntry<A>: crate::Entry + Send,
    Due<WireEntry<A>, A::Step>: From<WireEntry<A>> + From<A::Step>,
{
    type Entry = Due<WireEntry<A>, A::Step>;
}
