//! The shared bus of one node: the packets that wait for it and the packets that cross it.
//!
//! `transfer.rs` has the order in which they cross.

use std::collections::VecDeque;

use super::Packet;
use super::lane::LANES;
use super::link::SendId;

/// A packet on its way through a node.
#[derive(Debug)]
pub struct Parcel {
    pub packet: Packet,
    pub lane: usize,
    /// The host's number, for a packet from the host.
    pub id: Option<SendId>,
    pub to: Destination,
    /// Tick at which it is through.
    pub at: u64,
}

/// The queue behind the bus that takes a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    Host,
    Port {
        /// The port that sends it on.
        sender: u32,
        /// The port of the same ringlet that takes it off.
        taker: u32,
    },
}

/// One node's bus, and the queues of its host.
#[derive(Debug, Default)]
pub struct NodeBus {
    pub out: [VecDeque<(Packet, SendId)>; LANES],
    /// Slots of the host's receive queues in use, those of parcels on their way among them.
    pub held: [u32; 2],
    pub packets: [VecDeque<Packet>; 2],
    /// Events from the ringlets.
    pub events: VecDeque<Packet>,
    pub moving: Option<Parcel>,
    /// Behind the bus, before the delay is over.
    pub passing: VecDeque<Parcel>,
    /// The source that is asked first.
    pub turn: usize,
    /// Packets that all sources together hold.
    pub waiting: u32,
}
