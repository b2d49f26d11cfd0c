//! The link between two machines: a ring of two nodes, modelled symbol by symbol or by a formula.

use std::collections::{BTreeMap, VecDeque};

use crate::net::sci::{
    self, Command, Network, NodeId, NodeIndex, Packet, Preset, SendId, Topology,
};
use crate::{Agenda, Duration, Instant};

/// The ring between the machines.
#[derive(Clone, Debug)]
pub enum Link {
    /// The ring of [`sci::Network`], with all its rules.
    Ring(Box<sci::Config>),
    /// A formula for an idle ring.
    Fixed(FixedLink),
}

/// A ring of two nodes at zero load. A packet of L symbols arrives (h + L) symbols after it could
/// start (h: pass-through delay with the cable), its echo h symbols later. A node sends one packet
/// at a time, with an idle symbol behind it. Nothing is refused. Derived for an idle ring.
#[derive(Clone, Copy, Debug)]
pub struct FixedLink {
    /// Time of a symbol of 2 B.
    pub symbol: Duration,
    /// Pass-through delay and cable \[symbol\].
    pub hop_symbols: u64,
}

/// Returns the first generation's links: 200 MB/s (published by SCINET).
#[must_use]
pub fn link_lc1() -> Link {
    Link::Ring(Box::new(Preset::Lc1.network(Topology::Ring { nodes: 2 })))
}

/// Returns the D310's links: 400 MB/s (background).
#[must_use]
pub fn link_lc2() -> Link {
    Link::Ring(Box::new(Preset::Lc2.network(Topology::Ring { nodes: 2 })))
}

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
    link: Line,
    /// The handles of open requests, by machine and transaction.
    open: [BTreeMap<u8, u64>; 2],
    /// Packets that wait for a transaction or for room in the send queue, by machine and class.
    waiting: [[VecDeque<Waiting>; 2]; 2],
    arrived: VecDeque<Arrival>,
    /// Transactions of requests that have arrived and are not yet answered, by their number.
    answers: BTreeMap<u64, u8>,
    requests: u64,
}

#[derive(Debug)]
enum Line {
    Ring { network: Box<Network>, sends: BTreeMap<SendId, Send> },
    Fixed { link: FixedLink, free: [Instant; 2], transits: BTreeMap<u64, Packet>, next: u64 },
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

/// An entry of the wire on the agenda.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// An entry of the ring.
    Ring(sci::Entry),
    /// A packet of the formula has arrived.
    Arrival(u64),
    /// A move's echo has come back to a machine, by its transaction.
    Echo(u8, u8),
}

/// Most open transactions of a machine: 6 bits (a transaction's number in a packet).
const TRANSACTIONS: u8 = 64;

fn is_move(command: Command) -> bool {
    matches!(command, Command::Move16 | Command::Move64 | Command::Move256)
}

impl Wire {
    pub(super) fn new(link: Link) -> Result<Wire, sci::ConfigError> {
        let link = match link {
            Link::Ring(config) => {
                Line::Ring { network: Box::new(Network::new(&config)?), sends: BTreeMap::new() }
            }
            Link::Fixed(link) => {
                let (free, transits) = ([Instant::START; 2], BTreeMap::new());
                Line::Fixed { link, free, transits, next: 0 }
            }
        };
        Ok(Wire {
            link,
            open: Default::default(),
            waiting: Default::default(),
            arrived: VecDeque::new(),
            answers: BTreeMap::new(),
            requests: 0,
        })
    }

    /// Sends a request of machine `from`, and chooses its `transaction`.
    pub(super) fn ask<A: From<Entry> + From<sci::Entry>>(
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
    pub(super) fn answer<A: From<Entry> + From<sci::Entry>>(
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
    fn go<A: From<Entry> + From<sci::Entry>>(&mut self, from: usize, agenda: &mut Agenda<A>) {
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

    fn send<A: From<Entry> + From<sci::Entry>>(
        &mut self,
        from: usize,
        packet: Packet,
        agenda: &mut Agenda<A>,
    ) -> Result<(), Packet> {
        let (transaction, command) = (packet.transaction, packet.command);
        match &mut self.link {
            Line::Ring { network, sends } => {
                let node = NodeIndex(from as u32);
                let sent = network.send(node, packet, agenda).map_err(|refused| refused.packet)?;
                let asker = if command.is_response() { 1 - from } else { from };
                sends.insert(sent, Send { asker, transaction, is_move: is_move(command) });
            }
            Line::Fixed { link, free, transits, next } => {
                let symbols = u64::from(command.symbols());
                let start = free[from].max(agenda.now());
                free[from] = start + link.symbol.times(symbols + 1);
                let there = start + link.symbol.times(link.hop_symbols + symbols);
                if is_move(command) {
                    let back = there + link.symbol.times(link.hop_symbols);
                    agenda.schedule(back, Entry::Echo(from as u8, transaction));
                }
                transits.insert(*next, packet);
                agenda.schedule(there, Entry::Arrival(*next));
                *next += 1;
            }
        }
        Ok(())
    }

    /// Handles an entry that is due.
    pub(super) fn handle<A: From<Entry> + From<sci::Entry>>(
        &mut self,
        entry: Entry,
        agenda: &mut Agenda<A>,
    ) {
        match (entry, &mut self.link) {
            (Entry::Ring(entry), Line::Ring { network, .. }) => network.handle(entry, agenda),
            (Entry::Arrival(number), Line::Fixed { transits, .. }) => {
                if let Some(packet) = transits.remove(&number) {
                    self.arrive(packet);
                }
            }
            (Entry::Echo(machine, transaction), _) => {
                self.over(usize::from(machine), transaction, false);
            }
            _ => {}
        }
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
        } else if packet.command == Command::Event00 {
            self.open[1 - to].remove(&packet.transaction);
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
    pub(super) fn take<A: From<Entry> + From<sci::Entry>>(
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
        let Line::Ring { network, sends } = &mut self.link else { return };
        let (mut came, mut over) = (Vec::new(), Vec::new());
        while let Some(report) = network.next_report() {
            match report {
                sci::Report::Event { packet, .. } => came.push(packet),
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
