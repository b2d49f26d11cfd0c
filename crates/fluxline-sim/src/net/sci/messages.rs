//! Messages of generated traffic as writes or moves of SCI.

use super::{Command, Network, NodeIndex, Packet, Status};
use crate::load::traffic::Message;
use crate::load::{Answer, Arrived, Carrier};

/// The command that carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A move: over with its echo.
    Move,
    /// A write: over with its answer.
    Write,
}

/// Messages of one packet each; a packet's offset identifies its message on arrival.
#[derive(Clone, Debug)]
pub struct Messages {
    style: Style,
    /// Messages under way.
    sent: Vec<Option<Message>>,
    free: Vec<u32>,
}

impl Messages {
    /// Makes a carrier without messages under way.
    #[must_use]
    pub fn new(style: Style) -> Messages {
        Messages { style, sent: Vec::new(), free: Vec::new() }
    }

    fn command(&self, bytes: u32) -> Command {
        match (self.style, bytes) {
            (Style::Move, 0..=16) => Command::Move16,
            (Style::Move, 17..=64) => Command::Move64,
            (Style::Move, _) => Command::Move256,
            (Style::Write, 0..=16) => Command::Write16,
            (Style::Write, 17..=64) => Command::Write64,
            (Style::Write, _) => Command::Write256,
        }
    }

    fn forget(&mut self, slot: u32) -> Option<Message> {
        let message = self.sent.get_mut(slot as usize).and_then(Option::take)?;
        self.free.push(slot);
        Some(message)
    }
}

impl Carrier for Messages {
    type Network = Network;

    fn pack(&mut self, message: &Message, network: &Network) -> Packet {
        let slot = self.free.pop().unwrap_or(self.sent.len() as u32);
        if slot as usize == self.sent.len() {
            self.sent.push(None);
        }
        self.sent[slot as usize] = Some(*message);
        let command = self.command(message.bytes);
        Packet {
            target: network.address(NodeIndex(message.to)),
            source: network.address(NodeIndex(message.source)),
            command,
            transaction: (slot % 64) as u8,
            offset: u64::from(slot),
            status: Status::Normal,
            data: vec![0; command.data_bytes() as usize],
        }
    }

    fn unpack(&mut self, packet: Packet) {
        self.forget(packet.offset as u32);
    }

    fn arrived(&mut self, node: u32, packet: Packet, network: &Network) -> Arrived<Packet> {
        if packet.command.is_response() {
            return Arrived { message: None, answer: None, over: Some(node) };
        }
        let message = self.forget(packet.offset as u32);
        let answer = packet.command.response().zip(network.node_of(packet.source));
        let answer = answer.map(|(command, to)| Answer {
            to: to.0,
            frame: Packet {
                target: packet.source,
                source: packet.target,
                command,
                transaction: packet.transaction,
                offset: 0,
                status: Status::Normal,
                data: vec![0; command.data_bytes() as usize],
            },
        });
        Arrived { message, answer, over: None }
    }

    fn ends_with_send(&self) -> bool {
        self.style == Style::Move
    }
}
