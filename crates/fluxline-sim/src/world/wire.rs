//! What carries packets between nodes: the SCI network, or a plain link of fixed delay.

use super::plain_link::{self, PlainLink};
use crate::Agenda;
use crate::net::sci::link::{NodeIndex, Refusal, Report};
use crate::net::sci::{Network, Packet, link};

/// One of them.
#[derive(Debug)]
pub enum Wire {
    /// Fixed delay, losses by chance.
    Plain(PlainLink),
    /// Ringlets, symbol for symbol.
    Network(Box<Network>),
}

/// An entry of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Of the plain link.
    Plain(plain_link::Entry),
    /// Of the network.
    Network(link::Entry),
}

/// A report of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireReport {
    /// Something can be taken or sent at this node.
    Look {
        /// The node.
        node: usize,
    },
    /// A send was taken.
    Done {
        /// The node.
        node: usize,
        /// The send.
        send: u64,
    },
    /// A send was lost.
    Lost {
        /// The node.
        node: usize,
        /// The send.
        send: u64,
    },
}

/// The result of an attempt to send.
#[derive(Debug)]
pub enum Sent {
    /// Under this number.
    As(u64),
    /// Come again later.
    Full,
    /// The packet can never be sent.
    Lost,
}

/// A receive queue of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The queue of requests.
    Requests,
    /// The queue of responses.
    Responses,
}

impl Wire {
    /// Sends a packet of a node.
    pub fn send<E>(&mut self, node: usize, packet: Packet, agenda: &mut Agenda<E>) -> Sent
    where
        E: From<plain_link::Entry> + From<link::Entry>,
    {
        match self {
            Wire::Plain(link) => Sent::As(link.send(node, packet, agenda).0),
            Wire::Network(network) => match network.send(index(node), packet, agenda) {
                Ok(send) => Sent::As(send.0),
                Err(refused) if refused.why == Refusal::Full => Sent::Full,
                Err(_) => Sent::Lost,
            },
        }
    }

    /// Does what is due.
    pub fn handle<E>(&mut self, entry: Entry, agenda: &mut Agenda<E>)
    where
        E: From<plain_link::Entry> + From<link::Entry>,
    {
        match (self, entry) {
            (Wire::Plain(link), Entry::Plain(entry)) => link.handle(entry),
            (Wire::Network(network), Entry::Network(entry)) => network.handle(entry, agenda),
            _ => {} // an entry is of the link that made it
        }
    }

    /// Returns the next report.
    pub fn next_report(&mut self) -> Option<WireReport> {
        match self {
            Wire::Plain(link) => link.next_report().map(|report| match report {
                plain_link::Report::Received { node } => WireReport::Look { node },
                plain_link::Report::Done { node, send } => WireReport::Done { node, send: send.0 },
                plain_link::Report::Lost { node, send } => WireReport::Lost { node, send: send.0 },
            }),
            Wire::Network(network) => loop {
                return Some(match network.next_report()? {
                    Report::Received { node, .. } | Report::Space { node, .. } => {
                        WireReport::Look { node: node.0 as usize }
                    }
                    Report::Done { node, send } => {
                        WireReport::Done { node: node.0 as usize, send: send.0 }
                    }
                    Report::Lost { node, send, .. } => {
                        WireReport::Lost { node: node.0 as usize, send: send.0 }
                    }
                    // No driver sends events; packets that a switch dropped are noticed by
                    // time-out.
                    Report::Event { .. } | Report::Strobe { .. } | Report::Dropped { .. } => {
                        continue;
                    }
                });
            },
        }
    }

    /// Takes a node's power.
    pub fn kill<E>(&mut self, node: usize, agenda: &mut Agenda<E>)
    where
        E: From<plain_link::Entry> + From<link::Entry>,
    {
        match self {
            Wire::Plain(link) => link.cut(node),
            Wire::Network(network) => network.kill_node(index(node), agenda),
        }
    }

    /// Pulls the first cable behind a node.
    pub fn cut<E>(&mut self, node: usize, agenda: &mut Agenda<E>)
    where
        E: From<plain_link::Entry> + From<link::Entry>,
    {
        match self {
            Wire::Plain(link) => link.cut(node),
            Wire::Network(network) => network.cut_cable(index(node), 0, agenda),
        }
    }

    /// Takes the next packet that came to a node.
    pub fn take<E>(&mut self, node: usize, queue: Queue, agenda: &mut Agenda<E>) -> Option<Packet>
    where
        E: From<plain_link::Entry> + From<link::Entry>,
    {
        match self {
            Wire::Plain(link) => match queue {
                Queue::Requests => link.take_request(node),
                Queue::Responses => link.take_response(node),
            },
            Wire::Network(network) => match queue {
                Queue::Requests => network.take_request(index(node), agenda),
                Queue::Responses => network.take_response(index(node), agenda),
            },
        }
    }
}

fn index(node: usize) -> NodeIndex {
    NodeIndex(node as u32)
}
