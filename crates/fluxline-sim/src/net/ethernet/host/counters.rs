//! Datagrams of a host by the place where they ended.

use crate::core::interconnect::Loss;

/// A place in a host that loses datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The driver's queue was full.
    Queue,
    /// The card's buffer was full, because the bus was slower than the wire.
    CardBuffer,
    /// The card's receive ring was full.
    Ring,
    /// The backlog was full.
    Backlog,
    /// The socket's receive buffer was full.
    Socket,
    /// The machine was dead, or died with the datagram.
    Dead,
}

impl Place {
    /// All places, in the order of [`Counters::lost`].
    pub const ALL: [Place; 6] =
        [Place::Queue, Place::CardBuffer, Place::Ring, Place::Backlog, Place::Socket, Place::Dead];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Place::Queue => "driver queue",
            Place::CardBuffer => "card buffer",
            Place::Ring => "card ring",
            Place::Backlog => "backlog",
            Place::Socket => "socket buffer",
            Place::Dead => "dead machine",
        }
    }
}

/// The counts of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that calls to send took.
    pub taken: u64,
    /// Datagrams that went to the network.
    pub sent: u64,
    /// Datagrams that came from the network.
    pub arrived: u64,
    /// Datagrams that a process received.
    pub received: u64,
    /// Datagrams that were lost before they went to the network, by place.
    pub lost_sending: [u64; Place::ALL.len()],
    /// Datagrams that were lost on their way to a process, by place.
    pub lost_receiving: [u64; Place::ALL.len()],
    /// Interrupts of the card.
    pub interrupts: u64,
    /// Calls to send that waited for room.
    pub waits: u64,
}

impl Counters {
    /// Returns the lost datagrams of a place.
    #[must_use]
    pub fn lost(&self, place: Place) -> u64 {
        self.lost_sending[place as usize] + self.lost_receiving[place as usize]
    }

    /// Returns the places that lost datagrams of a node.
    pub(super) fn losses(&self, node: u32) -> impl Iterator<Item = Loss> {
        let of = move |place: Place| Loss {
            place: format!("{} of node {node}", place.name()),
            frames: self.lost(place),
        };
        Place::ALL.into_iter().map(of).filter(|loss| loss.frames > 0)
    }
}
