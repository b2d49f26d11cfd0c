//! Packets of GM, and the messages that they carry.

use super::connection::Piece;
use crate::fabric::courier::Frame;
use crate::net::atoll::Cargo;

/// A packet between two cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The card that sent it.
    pub source: u32,
    /// The card that gets it.
    pub target: u32,
    /// The life of the connection.
    pub life: u32,
    /// The content.
    pub body: Body,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A part of a message.
    Piece(Piece),
    /// All packets below a number have arrived.
    Ack {
        /// The number.
        next: u64,
        /// True if the sender must go back to it.
        complains: bool,
    },
}

impl Cargo for Packet {
    fn target(&self) -> u32 {
        self.target
    }

    fn bytes(&self) -> u32 {
        match self.body {
            Body::Piece(piece) => piece.bytes,
            Body::Ack { .. } => 0,
        }
    }
}

/// A message with its receiver and length.
pub trait Content {
    /// Returns the receiver.
    fn receiver(&self) -> u32;
    /// Returns the length \[bytes\].
    fn length(&self) -> u32;
}

/// Frames of couriers: one process on each node.
impl Content for Frame {
    fn receiver(&self) -> u32 {
        self.target
    }

    fn length(&self) -> u32 {
        u32::try_from(self.bytes()).unwrap_or(u32::MAX)
    }
}

/// A message without content, for measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blank {
    /// The receiver.
    pub target: u32,
    /// The length \[bytes\].
    pub bytes: u32,
    /// A number of the sender's choice.
    pub number: u64,
}

impl Content for Blank {
    fn receiver(&self) -> u32 {
        self.target
    }

    fn length(&self) -> u32 {
        self.bytes
    }
}
