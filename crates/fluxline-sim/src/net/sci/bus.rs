//! The shared bus of one node: the packets that wait for it and the packets that cross it.
//!
//! The order in which they cross is in `transfer.rs`.

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
    /// The tick at which it has crossed.
    pub at: u64,
}

/// The queue behind the bus to which a parcel goes.
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
    /// Slots of the host's receive queues in use, including those for parcels on their way.
    pub held: [u32; 2],
    pub packets: [VecDeque<Packet>; 2],
    /// Events from the ringlets.
    pub events: VecDeque<Packet>,
    pub moving: Option<Parcel>,
    /// Parcels that have crossed the bus and whose delay is not over, in order of its end.
    pub passing: VecDeque<Parcel>,
    /// The source of requests, and of responses, that is checked first.
    pub turns: [usize; 2],
    /// The class that is checked first: 0, requests, or 1, responses.
    pub next_class: usize,
    /// Number of packets in all sources.
    pub waiting: u32,
}
