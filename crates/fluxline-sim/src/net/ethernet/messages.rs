//! Generated traffic on Ethernet: each message is a UDP datagram, and over when it has arrived.

use super::datagram::{Datagram, Payload};
use super::network::Network;
use crate::load::traffic::Message;
use crate::load::{Arrived, Carrier};

/// The carrier of generated traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages;

impl Carrier for Messages {
    type Network = Network;

    fn pack(&mut self, message: &Message, _: &Network) -> Datagram {
        let Message { source, to, .. } = *message;
        Datagram { source, target: to, payload: Payload::Message(*message) }
    }

    fn arrived(&mut self, _: u32, datagram: Datagram, _: &Network) -> Arrived<Datagram> {
        let message = match datagram.payload {
            Payload::Message(message) => Some(message),
            Payload::Udp(_) => None,
        };
        Arrived { message, answer: None, over: message.map(|message| message.source) }
    }
}
