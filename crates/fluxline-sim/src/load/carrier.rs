//! The way in which a network carries the messages of a load.

use super::tickets::Ticket;
use super::traffic::Message;
use crate::core::interconnect::Interconnect;

/// A frame that arrived, as its carrier understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived<F> {
    /// The message whose last byte it brought.
    pub message: Option<Message>,
    /// The answer that the receiver sends, and the node that gets it.
    pub answer: Option<Answer<F>>,
    /// The source that has one message less under way.
    pub over: Option<u32>,
}

/// An answer to a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<F> {
    /// The node that gets it: the source of the message.
    pub to: u32,
    /// The frame.
    pub frame: F,
}

/// The frame of a network that carries messages.
pub(super) type FrameOf<C> = <<C as Carrier>::Network as Interconnect>::Frame;
/// The entry of such a network.
pub(super) type EntryOf<C> = <<C as Carrier>::Network as Interconnect>::Entry;

/// The way in which a network carries messages.
pub trait Carrier {
    /// The network.
    type Network: Interconnect;

    /// The kind of the entry that makes a message; the network has other kinds.
    const MADE: u8 = u8::MAX;

    /// Returns the number of frames that carry a message.
    fn parts(&self, message: &Message) -> u32 {
        let _ = message;
        1
    }

    /// Returns the frame that carries a message, or its first part.
    fn pack(&mut self, message: &Message, network: &Self::Network) -> FrameOf<Self>;

    /// Returns the frame that carries one part of a message. A node sends the parts of a message in
    /// their order, and no other message between them.
    fn pack_part(
        &mut self,
        message: &Message,
        part: u32,
        network: &Self::Network,
    ) -> FrameOf<Self> {
        let _ = part;
        self.pack(message, network)
    }

    /// Takes a frame of [`Carrier::pack`] back that the network did not take.
    fn unpack(&mut self, frame: FrameOf<Self>) {
        let _ = frame;
    }

    /// Explains a frame that has arrived at a node.
    fn arrived(
        &mut self,
        node: u32,
        frame: FrameOf<Self>,
        network: &Self::Network,
    ) -> Arrived<FrameOf<Self>>;

    /// Returns the number by which [`Carrier::done`] and [`Carrier::gave_up`] name a frame; `None`:
    /// its message is over when it arrives or is lost.
    fn ticket(&self, frame: &FrameOf<Self>) -> Option<Ticket> {
        let _ = frame;
        None
    }

    /// Notes the end of a send; returns the source that has one message less under way.
    fn done(&mut self, ticket: Ticket) -> Option<u32> {
        let _ = ticket;
        None
    }

    /// Notes a send that failed; returns the source that has one message less under way.
    fn gave_up(&mut self, ticket: Ticket) -> Option<u32> {
        let _ = ticket;
        None
    }

    /// Returns the ticket of the frame that the network has just reported as dropped.
    fn dropped(&self, network: &mut Self::Network) -> Option<Ticket> {
        let _ = network;
        None
    }

    /// Returns the number of messages with a ticket that were given up and have not arrived.
    fn lost(&self) -> u64 {
        0
    }

    /// Returns the bytes of a frame that cross the bus of its receiver's host.
    fn host_bytes(&self, frame: &FrameOf<Self>) -> u32 {
        let _ = frame;
        0
    }

    /// Returns true if frames wait in the network until their host has time for them.
    fn waits_for_hosts(&self) -> bool {
        true
    }
}
