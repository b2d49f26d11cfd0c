//! The content of messages, for the network.

use crate::load::traffic::Message;
use crate::load::{Arrived, Carrier};

use super::Network;
use super::routes::Path;

/// A content with its receiver.
pub trait Cargo {
    /// Returns the receiver.
    fn target(&self) -> u32;
    /// Returns the length \[bytes\].
    fn bytes(&self) -> u32;
    /// Returns the host port of the sender, 0 to 3: the process.
    fn port(&self) -> u8 {
        0
    }
    /// Returns the path that the sender chose; `None`: that of the network's routes.
    fn path(&self) -> Option<Path> {
        None
    }
    /// Returns true for a message of the network's management.
    fn is_control(&self) -> bool {
        false
    }
    /// Returns the host port of the receiver.
    fn target_port(&self) -> u8 {
        self.port()
    }
}

/// A message of a given length from one process to the process with the same port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The receiver.
    pub target: u32,
    /// The host port at both ends, 0 to 3.
    pub port: u8,
    /// The length \[bytes\].
    pub bytes: u32,
    /// A number of the sender's choice.
    pub number: u64,
}

impl Cargo for Parcel {
    fn target(&self) -> u32 {
        self.target
    }

    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn port(&self) -> u8 {
        self.port
    }
}

/// Generated traffic: the four processes of a node send in turn.
impl Cargo for Message {
    fn target(&self) -> u32 {
        self.to
    }

    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn port(&self) -> u8 {
        (self.event % 4) as u8
    }
}

/// A message of generated traffic, and the host port of its process.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    message: Message,
    port: u8,
}

impl Cargo for Sent {
    fn target(&self) -> u32 {
        self.message.to
    }

    fn bytes(&self) -> u32 {
        self.message.bytes
    }

    fn port(&self) -> u8 {
        self.port
    }
}

/// Messages of processes, which send in turn: each is over when it has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    /// Host ports of a node that send, 1 to 4.
    pub ports: u32,
}

impl Carrier for Processes {
    type Network = Network<Sent>;

    #[inline]
    fn pack(&mut self, message: &Message, _: &Network<Sent>) -> Sent {
        let port = (message.event % u64::from(self.ports.clamp(1, 4))) as u8;
        Sent { message: *message, port }
    }

    #[inline]
    fn arrived(&mut self, _: u32, sent: Sent, _: &Network<Sent>) -> Arrived<Sent> {
        let message = sent.message;
        Arrived { message: Some(message), answer: None, over: Some(message.source) }
    }

    fn host_bytes(&self, sent: &Sent) -> u32 {
        sent.message.bytes
    }

    /// The memory for received messages is unlimited.
    fn waits_for_hosts(&self) -> bool {
        false
    }
}

/// Messages of generated traffic as worms: each is over when it has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worms;

impl Carrier for Worms {
    type Network = Network<Message>;

    #[inline]
    fn pack(&mut self, message: &Message, _: &Network<Message>) -> Message {
        *message
    }

    #[inline]
    fn arrived(&mut self, _: u32, message: Message, _: &Network<Message>) -> Arrived<Message> {
        Arrived { message: Some(message), answer: None, over: Some(message.source) }
    }
}
