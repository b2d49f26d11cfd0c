//! The link layer as the layers above see it: packets in, packets and reports out.
//!
//! ```text
//! network.send(node, packet, agenda)          a packet waits for its turn on the ring
//! network.handle(entry, agenda)               what is due now; then
//! while let Some(report) = network.next_report() { .. }
//! network.take_request(node, agenda)          frees the slot in the receive queue
//! ```

use super::{NodeId, Packet};
use crate::model;

/// A node by its place in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// A send: unique within a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// The priority of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Fair among all: what the Dolphin cards used (BACKGROUND-L).
    #[default]
    Low,
    /// Before these, for nine sends of ten.
    High,
}

/// A packet that was not taken, given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The packet.
    pub packet: Packet,
    /// The reason.
    pub why: Refusal,
}

/// A reason why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Come again after [`Report::Space`].
    #[error("the send queue is full: wait until a send is done")]
    Full,
    /// No node of this network can ever send it.
    #[error("the packet is longer than the bypass FIFO: raise bypass_symbols or send less at once")]
    TooLong,
    /// The node was declared dead.
    #[error("the node is dead: nothing can be sent from it")]
    Dead,
}

/// A reason why a send will never be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// No node took it: the scrubber turned it into a "none" echo.
    NoSuchNode,
    /// Its echo did not come back in time; the packet may have arrived.
    Circulation,
    /// Its ringlet is dead; the packet may have arrived.
    Dead,
    /// An event found no place in a node between ringlets: nothing holds events back.
    NoPlace,
}

/// A clock strobe at a node that it passes, or at its sender when it has come round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The sender.
    pub source: NodeId,
    /// The number that it carries: the offset of its packet.
    pub number: u64,
    /// The tick at which its first symbol came here \[symbols since the start\].
    pub arrived: u64,
    /// The time that it waited at its sender from when it could have started first \[symbols\].
    pub delayed: u64,
    /// The time that it waited in bypass FIFOs before it came here \[symbols\].
    pub waited: u64,
}

/// Something that happened in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A packet stands in the receive queue of `node`: [`take_request`] or [`take_response`].
    ///
    /// [`take_request`]: super::Network::take_request
    /// [`take_response`]: super::Network::take_response
    Received {
        /// The node.
        node: NodeIndex,
        /// In which of the two queues.
        response: bool,
    },
    /// An event packet came: no queue holds it.
    Event {
        /// The node.
        node: NodeIndex,
        /// The packet.
        packet: Packet,
    },
    /// A clock strobe passed a node, or is back at its sender. Told when its last symbol is in.
    Strobe {
        /// The node.
        node: NodeIndex,
        /// The time, and the delays before it.
        passage: Passage,
    },
    /// The echo says that the packet was accepted: by its target, or by the switch on the way.
    /// An event packet is done when its last symbol has left.
    Done {
        /// The sender.
        node: NodeIndex,
        /// The number that [`send`](super::Network::send) returned.
        send: SendId,
    },
    /// A send failed: the sender hears of it here, once.
    Lost {
        /// The sender.
        node: NodeIndex,
        /// The number that [`send`](super::Network::send) returned.
        send: SendId,
        /// The reason.
        why: Loss,
    },
    /// A switch could not pass a packet on that it had accepted. The sender is not told by the
    /// link layer: a response that never comes tells it.
    Dropped {
        /// The node that gave up.
        at: NodeIndex,
        /// The sender.
        source: NodeId,
        /// To whom.
        target: NodeId,
        /// The reason.
        why: Loss,
    },
    /// A send queue that was full has space again.
    Space {
        /// The node.
        node: NodeIndex,
        /// True: the queue of responses.
        response: bool,
    },
}

/// An entry of the network on the agenda. Opaque: hand it back to
/// [`handle`](super::Network::handle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The symbol.
    pub(super) tick: u64,
    /// Ring port, or what the kind says.
    pub(super) at: u32,
    pub(super) kind: Kind,
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A ring port has something to look at: an arrival, or a send that may start.
    Wake,
    /// The last symbol of a packet that a ring port took off is in.
    Stripped,
    /// A send came to its end; `at` is its handle.
    Ended,
    /// A bus ends a transfer; `at` is the node.
    Bus,
    /// A packet came through a bus; `at` is the node.
    Passed,
    /// Looks for old sends on a ringlet; `at` is the ringlet.
    Watch,
    /// The last symbol of a clock strobe is in.
    Strobe,
}

impl Entry {
    /// Returns the name of a kind in traces.
    #[must_use]
    pub fn kind_name(kind: u8) -> &'static str {
        let kinds = [
            (Kind::Wake, "ring port looks"),
            (Kind::Stripped, "packet taken off"),
            (Kind::Ended, "send ended"),
            (Kind::Bus, "bus free"),
            (Kind::Passed, "packet through the bus"),
            (Kind::Watch, "look for lost sends"),
            (Kind::Strobe, "clock strobe passed"),
        ];
        kinds.iter().find(|(of, _)| *of as u8 == kind).map_or("unknown", |(_, name)| name)
    }
}

impl model::Entry for Entry {
    fn component(&self) -> u32 {
        self.at
    }

    fn kind(&self) -> u8 {
        self.kind as u8
    }
}
