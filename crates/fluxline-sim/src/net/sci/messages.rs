//! Messages of generated traffic as writes or moves of SCI.
//!
//! A message longer than the largest packet is cut as a card cuts it: whole packets of that size,
//! then one packet for the rest, of 16 bytes if it fits, otherwise of 64.

use std::collections::BTreeMap;

use super::link::Dropped;
use super::{Command, Network, NodeIndex, Packet, Status};
use crate::load::traffic::Message;
use crate::load::{Answer, Arrived, Carrier, Ticket};

/// The command that carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A move: over with its echo.
    Move,
    /// A write: over with its answer.
    Write,
}

/// The largest payload of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Largest {
    /// 16 bytes.
    Bytes16,
    /// 64 bytes, as the cards send.
    #[default]
    Bytes64,
    /// 256 bytes.
    Bytes256,
}

impl Largest {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Largest::Bytes16 => 16,
            Largest::Bytes64 => 64,
            Largest::Bytes256 => 256,
        }
    }

    /// Returns the largest packet of a number of bytes; `None`: SCI has no such packet.
    #[must_use]
    pub fn of(bytes: u32) -> Option<Largest> {
        let all = [Largest::Bytes16, Largest::Bytes64, Largest::Bytes256];
        all.into_iter().find(|largest| largest.bytes() == bytes)
    }

    /// Returns the number of packets of a message.
    fn parts(self, message_bytes: u32) -> u32 {
        match self {
            // 64 bytes are the smallest packet that holds a rest of 17 to 64 bytes.
            Largest::Bytes256 => message_bytes / 256 + (message_bytes % 256).div_ceil(64),
            largest => message_bytes.div_ceil(largest.bytes()),
        }
        .max(1)
    }

    /// Returns the payload of one packet of a message \[byte\].
    fn payload(self, message_bytes: u32, part: u32) -> u32 {
        let whole = message_bytes / self.bytes();
        if part < whole {
            return self.bytes();
        }
        match (message_bytes % self.bytes()).saturating_sub((part - whole) * 64) {
            0..=16 => 16,
            _ => 64,
        }
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    message: Message,
    parts: u32,
    /// Parts that were handed to the network, that arrived, and whose sends ended.
    packed: u32,
    arrived: u32,
    ended: u32,
    /// True if a send of it was lost and it has not arrived.
    is_lost: bool,
}

/// A slot for flights; the generation tells late packets of an earlier flight from those of this.
#[derive(Clone, Debug, Default)]
struct Slot {
    generation: u32,
    flight: Option<Flight>,
}

/// Bits of an offset for the slot; the generation has the others.
const SLOT_BITS: u32 = 24;
/// Bits of an offset for slot and generation: those of an address in a node.
const OFFSET_BITS: u32 = 48;

/// The bits of a ticket that mark an answer, and a packet that was dropped after its echo.
const ANSWER: u64 = 1 << 63;
const DROPPED: u64 = 1 << 62;

/// The messages of generated traffic: a packet's offset identifies its message on arrival.
#[derive(Clone, Debug)]
pub struct Messages {
    style: Style,
    largest: Largest,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The offset of the message of which a source has sent some parts.
    begun: BTreeMap<u32, u64>,
    lost: u64,
}

impl Messages {
    /// Makes a carrier without messages under way.
    #[must_use]
    pub fn new(style: Style, largest: Largest) -> Messages {
        let (slots, free) = (Vec::new(), Vec::new());
        Messages { style, largest, slots, free, begun: BTreeMap::new(), lost: 0 }
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

    /// Begins a flight; returns the offset of its packets.
    fn begin(&mut self, message: &Message) -> u64 {
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        if number as usize == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let parts = self.largest.parts(message.bytes);
        let slot = &mut self.slots[number as usize];
        let (packed, arrived, ended, is_lost) = (0, 0, 0, false);
        slot.flight = Some(Flight { message: *message, parts, packed, arrived, ended, is_lost });
        u64::from(number) | u64::from(slot.generation) << SLOT_BITS
    }

    fn flight(&mut self, offset: u64) -> Option<&mut Flight> {
        let slot = self.slots.get_mut(offset as usize & ((1 << SLOT_BITS) - 1))?;
        let generation = offset >> SLOT_BITS;
        slot.flight.as_mut().filter(|_| u64::from(slot.generation) == generation)
    }

    /// Forgets a flight.
    fn forget(&mut self, offset: u64) {
        let number = offset as u32 & ((1 << SLOT_BITS) - 1);
        let slot = &mut self.slots[number as usize];
        slot.flight = None;
        slot.generation = (slot.generation + 1) % (1 << (OFFSET_BITS - SLOT_BITS));
        self.free.push(number);
    }

    /// Notes that the send of a part ended; returns the source if the message is over.
    fn ended(&mut self, offset: u64) -> Option<u32> {
        let flight = self.flight(offset)?;
        if flight.ended == flight.parts {
            return None; // an answer to a request that was given up
        }
        flight.ended += 1;
        let Flight { message, parts, arrived, ended, .. } = *flight;
        if ended == parts && arrived == parts {
            self.forget(offset);
        }
        (ended == parts).then_some(message.source)
    }

    /// Notes the arrival of a part; returns the message if it is complete.
    fn part_arrived(&mut self, offset: u64) -> Option<Message> {
        let flight = self.flight(offset)?;
        flight.arrived = (flight.arrived + 1).min(flight.parts);
        let Flight { message, parts, arrived, ended, is_lost, .. } = *flight;
        if arrived < parts {
            return None;
        }
        flight.is_lost = false;
        self.lost -= u64::from(is_lost);
        if ended == parts {
            self.forget(offset);
        }
        Some(message)
    }
}

impl Carrier for Messages {
    type Network = Network;

    fn parts(&self, message: &Message) -> u32 {
        self.largest.parts(message.bytes)
    }

    fn pack(&mut self, message: &Message, network: &Network) -> Packet {
        self.pack_part(message, 0, network)
    }

    fn pack_part(&mut self, message: &Message, part: u32, network: &Network) -> Packet {
        let offset = match part {
            0 => self.begin(message),
            _ => self.begun.get(&message.source).copied().unwrap_or_default(),
        };
        let parts = self.flight(offset).map_or(1, |flight| {
            flight.packed = part + 1;
            flight.parts
        });
        if part == 0 && parts > 1 {
            self.begun.insert(message.source, offset);
        }
        let command = self.command(self.largest.payload(message.bytes, part));
        Packet {
            target: network.address(NodeIndex(message.to)),
            source: network.address(NodeIndex(message.source)),
            command,
            transaction: (offset % 64) as u8,
            offset,
            status: Status::Normal,
            data: vec![0; command.data_bytes() as usize],
        }
    }

    /// A message of which no part was sent is forgotten.
    fn unpack(&mut self, packet: Packet) {
        let Some(flight) = self.flight(packet.offset) else { return };
        flight.packed -= 1;
        if flight.packed == 0 {
            self.forget(packet.offset);
        }
    }

    fn arrived(&mut self, node: u32, packet: Packet, network: &Network) -> Arrived<Packet> {
        if packet.command.is_response() {
            let over = self.ended(packet.offset).filter(|&source| source == node);
            return Arrived { message: None, answer: None, over };
        }
        let message = self.part_arrived(packet.offset);
        let answer = packet.command.response().zip(network.node_of(packet.source));
        let answer = answer.map(|(command, to)| Answer {
            to: to.0,
            frame: Packet {
                target: packet.source,
                source: packet.target,
                command,
                transaction: packet.transaction,
                // Names the message; the wire carries no address in a response.
                offset: packet.offset,
                status: Status::Normal,
                data: vec![0; command.data_bytes() as usize],
            },
        });
        Arrived { message, answer, over: None }
    }

    fn ticket(&self, packet: &Packet) -> Option<Ticket> {
        let mark = if packet.command.is_response() { ANSWER } else { 0 };
        Some(Ticket(packet.offset | mark))
    }

    /// A move is over with its echo; a write with its answer.
    fn done(&mut self, ticket: Ticket) -> Option<u32> {
        match self.style {
            Style::Move => self.ended(ticket.0),
            Style::Write => None,
        }
    }

    /// A message whose answer was lost has arrived.
    fn gave_up(&mut self, ticket: Ticket) -> Option<u32> {
        let offset = ticket.0 & !(ANSWER | DROPPED);
        let is_answer = ticket.0 & ANSWER != 0;
        let is_done = self.style == Style::Move && ticket.0 & DROPPED != 0;
        let flight = self.flight(offset)?;
        if !is_answer && !flight.is_lost && flight.arrived < flight.parts {
            flight.is_lost = true;
            self.lost += 1;
        }
        if is_done { None } else { self.ended(offset) }
    }

    fn dropped(&self, network: &mut Network) -> Option<Ticket> {
        let Dropped { offset, is_response } = network.take_dropped()?;
        let answer = if is_response { ANSWER } else { 0 };
        Some(Ticket(offset | answer | DROPPED))
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn host_bytes(&self, packet: &Packet) -> u32 {
        packet.data.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Largest;

    #[test]
    fn a_message_is_cut_into_the_packets_that_hold_it() {
        for (largest, bytes, payloads) in [
            (Largest::Bytes64, 1, vec![16]),
            (Largest::Bytes64, 17, vec![64]),
            (Largest::Bytes64, 64, vec![64]),
            (Largest::Bytes64, 65, vec![64, 16]),
            (Largest::Bytes64, 100, vec![64, 64]),
            (Largest::Bytes64, 256, vec![64; 4]),
            (Largest::Bytes16, 40, vec![16; 3]),
            (Largest::Bytes256, 65, vec![64, 16]),
            (Largest::Bytes256, 256, vec![256]),
            (Largest::Bytes256, 400, vec![256, 64, 64, 16]),
        ] {
            let parts = largest.parts(bytes);
            let of: Vec<u32> = (0..parts).map(|part| largest.payload(bytes, part)).collect();
            assert_eq!(of, payloads, "{bytes} bytes in packets of {largest:?}");
        }
        for largest in [Largest::Bytes16, Largest::Bytes64, Largest::Bytes256] {
            for bytes in 1..2000 {
                let parts = largest.parts(bytes);
                let sum: u32 = (0..parts).map(|part| largest.payload(bytes, part)).sum();
                assert!(sum >= bytes && sum < bytes + 64, "{bytes}: {sum}");
            }
        }
    }
}
