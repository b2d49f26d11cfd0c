//! The link between two machines: a ring of two nodes.

use std::collections::{BTreeMap, VecDeque};

use crate::Agenda;
use crate::net::sci::{self, Command, Network, NodeId, NodeIndex, Packet, SendId};

/// A packet that has arrived at a machine.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A request of the other machine, with a number that identifies it.
    Request { to: usize, number: u64, packet: Packet },
    /// The answer to a request of this machine.
    Response { to: usize, handle: u64, packet: Packet },
    /// A move of this machine was accepted, or one of its packets was lost.
    Over { to: usize, handle: u64, lost: bool },
}

/// A packet, and the sender's handle if it is a request.
type Waiting = (Packet, Option<u64>);

/// The two directions, and the open requests.
#[derive(Debug)]
pub(super) struct Wire {
    network: Network,
    sends: BTreeMap<SendId, Send>,
    /// The handles of open requests, by machine and transaction.
    open: [BTreeMap<u8, u64>; 2],
    /// Packets that wait for a transaction or for room in the send queue, by machine and class.
    waiting: [[VecDeque<Waiting>; 2]; 2],
    arrived: VecDeque<Arrival>,
    /// Transactions of requests that have arrived and are not yet answered, by their number.
    answers: BTreeMap<u64, u8>,
    requests: u64,
}

/// A packet in the ring, until its echo.
#[derive(Clone, Copy, Debug)]
struct Send {
    /// The requesting machine, and its transaction.
    asker: usize,
    transaction: u8,
    /// True if the echo ends it.
    is_move: bool,
}

/// Most open transactions of a machine: 6 bits (a transaction's number in a packet).
const TRANSACTIONS: u8 = 64;

fn is_move(command: Command) -> bool {
    matches!(command, Command::Move16 | Command::Move64 | Command::Move256)
}

impl Wire {
    pub(super) fn new(config: &sci::Config) -> Result<Wire, sci::ConfigError> {
        Ok(Wire {
            network: Network::new(config)?,
            sends: BTreeMap::new(),
            open: Default::default(),
            waiting: Default::default(),
            arrived: VecDeque::new(),
            answers: BTreeMap::new(),
            requests: 0,
        })
    }

    /// Sends a request of machine `from`, and chooses its `transaction`.
    pub(super) fn ask<A: From<sci::Entry>>(
        &mut self,
        from: usize,
        packet: Packet,
        handle: u64,
        agenda: &mut Agenda<A>,
    ) {
        self.waiting[from][0].push_back((packet, Some(handle)));
        self.go(from, agenda);
    }

    /// Sends the answer of machine `from` to request `number`.
    pub(super) fn answer<A: From<sci::Entry>>(
        &mut self,
        from: usize,
        mut packet: Packet,
        number: u64,
        agenda: &mut Agenda<A>,
    ) {
        if let Some(transaction) = self.answers.remove(&number) {
            packet.transaction = transaction;
            self.waiting[from][1].push_back((packet, None));
            self.go(from, agenda);
        }
    }

    /// Sends all packets that can be sent.
    fn go<A: From<sci::Entry>>(&mut self, from: usize, agenda: &mut Agenda<A>) {
        for class in 0..2 {
            while let Some((mut packet, open)) = self.waiting[from][class].pop_front() {
                if let Some(open) = open {
                    let used = &self.open[from];
                    let free = (0..TRANSACTIONS).find(|number| !used.contains_key(number));
                    let Some(number) = free else {
                        self.waiting[from][class].push_front((packet, Some(open)));
                        break;
                    };
                    packet.transaction = number;
                    self.open[from].insert(number, open);
                }
                if let Err(packet) = self.send(from, packet, agenda) {
                    if open.is_some() {
                        self.open[from].remove(&packet.transaction);
                    }
                    self.waiting[from][class].push_front((packet, open));
                    break;
                }
            }
        }
    }

    fn send<A: From<sci::Entry>>(
        &mut self,
        from: usize,
        packet: Packet,
        agenda: &mut Agenda<A>,
    ) -> Result<(), Packet> {
        let (transaction, command) = (packet.transaction, packet.command);
        let node = NodeIndex(from as u32);
        let sent = self.network.send(node, packet, agenda).map_err(|refused| refused.packet)?;
        let asker = if command.is_response() { 1 - from } else { from };
        self.sends.insert(sent, Send { asker, transaction, is_move: is_move(command) });
        Ok(())
    }

    /// Handles an entry that is due.
    pub(super) fn handle<A: From<sci::Entry>>(
        &mut self,
        entry: sci::Entry,
        agenda: &mut Agenda<A>,
    ) {
        self.network.handle(entry, agenda);
    }

    /// Handles a packet that has reached its target.
    fn arrive(&mut self, packet: Packet) {
        let to = usize::from(packet.target.0);
        if packet.command.is_response() {
            if let Some(handle) = self.open[to].remove(&packet.transaction) {
                self.arrived.push_back(Arrival::Response { to, handle, packet });
            }
            return;
        }
        self.requests += 1;
        let number = self.requests;
        if packet.command.response().is_some() {
            self.answers.insert(number, packet.transaction);
        }
        self.arrived.push_back(Arrival::Request { to, number, packet });
    }

    /// Ends a request without an answer.
    fn over(&mut self, to: usize, transaction: u8, lost: bool) {
        if let Some(handle) = self.open[to].remove(&transaction) {
            self.arrived.push_back(Arrival::Over { to, handle, lost });
        }
    }

    /// Takes an arrived packet; requests go only to machines with space.
    pub(super) fn take<A: From<sci::Entry>>(
        &mut self,
        room: [bool; 2],
        agenda: &mut Agenda<A>,
    ) -> Option<Arrival> {
        self.drain_network(room, agenda);
        let ready = |arrival: &Arrival| match arrival {
            Arrival::Request { to, .. } => room[*to],
            _ => true,
        };
        let at = self.arrived.iter().position(ready)?;
        let arrival = self.arrived.remove(at);
        (0..2).for_each(|machine| self.go(machine, agenda));
        arrival
    }

    fn drain_network<A: From<sci::Entry>>(&mut self, room: [bool; 2], agenda: &mut Agenda<A>) {
        let (network, sends) = (&mut self.network, &mut self.sends);
        let (mut came, mut over) = (Vec::new(), Vec::new());
        while let Some(report) = network.next_report() {
            match report {
                sci::Report::Done { send, .. } => {
                    let ended = sends.remove(&send).filter(|send| send.is_move);
                    over.extend(ended.map(|send| (send, false)));
                }
                // A lost response: the requester is notified at once instead of after a time-out.
                sci::Report::Lost { send, .. } => {
                    over.extend(sends.remove(&send).map(|send| (send, true)));
                }
                _ => {}
            }
        }
        for (machine, room) in room.into_iter().enumerate() {
            let node = NodeIndex(machine as u32);
            while let Some(packet) = network.take_response(node, agenda) {
                came.push(packet);
            }
            if room {
                came.extend(network.take_request(node, agenda));
            }
        }
        came.into_iter().for_each(|packet| self.arrive(packet));
        for (send, lost) in over {
            self.over(send.asker, send.transaction, lost);
        }
    }
}

/// Returns the address of a machine.
pub(super) fn address(machine: usize) -> NodeId {
    NodeId(machine as u16)
}
