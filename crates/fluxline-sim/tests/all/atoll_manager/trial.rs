//! Random traffic on a managed network under faults, with each message counted at both ends.

use std::collections::BTreeMap;

use fluxline_core::random::Draw;

use fluxline_sim::core::fault::FaultKind;
use fluxline_sim::core::interconnect::{Class, Interconnect, Refusal, Report, SendId};
use fluxline_sim::net::atoll::manager::{Entry, Managed, Settings};
use fluxline_sim::net::atoll::wiring::{LINKS, NONE};
use fluxline_sim::net::atoll::{Config, ConfigError, Cut, Parcel};
use fluxline_sim::{Agenda, Duration, Entry as _, Fingerprint, Instant};

/// The traffic: each node sends to a random other one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// The length of a message \[bytes\].
    pub bytes: u32,
    /// The mean time between messages of a node.
    pub every: Duration,
    /// The seed.
    pub seed: u64,
}

/// A fault of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// A cable at a link port is cut.
    Cut {
        /// The node.
        node: u32,
        /// Its port.
        port: u32,
    },
    /// It is repaired.
    Repair {
        /// The node.
        node: u32,
        /// Its port.
        port: u32,
    },
    /// The host of a node crashes.
    Host(u32),
    /// A node loses its power.
    Power(u32),
}

/// A message of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The time at which the driver took it.
    pub sent_at: Instant,
    /// The time at which it arrived first.
    pub arrived_at: Option<Instant>,
    /// Arrivals at the receiving program.
    pub arrivals: u32,
    /// The end at the sender.
    pub end: Option<SendEnd>,
}

/// The end of a message at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// It was acknowledged.
    Done,
    /// It was given up, or refused, at this time.
    Lost(Instant),
}

/// An entry of a trial on the agenda.
#[derive(Clone, Copy, Debug)]
enum Due {
    Network(Entry),
    /// A node sends.
    Send(u32),
    Pause,
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Network(entry)
    }
}

/// A network under traffic and faults.
pub struct Trial {
    /// The network.
    pub network: Managed<Parcel>,
    agenda: Agenda<Due>,
    fingerprint: Fingerprint,
    traffic: Traffic,
    draw: Draw,
    is_sending: bool,
    deliveries: Vec<Delivery>,
    /// The delivery of each send that is not over.
    open: BTreeMap<SendId, usize>,
    /// Messages that a full queue turned away; they do not count.
    turned_away: u64,
    is_alive: Vec<bool>,
}

impl Trial {
    /// Makes a network at rest, whose management begins.
    pub fn new(config: Config, settings: Settings, traffic: Traffic) -> Result<Trial, ConfigError> {
        let mut network = Managed::new(config, settings)?;
        let mut agenda = Agenda::default();
        network.begin(&mut agenda);
        let nodes = network.nodes() as usize;
        Ok(Trial {
            network,
            agenda,
            fingerprint: Fingerprint::default(),
            traffic,
            draw: Draw::new(traffic.seed),
            is_sending: false,
            deliveries: Vec::new(),
            open: BTreeMap::new(),
            turned_away: 0,
            is_alive: vec![true; nodes],
        })
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.agenda.now()
    }

    /// Returns all messages.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// Returns the number of messages that found the queue of their sender full.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// Returns the fingerprint of the run.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Lets all nodes send from now on.
    pub fn begin_sending(&mut self) {
        self.is_sending = true;
        for node in 0..self.is_alive.len() as u32 {
            self.plan_send(node);
        }
    }

    /// Lets no node send any more.
    pub fn end_sending(&mut self) {
        self.is_sending = false;
    }

    fn plan_send(&mut self, node: u32) {
        let share = self.draw.below(2 * self.traffic.every.as_ps().max(1));
        self.agenda.schedule_after(Duration::from_ps(share), Due::Send(node));
    }

    /// Sends a message from one node to another.
    pub fn send(&mut self, from: u32, to: u32) {
        let parcel = Parcel {
            target: to,
            port: (self.deliveries.len() % 4) as u8,
            bytes: self.traffic.bytes,
            number: self.deliveries.len() as u64,
        };
        let now = self.agenda.now();
        let (arrived_at, arrivals) = (None, 0);
        let delivery = Delivery { from, to, sent_at: now, arrived_at, arrivals, end: None };
        match self.network.send(from, parcel, &mut self.agenda) {
            Ok(send) => {
                self.open.insert(send, self.deliveries.len());
                self.deliveries.push(delivery);
            }
            Err(refused) if refused.why == Refusal::Full => {
                self.turned_away += 1;
            }
            Err(_) => self.deliveries.push(Delivery { end: Some(SendEnd::Lost(now)), ..delivery }),
        }
        self.follow();
    }

    /// Handles everything until a time.
    pub fn run_until(&mut self, until: Instant) {
        self.agenda.schedule(until, Due::Pause);
        while let Some(due) = self.agenda.take(until) {
            match due {
                Due::Network(entry) => {
                    self.fingerprint.add(self.agenda.now(), entry.component(), entry.kind());
                    self.network.handle(entry, &mut self.agenda);
                    self.follow();
                }
                Due::Send(node) => self.send_random(node),
                Due::Pause => {}
            }
        }
    }

    /// Runs for a time.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.agenda.now() + span);
    }

    /// Runs until every manager is done, for at most `limit`. Returns false if one is not.
    pub fn settle(&mut self, limit: Duration) -> bool {
        let end = self.agenda.now() + limit;
        while !self.network.is_settled() && self.agenda.now() < end {
            self.run_for(Duration::from_us(10));
        }
        self.network.is_settled()
    }

    /// Runs until each message has ended at its sender, for at most `limit`. Returns false if one
    /// has not.
    pub fn finish(&mut self, limit: Duration) -> bool {
        let end = self.agenda.now() + limit;
        while !self.open.is_empty() && self.agenda.now() < end {
            self.run_for(Duration::from_us(100));
        }
        self.open.is_empty()
    }

    fn send_random(&mut self, node: u32) {
        if !self.is_sending || !self.is_alive[node as usize] {
            return;
        }
        let nodes = self.is_alive.len() as u64;
        let to = (u64::from(node) + 1 + self.draw.below(nodes - 1)) % nodes;
        self.send(node, to as u32);
        self.plan_send(node);
    }

    fn follow(&mut self) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class: _ } => {
                    let parcel = self.network.take(node, Class::Request, &mut self.agenda);
                    let Some(parcel) = parcel else { continue };
                    let delivery = &mut self.deliveries[parcel.number as usize];
                    delivery.arrivals += 1;
                    delivery.arrived_at.get_or_insert(self.agenda.now());
                }
                Report::Done { send, .. } => self.end(send, SendEnd::Done),
                Report::Lost { send, .. } => self.end(send, SendEnd::Lost(self.agenda.now())),
                Report::Dropped { .. } | Report::Space { .. } => {}
            }
        }
    }

    fn end(&mut self, send: SendId, end: SendEnd) {
        if let Some(index) = self.open.remove(&send) {
            self.deliveries[index].end = Some(end);
        }
    }

    /// Applies a fault or a repair now. Returns false if the network does not have it.
    pub fn strike(&mut self, blow: Blow) -> bool {
        let has_it = match blow {
            Blow::Cut { node, port } => {
                self.network.set_cable(node, port, Cut::Yes, &mut self.agenda)
            }
            Blow::Repair { node, port } => {
                self.network.set_cable(node, port, Cut::No, &mut self.agenda)
            }
            Blow::Host(node) => self.kill(FaultKind::Host(node)),
            Blow::Power(node) => self.kill(FaultKind::Power(node)),
        };
        self.follow();
        has_it
    }

    fn kill(&mut self, kind: FaultKind) -> bool {
        let has_it = self.network.fault(kind, &mut self.agenda);
        if let Some(is_alive) = self.is_alive.get_mut(kind.node() as usize) {
            *is_alive = false;
        }
        has_it
    }

    /// Returns the group of each node: living nodes that living nodes join have the same number.
    /// A dead node has a group of its own.
    pub fn groups(&self) -> Vec<u32> {
        let wiring = &self.network.network().config().wiring;
        let mut groups: Vec<u32> = (0..wiring.nodes()).collect();
        let mut waiting: Vec<u32> = groups.clone();
        while let Some(node) = waiting.pop() {
            for port in 0..LINKS {
                let end = wiring.end_of(node, port);
                let is_up = end != NONE && self.network.network().is_link_up(node, port);
                let is_alive = |node: u32| self.is_alive[node as usize];
                if !is_up || !is_alive(node) || !is_alive(end / LINKS) {
                    continue;
                }
                let (own, other) = (groups[node as usize], groups[(end / LINKS) as usize]);
                if own < other {
                    groups[(end / LINKS) as usize] = own;
                    waiting.push(end / LINKS);
                }
            }
        }
        groups
    }
}
