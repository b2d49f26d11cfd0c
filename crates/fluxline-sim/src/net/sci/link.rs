//! The interface of the link layer for the layers above: packets in, packets and reports out.
//!
//! ```text
//! network.send(node, packet, agenda)          a packet waits for its turn on the ring
//! network.handle(entry, agenda)               what is due now; then
//! while let Some(report) = network.next_report() { .. }
//! network.take_request(node, agenda)          frees the slot in the receive queue
//! ```

use super::{NodeId, Packet};
use crate::core::model;

pub use crate::core::interconnect::SendId;

/// A node by its index in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// The priority of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Fair sharing, used by the Dolphin cards (BACKGROUND-L).
    #[default]
    Low,
    /// Before low priority, for nine of ten sends.
    High,
}

/// A rejected packet, returned to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The packet.
    pub packet: Packet,
    /// The reason.
    pub why: Refusal,
}

/// The reason why a packet was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The queue is full; try again after [`Report::Space`].
    #[error("the send queue is full: wait until a send is done")]
    Full,
    /// The packet is too long for every node of this network.
    #[error("the packet is longer than the bypass FIFO: raise bypass_symbols or send less at once")]
    TooLong,
    /// The node was declared dead.
    #[error("the node is dead: nothing can be sent from it")]
    Dead,
}

/// The reason why a send was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// No node took it: the scrubber turned it into a "none" echo.
    NoSuchNode,
    /// Its echo did not come back in time; the packet may have arrived.
    Circulation,
    /// Its ringlet is dead; the packet may have arrived.
    Dead,
    /// An event found no room in a node between ringlets: events are never held back.
    NoPlace,
}

/// A dropped packet, as far as its sender needs to know it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its offset.
    pub offset: u64,
    /// True if it was an answer.
    pub is_response: bool,
}

impl Dropped {
    /// Returns the marks of a packet.
    pub(super) fn of(packet: &Packet) -> Dropped {
        Dropped { offset: packet.offset, is_response: packet.command.is_response() }
    }
}

/// A clock strobe at a node that it passes, or at its sender after its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The sender.
    pub source: NodeId,
    /// The number that it carries: the offset of its packet.
    pub number: u64,
    /// The tick at which its first symbol arrived here \[symbols since the start\].
    pub arrived: u64,
    /// The time that it waited at its sender after its earliest possible start \[symbols\].
    pub delayed: u64,
    /// The time that it waited in bypass FIFOs on its way here \[symbols\].
    pub waited: u64,
}

/// A report of the network to the layers above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A packet is in the receive queue of `node`; take it by [`take_request`] or
    /// [`take_response`].
    ///
    /// [`take_request`]: super::Network::take_request
    /// [`take_response`]: super::Network::take_response
    Received {
        /// The node.
        node: NodeIndex,
        /// True: the queue of responses.
        response: bool,
    },
    /// An event packet arrived; it uses no queue.
    Event {
        /// The node.
        node: NodeIndex,
        /// The packet.
        packet: Packet,
    },
    /// A clock strobe passed a node, or returned to its sender. Reported after its last symbol.
    Strobe {
        /// The node.
        node: NodeIndex,
        /// The time of the passage, and the delays before it.
        passage: Passage,
    },
    /// The echo reported acceptance, by the target or by the switch on the way. An event packet is
    /// done when its last symbol has left.
    Done {
        /// The sender.
        node: NodeIndex,
        /// The number that [`send`](super::Network::send) returned.
        send: SendId,
    },
    /// A send failed. It is reported once.
    Lost {
        /// The sender.
        node: NodeIndex,
        /// The number that [`send`](super::Network::send) returned.
        send: SendId,
        /// The reason.
        why: Loss,
    },
    /// A switch could not pass on a packet that it had accepted. The link layer does not notify the
    /// sender, which notices only that a response never comes.
    Dropped {
        /// The node that gave up.
        at: NodeIndex,
        /// The sender.
        source: NodeId,
        /// The receiver.
        target: NodeId,
        /// The packet, if it is known.
        packet: Option<Dropped>,
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
    /// The ring port, or another index, by kind.
    pub(super) at: u32,
    pub(super) kind: Kind,
}

/// Kinds of entries. Of 32 bits, so that an entry is copied as whole words: a word that is read
/// after its bytes were written one by one waits until these writes have reached the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// A ring port has work: an arrival, or a send that may start.
    Wake,
    /// The last symbol of a packet that a ring port takes off has arrived.
    Stripped,
    /// A send ended; `at` is its handle.
    Ended,
    /// A bus ends a transfer; `at` is the node.
    Bus,
    /// A packet crossed a bus; `at` is the node.
    Passed,
    /// Looks for old sends on a ringlet; `at` is the ringlet.
    Watch,
    /// The last symbol of a clock strobe has arrived.
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
