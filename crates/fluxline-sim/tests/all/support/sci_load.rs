//! Plain sources for SCI networks: saturating or Poisson, every packet taken at once or after a
//! time. For tests and the bench.
//!
//! It is not the common generator (`fluxline_sim::load`): these tests need a target and a rate of
//! each node, slow receivers, any command, the time until the echo of each sender, and a
//! fingerprint of the network's entries alone.
#![allow(dead_code, reason = "tests and benches each use a part")]

use std::collections::VecDeque;

use fluxline_sim::core::ahead::Ahead;
use fluxline_sim::core::model::Entry as _;
use fluxline_sim::net::sci::{
    Command, Config, Entry, Network, NodeIndex, Packet, Report, Retry, Status,
};
use fluxline_sim::{Agenda, Fingerprint, Instant};

/// The receivers of a source.
#[derive(Clone, Debug)]
pub enum Target {
    /// Any node but itself, each as likely.
    Uniform,
    /// One node.
    Node(u32),
    /// No target: the source is silent.
    Silent,
    /// Any of these.
    Among(Vec<u32>),
}

/// One node's source.
#[derive(Clone, Debug)]
pub struct Source {
    pub target: Target,
    /// Sends a symbol time; `None`: as many as the queue takes.
    pub rate: Option<f64>,
}

pub enum Due {
    Net(Entry),
    Arrive(u32),
    Take(NodeIndex, bool),
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Net(entry)
    }
}

pub struct Load {
    pub network: Network,
    pub agenda: Agenda<Due>,
    sources: Vec<Source>,
    waiting: Vec<VecDeque<u64>>,
    /// The offer times of a node's packets in the network, by send number.
    offered_at: std::collections::BTreeMap<u64, u64>,
    random: u64,
    command: Command,
    /// Time that a receiver needs for each packet \[symbols\]; 0: taken at once.
    pub service: u64,
    busy_until: Vec<u64>,
    /// Packets received, by receiver and by sender.
    pub received: Vec<u64>,
    pub received_from: Vec<u64>,
    pub done: Vec<u64>,
    /// Sum, greatest, of the time from the offer to the echo \[symbols\], by sender.
    pub delay: Vec<u64>,
    pub delay_max: Vec<u64>,
    pub lost: u64,
    pub entries: u64,
    /// Of the network's entries, in their order.
    pub fingerprint: Fingerprint,
}

impl Load {
    pub fn new(config: &Config, sources: Vec<Source>, command: Command, seed: u64) -> Load {
        let network = Network::new(config).expect("a configuration that fits");
        let nodes = network.nodes() as usize;
        let mut load = Load {
            network,
            agenda: Agenda::default(),
            waiting: vec![VecDeque::new(); nodes],
            offered_at: std::collections::BTreeMap::new(),
            random: seed,
            command,
            service: 0,
            busy_until: vec![0; nodes],
            received: vec![0; nodes],
            received_from: vec![0; nodes],
            done: vec![0; nodes],
            delay: vec![0; nodes],
            delay_max: vec![0; nodes],
            lost: 0,
            entries: 0,
            fingerprint: Fingerprint::default(),
            sources,
        };
        for node in 0..load.sources.len() as u32 {
            load.next_arrival(node);
            load.feed(node);
        }
        load
    }

    pub fn uniform(config: &Config, rate: Option<f64>, command: Command, seed: u64) -> Load {
        let source = Source { target: Target::Uniform, rate };
        Load::new(config, vec![source; config.addresses.len()], command, seed)
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn now(&self) -> u64 {
        self.network.config().clock.tick_from(self.agenda.now())
    }

    fn next_arrival(&mut self, node: u32) {
        if let Some(rate) = self.sources[node as usize].rate {
            let unit = (self.draw() >> 11) as f64 / (1_u64 << 53) as f64;
            let after = (-(1.0 - unit).ln() / rate).ceil() as u64;
            let at = self.network.config().clock.at(self.now() + after);
            self.agenda.schedule(at, Due::Arrive(node));
        }
    }

    /// Offers what waits.
    fn feed(&mut self, node: u32) {
        let source = self.sources[node as usize].clone();
        loop {
            let since = match source.rate {
                Some(_) => self.waiting[node as usize].front().copied(),
                None => Some(self.now()),
            };
            let Some(since) = since else { return };
            let nodes = self.sources.len() as u64;
            let to = match &source.target {
                Target::Silent => return,
                Target::Node(node) => *node,
                Target::Among(nodes) => nodes[(self.draw() % nodes.len() as u64) as usize],
                Target::Uniform => {
                    ((u64::from(node) + 1 + self.draw() % (nodes - 1)) % nodes) as u32
                }
            };
            let packet = Packet {
                target: self.network.address(NodeIndex(to)),
                source: self.network.address(NodeIndex(node)),
                command: self.command,
                transaction: 0,
                offset: 0,
                status: Status::Normal,
                data: Vec::new(),
            };
            let Ok(id) = self.network.send(NodeIndex(node), packet, &mut self.agenda) else {
                return;
            };
            self.waiting[node as usize].pop_front();
            self.offered_at.insert(id.0, since);
        }
    }

    /// Runs to tick `end`.
    pub fn run(&mut self, end: u64) {
        let until = self.network.config().clock.at(end);
        let mut ahead = Ahead::default();
        loop {
            ahead.step(&self.agenda, |due, nearness| {
                if let Due::Net(entry) = due {
                    self.network.touch(entry, nearness);
                }
            });
            let Some(due) = self.agenda.take(until) else { break };
            self.entries += 1;
            match due {
                Due::Net(entry) => {
                    self.fingerprint.add(self.agenda.now(), entry.component(), entry.kind());
                    self.network.handle(entry, &mut self.agenda);
                }
                Due::Take(node, response) => self.take(node, response),
                Due::Arrive(node) => {
                    let now = self.now();
                    self.waiting[node as usize].push_back(now);
                    self.next_arrival(node);
                    self.feed(node);
                }
            }
            self.reports();
        }
        self.network.check_conservation().expect("all is accounted for");
    }

    /// Stops all sources and runs until nothing is left to do.
    pub fn drain(&mut self) {
        self.sources.iter_mut().for_each(|source| source.target = Target::Silent);
        self.sources.iter_mut().for_each(|source| source.rate = None);
        while self.agenda.next_at().is_some_and(|next| next < Instant::NEVER) {
            let end = self.now() + 10_000;
            self.run(end);
        }
    }

    fn take(&mut self, node: NodeIndex, response: bool) {
        let packet = match response {
            false => self.network.take_request(node, &mut self.agenda),
            true => self.network.take_response(node, &mut self.agenda),
        };
        let packet = packet.expect("what was reported");
        self.received[node.0 as usize] += 1;
        if let Some(from) = self.network.node_of(packet.source) {
            self.received_from[from.0 as usize] += 1;
        }
    }

    fn reports(&mut self) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, response } if self.service == 0 => {
                    self.take(node, response);
                }
                Report::Received { node, response } => {
                    let free = &mut self.busy_until[node.0 as usize];
                    *free = (*free).max(self.network.config().clock.tick_from(self.agenda.now()))
                        + self.service;
                    let at = self.network.config().clock.at(*free);
                    self.agenda.schedule(at, Due::Take(node, response));
                }
                Report::Done { node, send } => {
                    let now = self.now();
                    if let Some(since) = self.offered_at.remove(&send.0) {
                        self.delay[node.0 as usize] += now - since;
                        let max = &mut self.delay_max[node.0 as usize];
                        *max = (*max).max(now - since);
                    }
                    self.done[node.0 as usize] += 1;
                    self.feed(node.0);
                }
                Report::Lost { node, send, .. } => {
                    self.offered_at.remove(&send.0);
                    self.lost += 1;
                    self.feed(node.0);
                }
                Report::Space { node, .. } => self.feed(node.0),
                Report::Dropped { .. } | Report::Event { .. } | Report::Strobe { .. } => {}
            }
        }
    }

    /// Sends offered and neither done nor lost.
    pub fn open(&self) -> usize {
        self.offered_at.len()
    }

    /// Received packets in all.
    pub fn total(&self) -> u64 {
        self.received.iter().sum()
    }

    /// Mean time from the offer to the echo of a node \[symbols\].
    pub fn mean_delay(&self, node: usize) -> f64 {
        self.delay[node] as f64 / self.done[node].max(1) as f64
    }
}

/// Config with queues so large that only links limit.
pub fn wide(nodes: u32, flow_control: bool) -> Config {
    Config {
        flow_control,
        retry: if flow_control { Retry::Aged } else { Retry::Plain { delay: 0 } },
        send_queue: 64,
        unacknowledged: 64,
        request_queue: 1000,
        response_queue: 1000,
        ..Config::ring(nodes)
    }
}
