//! The state of a host's card: its processor, the bus, and connections to other cards.

use std::collections::{BTreeMap, VecDeque};

use super::connection::{Inbound, Outbound, Piece};
use super::packet::Packet;
use crate::Instant;
use crate::host::{Bus, config};

/// A task of the LANai. It does one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Reads a send token; the fetch of the data follows.
    Begin(Fetch),
    /// Writes the record of a sent message; the next token follows.
    Record,
    /// Takes a packet from a link.
    Receive(Packet),
    /// Sends an acknowledgement.
    Acknowledge {
        /// The sender of the packet.
        to: u32,
        /// True if the sender must go back.
        complains: bool,
    },
}

/// The connection whose data is being fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The receiver of the message.
    pub peer: u32,
    /// The life of the connection when it began.
    pub life: u32,
}

/// The card of a host.
#[derive(Debug)]
pub struct Card {
    pub bus: Bus,
    /// The time from which the LANai is free.
    pub free: Instant,
    pub tasks: VecDeque<Task>,
    /// Data on its way into memory, in order.
    pub landing: VecDeque<Piece>,
    /// The data that is being fetched.
    pub fetch: Option<Fetch>,
    pub outbound: BTreeMap<u32, Outbound>,
    pub inbound: BTreeMap<u32, Inbound>,
    /// The connection that sent last.
    pub last: u32,
    /// The port that sent last.
    pub port: usize,
    /// Send tokens in use.
    pub tokens: u32,
    /// True if a message was rejected because no token was free.
    pub has_refused: bool,
    pub is_dead: bool,
}

impl Card {
    pub fn new(bus: config::Bus) -> Card {
        Card {
            bus: Bus::new(bus),
            free: Instant::START,
            tasks: VecDeque::new(),
            landing: VecDeque::new(),
            fetch: None,
            outbound: BTreeMap::new(),
            inbound: BTreeMap::new(),
            last: 0,
            port: 0,
            tokens: 0,
            has_refused: false,
            is_dead: false,
        }
    }

    /// Returns the next connection in turn that can send a packet.
    pub fn next_ready(&self, window: u32) -> Option<u32> {
        let later = self.outbound.range(self.last.saturating_add(1)..);
        let earlier = self.outbound.range(..=self.last);
        let mut ready = later.chain(earlier).filter(|(_, of)| of.is_ready(window));
        ready.next().map(|(&peer, _)| peer)
    }

    /// Returns the messages whose end was not reported.
    pub fn open(&self) -> usize {
        let last = |of: &Outbound| of.unacknowledged.iter().filter(|of| of.is_last).count();
        self.outbound.values().map(|of| of.letters.len() + last(of)).sum()
    }
}
