//! The unit that a node sends.

use super::framing;
use crate::load::traffic::Message;

/// A datagram between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender.
    pub source: u32,
    /// The receiver.
    pub target: u32,
    /// The content.
    pub payload: Payload,
}

/// The content of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A message of generated traffic; only its length is carried.
    Message(Message),
    /// A UDP datagram with its bytes.
    Udp(Udp),
}

/// The UDP header's ports, and the bytes behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Udp {
    /// The sender's port.
    pub from_port: u16,
    /// The receiver's port.
    pub to_port: u16,
    /// The payload.
    pub bytes: Vec<u8>,
    /// True if the switch marked a part of it: congestion experienced.
    pub is_marked: bool,
}

impl Datagram {
    /// Returns the length of the UDP payload \[byte\].
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        match &self.payload {
            Payload::Message(message) => u64::from(message.bytes),
            Payload::Udp(udp) => udp.bytes.len() as u64,
        }
    }

    /// Returns true if a network with this number of nodes can carry it.
    #[must_use]
    pub fn fits(&self, nodes: u32) -> bool {
        self.target < nodes && self.payload_bytes() <= framing::UDP_PAYLOAD_BYTES_MAX
    }
}
