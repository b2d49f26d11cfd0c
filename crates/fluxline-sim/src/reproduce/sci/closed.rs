//! A closed loop: every node keeps a number of transactions open, with a least time between sends.
//!
//! It is not the common generator ([`crate::load`]), which has one pattern for all nodes, sends
//! messages without reads, and takes arrived packets at once. These experiments need targets of
//! each node, reads, and hosts that need a time for each packet in both directions.

use std::collections::VecDeque;

use fluxline_core::random::Draw;

use crate::net::sci::{
    Command, Config, ConfigError, Entry, Network, NodeIndex, Packet, Report, Status,
};
use crate::{Agenda, Clock};

/// The plan of all nodes.
pub struct Plan {
    /// The command of their packets.
    pub command: Command,
    /// The targets of each node; nodes after the last entry are silent.
    pub targets: Vec<Vec<u32>>,
    /// Transactions that a node keeps open at once.
    pub window: u32,
    /// Least time between two sends of a host, and between two packets that it receives
    /// \[symbols\].
    pub gap: u64,
}

enum Due {
    Net(Entry),
    Send(u32),
    Take(u32),
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Net(entry)
    }
}

#[derive(Default)]
struct Node {
    open: u32,
    /// The tick at which the host may send again.
    send_at: u64,
    /// The tick at which the host has taken its received packets.
    free_at: u64,
    answers: VecDeque<Packet>,
}

/// A network in a closed loop.
pub struct Closed {
    network: Network,
    agenda: Agenda<Due>,
    plan: Plan,
    nodes: Vec<Node>,
    draw: Draw,
    /// Bytes of completed transactions, by the node that began them.
    pub bytes: Vec<u64>,
}

impl Closed {
    pub fn new(config: &Config, plan: Plan) -> Result<Closed, ConfigError> {
        let network = Network::new(config)?;
        let count = network.nodes() as usize;
        let mut closed = Closed {
            network,
            agenda: Agenda::default(),
            nodes: (0..count).map(|_| Node::default()).collect(),
            draw: Draw::new(1),
            bytes: vec![0; count],
            plan,
        };
        (0..closed.plan.targets.len() as u32).for_each(|node| closed.offer(node));
        Ok(closed)
    }

    fn clock(&self) -> Clock {
        self.network.config().clock
    }

    fn now(&self) -> u64 {
        self.clock().tick_from(self.agenda.now())
    }

    /// Returns the number of ring ports, which is the number of links.
    pub fn links(&self) -> u64 {
        (0..self.network.nodes())
            .map(|node| self.network.ports_of(NodeIndex(node)).len() as u64)
            .sum()
    }

    /// Returns the symbols of packets on all links so far, without the idle behind each.
    pub fn busy_symbols(&self) -> u64 {
        self.network.total().symbols_out
    }

    /// Runs until a tick.
    pub fn run(&mut self, end: u64) {
        let until = self.clock().at(end);
        while let Some(due) = self.agenda.take(until) {
            match due {
                Due::Net(entry) => self.network.handle(entry, &mut self.agenda),
                Due::Send(node) => self.offer(node),
                Due::Take(node) => self.take_request(node),
            }
            while let Some(report) = self.network.next_report() {
                self.follow(report);
            }
        }
    }

    fn packet(&self, from: u32, to: u32, command: Command) -> Packet {
        Packet {
            target: self.network.address(NodeIndex(to)),
            source: self.network.address(NodeIndex(from)),
            command,
            transaction: 0,
            offset: 0,
            status: Status::Normal,
            data: Vec::new(),
        }
    }

    /// Sends all packets that may be sent: answers first, because they complete other nodes' work.
    fn offer(&mut self, node: u32) {
        let index = node as usize;
        while let Some(packet) = self.nodes[index].answers.pop_front() {
            if let Err(back) = self.network.send(NodeIndex(node), packet, &mut self.agenda) {
                self.nodes[index].answers.push_front(back.packet);
                break;
            }
        }
        let now = self.now();
        let targets = self.plan.targets.get(index).map_or(0, Vec::len) as u64;
        let may = |state: &Node| state.open < self.plan.window && state.send_at <= now;
        while targets > 0 && may(&self.nodes[index]) {
            let to = self.plan.targets[index][self.draw.below(targets) as usize];
            let packet = self.packet(node, to, self.plan.command);
            if self.network.send(NodeIndex(node), packet, &mut self.agenda).is_err() {
                return;
            }
            self.nodes[index].open += 1;
            if self.plan.gap > 0 {
                self.nodes[index].send_at = now + self.plan.gap;
                self.agenda.schedule(self.clock().at(now + self.plan.gap), Due::Send(node));
            }
        }
    }

    fn take_request(&mut self, node: u32) {
        let Some(packet) = self.network.take_request(NodeIndex(node), &mut self.agenda) else {
            return;
        };
        let requester = self.network.node_of(packet.source);
        if let (Some(command), Some(to)) = (packet.command.response(), requester) {
            let answer = self.packet(node, to.0, command);
            self.nodes[node as usize].answers.push_back(answer);
            self.offer(node);
        }
    }

    /// Ends a transaction of `node`.
    fn complete(&mut self, node: u32) {
        let response = self.plan.command.response().map_or(0, Command::data_bytes);
        let bytes = self.plan.command.data_bytes().max(response);
        self.bytes[node as usize] += u64::from(bytes);
        self.nodes[node as usize].open -= 1;
        self.offer(node);
    }

    fn follow(&mut self, report: Report) {
        match report {
            Report::Received { node, response: true } => {
                while self.network.take_response(node, &mut self.agenda).is_some() {
                    self.complete(node.0);
                }
            }
            Report::Received { node, .. } if self.plan.gap == 0 => self.take_request(node.0),
            Report::Received { node, .. } => {
                let now = self.now();
                let state = &mut self.nodes[node.0 as usize];
                state.free_at = state.free_at.max(now) + self.plan.gap;
                let at = state.free_at;
                self.agenda.schedule(self.clock().at(at), Due::Take(node.0));
            }
            Report::Done { node, .. } if self.plan.command.response().is_none() => {
                self.complete(node.0);
            }
            Report::Done { node, .. } | Report::Space { node, .. } => self.offer(node.0),
            _ => {}
        }
    }
}
