//! The plainest of links: a fixed delay, and losses from a seed. Tests and timing by hand use it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxline_core::random::Draw;

use crate::net::sci::{NodeId, Packet};
use crate::{Agenda, Duration};

/// A send that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SendId(pub u64);

/// A report of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A packet has come: take it.
    Received {
        /// The node it came to.
        node: usize,
    },
    /// A send was echoed.
    Done {
        /// The node.
        node: usize,
        /// The send.
        send: SendId,
    },
    /// A send or its echo was lost.
    Lost {
        /// The node.
        node: usize,
        /// The send.
        send: SendId,
    },
}

/// An entry of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The packet is there.
    Arrive(u64),
    /// Its echo is back.
    Echo(u64),
    /// It is known that it will not come.
    Lose(u64),
}

#[derive(Debug)]
struct Flight {
    from: usize,
    to: usize,
    packet: Option<Packet>,
}

/// All nodes of one link.
#[derive(Debug)]
pub struct PlainLink {
    delay: Duration,
    loss: f64,
    draw: Draw,
    places: BTreeMap<NodeId, usize>,
    flights: BTreeMap<u64, Flight>,
    number: u64,
    inbox: Vec<VecDeque<Packet>>,
    dead: BTreeSet<usize>,
    reports: VecDeque<Report>,
}

impl PlainLink {
    /// A link between these nodes; `loss` is the chance of each packet and each echo.
    #[must_use]
    pub fn new(nodes: &[NodeId], delay: Duration, loss: f64, seed: u64) -> PlainLink {
        PlainLink {
            delay,
            loss,
            draw: Draw::new(seed),
            places: nodes.iter().enumerate().map(|(place, &id)| (id, place)).collect(),
            flights: BTreeMap::new(),
            number: 0,
            inbox: nodes.iter().map(|_| VecDeque::new()).collect(),
            dead: BTreeSet::new(),
            reports: VecDeque::new(),
        }
    }

    /// Sends a packet; a report says what became of it.
    pub fn send<A: From<Entry>>(
        &mut self,
        from: usize,
        packet: Packet,
        agenda: &mut Agenda<A>,
    ) -> SendId {
        self.number += 1;
        let number = self.number;
        let to = self.places.get(&packet.target).copied();
        let to = to.filter(|to| !self.dead.contains(to) && !self.dead.contains(&from));
        let (there, back) = (self.draw.chance(self.loss), self.draw.chance(self.loss));
        let twice = self.delay + self.delay;
        match to {
            Some(to) if !there => {
                agenda.schedule_after(self.delay, Entry::Arrive(number));
                let end = if back { Entry::Lose(number) } else { Entry::Echo(number) };
                agenda.schedule_after(twice, end);
                self.flights.insert(number, Flight { from, to, packet: Some(packet) });
            }
            _ => {
                agenda.schedule_after(twice, Entry::Lose(number));
                self.flights.insert(number, Flight { from, to: from, packet: None });
            }
        }
        SendId(number)
    }

    /// Does what is due.
    pub fn handle(&mut self, entry: Entry) {
        match entry {
            Entry::Arrive(number) => {
                let Some(flight) = self.flights.get_mut(&number) else { return };
                if let Some(packet) = flight.packet.take() {
                    let node = flight.to;
                    self.inbox[node].push_back(packet);
                    self.reports.push_back(Report::Received { node });
                }
            }
            Entry::Echo(number) | Entry::Lose(number) => {
                let Some(flight) = self.flights.remove(&number) else { return };
                let (node, send) = (flight.from, SendId(number));
                let echoed = matches!(entry, Entry::Echo(_));
                let report =
                    if echoed { Report::Done { node, send } } else { Report::Lost { node, send } };
                self.reports.push_back(report);
            }
        }
    }

    /// Returns the next report.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Takes the oldest request that came to a node.
    pub fn take_request(&mut self, node: usize) -> Option<Packet> {
        self.take(node, |packet| !packet.command.is_response())
    }

    /// Takes the oldest response that came to a node.
    pub fn take_response(&mut self, node: usize) -> Option<Packet> {
        self.take(node, |packet| packet.command.is_response())
    }

    fn take(&mut self, node: usize, wanted: impl Fn(&Packet) -> bool) -> Option<Packet> {
        let inbox = &mut self.inbox[node];
        let index = inbox.iter().position(wanted)?;
        inbox.remove(index)
    }

    /// Cuts a node off: nothing goes to it or comes from it any more.
    pub fn cut(&mut self, node: usize) {
        self.dead.insert(node);
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        0
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Arrive(_) => 0x40,
            Entry::Echo(_) => 0x41,
            Entry::Lose(_) => 0x42,
        }
    }
}
