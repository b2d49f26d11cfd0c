//! A global clock on a ringlet: a master sends strobes, and nodes set their time by them.
//!
//! The problem: each node stamps its data by its own clock, which has an arbitrary start and
//! drifts. The idea: a master sends a [strobe](super::Command::Strobe) once per period. Each node
//! notes its own clock's time when the strobe arrives, and adds the strobe's travel time. The
//! travel time on an idle ringlet is measured: the strobe returns to its master, and each node
//! counts its share of the shortest round so far. Traffic delays strobes: they wait at the master
//! and in bypass FIFOs. [`Correction`] chooses which of these delays nodes know.
//!
//! SCI has clock strobes; their route and their content are reconstructed here
//! (docs/simulation/clock.md).
//!
//! ```text
//! clock.begin(agenda)
//! Entry        -> clock.handle(entry, network, agenda)
//! Strobe       -> clock.passed(node, passage, agenda)      a report of the network
//! Done, Lost   -> clock.ended(send)                        likewise: whether it was a strobe
//! clock.time(node, now)                                    what the node thinks it is
//! ```

mod config;
mod errors;
mod follower;
mod loaded;
mod local;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use fluxline_core::random::Draw;

use crate::core::agenda::{Part, Schedule};
use crate::net::sci::{
    self, Command, Network, NodeId, NodeIndex, Packet, Passage, Refusal, SendId, Status,
};
use crate::{Clock, Duration, Instant};

pub use config::{Config, ConfigError, Correction};
pub use errors::Errors;
pub use follower::{Discipline, Fix, Follower};
pub use loaded::{Clocked, Loaded, LoadedEntry, LoadedError, Measured, loaded, measure};
pub use local::{GlobalTime, LocalClock, LocalTime};

/// An entry of a global clock on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The master sends a strobe.
    Strobe,
    /// A node checks that strobes still arrive.
    Watch {
        /// The node.
        node: u32,
    },
    /// The error of every node is sampled.
    Sample,
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        if let Entry::Watch { node } = self { *node } else { 0 }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Strobe => 0x20,
            Entry::Watch { .. } => 0x21,
            Entry::Sample => 0x22,
        }
    }
}

/// An entry of the agenda of a ringlet with a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// An entry of the network.
    Network(sci::Entry),
    /// An entry of the clock.
    Clock(Entry),
}

impl From<sci::Entry> for Due {
    fn from(entry: sci::Entry) -> Due {
        Due::Network(entry)
    }
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Clock(entry)
    }
}

impl crate::Entry for Due {
    fn component(&self) -> u32 {
        match self {
            Due::Network(entry) => crate::Entry::component(entry),
            Due::Clock(entry) => crate::Entry::component(entry),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Due::Network(entry) => crate::Entry::kind(entry),
            Due::Clock(entry) => crate::Entry::kind(entry),
        }
    }
}

/// A report of a global clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// No strobe arrived at a node within its patience; at the master: none returned.
    Missing {
        /// The node.
        node: u32,
        /// The number of the last strobe that arrived, if any.
        last: Option<u64>,
    },
    /// Strobes arrive again.
    Back {
        /// The node.
        node: u32,
        /// The number of strobes missing in between.
        skipped: u64,
    },
}

/// The counters of a global clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Strobes that the master handed to its ring port.
    pub sent: u64,
    /// Strobes for which its send queue had no room.
    pub unsent: u64,
    /// Strobes that arrived at nodes, returns to the master included.
    pub heard: u64,
    /// Strobe numbers that nodes found missing.
    pub skipped: u64,
    /// The number of times that a node reported missing strobes.
    pub missing: u64,
}

/// The last strobe that a node received.
#[derive(Clone, Copy, Debug)]
struct Heard {
    number: u64,
    at: Instant,
}

#[derive(Clone, Debug)]
struct Node {
    clock: LocalClock,
    follower: Follower,
    heard: Option<Heard>,
    is_missing: bool,
    errors: Errors,
}

/// The clocks of all nodes of a ringlet.
#[derive(Clone, Debug)]
pub struct GlobalClock {
    config: Config,
    symbols: Clock,
    source: NodeId,
    nodes: Vec<Node>,
    /// The shortest round of a strobe so far, less the known delays \[symbols\].
    round: Option<u64>,
    next: u64,
    /// The number of the first strobe, and the time at which the clock began.
    first: u64,
    began: Instant,
    open: BTreeSet<SendId>,
    counters: Counters,
    reports: VecDeque<Report>,
}

impl GlobalClock {
    /// Makes clocks with drifts and starts drawn from the seed.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration does not fit the network.
    pub fn new(config: &Config, network: &sci::Config) -> Result<GlobalClock, ConfigError> {
        config.check(network)?;
        let mut draw = Draw::new(config.seed);
        let node = |_: &NodeId| {
            let most = i64::from(config.drift_ppb_max);
            let drift_ppb = draw.below(2 * most as u64 + 1) as i64 - most;
            let start_ps = draw.below(config.start_max.as_ps().saturating_add(1).max(1));
            let clock = LocalClock { start_ps, drift_ppb, tick_ps: config.tick.as_ps() };
            let follower = Follower::new(config.discipline);
            Node { clock, follower, heard: None, is_missing: false, errors: Errors::default() }
        };
        Ok(GlobalClock {
            config: *config,
            symbols: network.clock,
            source: network.addresses[config.master as usize],
            nodes: network.addresses.iter().map(node).collect(),
            round: None,
            next: 0,
            first: 0,
            began: Instant::START,
            open: BTreeSet::new(),
            counters: Counters::default(),
            reports: VecDeque::new(),
        })
    }

    /// Starts the clock: the first strobe is that of the next whole period.
    pub fn begin(&mut self, agenda: &mut impl Schedule<Due>) {
        self.began = agenda.now();
        self.next = agenda.now().as_ps().div_ceil(self.config.period.as_ps());
        self.first = self.next;
        agenda.schedule(self.planned(self.next), Due::Clock(Entry::Strobe));
        agenda.schedule(self.planned(self.next), Due::Clock(Entry::Sample));
        for node in 0..self.nodes.len() as u32 {
            self.watch(node, agenda);
        }
    }

    /// Returns the time at which strobe number `number` is handed to the master's ring port.
    fn planned(&self, number: u64) -> Instant {
        Instant::START + self.config.period.times(number)
    }

    /// Handles an entry that is due.
    pub fn handle(&mut self, entry: Entry, network: &mut Network, agenda: &mut impl Schedule<Due>) {
        match entry {
            Entry::Strobe => self.strobe(network, agenda),
            Entry::Watch { node } => self.look(node, agenda.now()),
            Entry::Sample => self.sample(agenda),
        }
    }

    fn strobe(&mut self, network: &mut Network, agenda: &mut impl Schedule<Due>) {
        let packet = Packet {
            target: self.source,
            source: self.source,
            command: Command::Strobe,
            transaction: 0,
            offset: self.next,
            status: Status::Normal,
            data: Vec::new(),
        };
        let master = NodeIndex(self.config.master);
        match network.send(master, packet, &mut Part::<_, Due>::of(agenda)) {
            Ok(send) => {
                self.counters.sent += 1;
                self.open.insert(send);
            }
            Err(refused) if refused.why == Refusal::Full => self.counters.unsent += 1,
            // A dead master sends nothing more: nodes will report missing strobes.
            Err(_) => return,
        }
        self.next += 1;
        agenda.schedule(self.planned(self.next), Due::Clock(Entry::Strobe));
    }

    /// Returns true if a send that ended, successfully or not, was a strobe.
    pub fn ended(&mut self, send: SendId) -> bool {
        self.open.remove(&send)
    }

    /// Handles a strobe that passed a node or returned to the master. Strobes of other nodes are
    /// ignored.
    pub fn passed(&mut self, node: NodeIndex, passage: Passage, agenda: &mut impl Schedule<Due>) {
        if passage.source != self.source {
            return;
        }
        self.hear(node.0, passage.number, agenda);
        let left = self.believed_start(passage.number) + self.known_delay(&passage);
        if node.0 == self.config.master {
            let round = passage.arrived.saturating_sub(left);
            self.round = Some(self.round.map_or(round, |shortest| shortest.min(round)));
            return;
        }
        let Some(round) = self.round else { return };
        let count = self.nodes.len() as u64;
        let hops = (u64::from(node.0) + count - u64::from(self.config.master)) % count;
        let global = self.symbols.at(left + round * hops / count);
        let came = self.symbols.at(passage.arrived);
        self.take_error(node.0, agenda.now());
        let node = &mut self.nodes[node.0 as usize];
        let global = GlobalTime { ps: i128::from(global.as_ps()) };
        node.follower.set(Fix { local: node.clock.read(came), global });
    }

    /// Returns the start of an undelayed strobe: the first symbol after it was handed over.
    fn believed_start(&self, number: u64) -> u64 {
        let handed = self.planned(number);
        self.symbols.tick_from(Instant::from_ps(handed.as_ps() + 1))
    }

    fn known_delay(&self, passage: &Passage) -> u64 {
        match self.config.correction {
            Correction::None => 0,
            Correction::Departure => passage.delayed,
            Correction::Residence => passage.delayed + passage.waited,
        }
    }

    fn hear(&mut self, number: u32, strobe: u64, agenda: &mut impl Schedule<Due>) {
        let node = &mut self.nodes[number as usize];
        let last = node.heard.replace(Heard { number: strobe, at: agenda.now() });
        let expected = last.map_or(self.first, |last| last.number + 1);
        let skipped = strobe.saturating_sub(expected);
        if std::mem::take(&mut node.is_missing) {
            self.reports.push_back(Report::Back { node: number, skipped });
        }
        self.counters.heard += 1;
        self.counters.skipped += skipped;
        self.watch(number, agenda);
    }

    /// Schedules a node's check for strobes, after its patience by its own clock.
    fn watch(&self, node: u32, agenda: &mut impl Schedule<Due>) {
        agenda.schedule_after(self.patience(node), Due::Clock(Entry::Watch { node }));
    }

    fn patience(&self, node: u32) -> Duration {
        let patience = self.config.period.times(u64::from(self.config.patience_periods));
        self.nodes[node as usize].clock.takes(patience)
    }

    fn look(&mut self, number: u32, now: Instant) {
        let patience = self.patience(number);
        let node = &mut self.nodes[number as usize];
        let since = node.heard.map_or(self.began, |heard| heard.at);
        if node.is_missing || now.since(since) < patience {
            return;
        }
        node.is_missing = true;
        self.counters.missing += 1;
        let last = node.heard.map(|heard| heard.number);
        self.reports.push_back(Report::Missing { node: number, last });
    }

    fn sample(&mut self, agenda: &mut impl Schedule<Due>) {
        for node in 0..self.nodes.len() as u32 {
            self.take_error(node, agenda.now());
        }
        let step = self.config.period.as_ps() / u64::from(self.config.samples);
        agenda.schedule_after(Duration::from_ps(step.max(1)), Due::Clock(Entry::Sample));
    }

    fn take_error(&mut self, node: u32, now: Instant) {
        let global = self.time(node, now);
        let node = &mut self.nodes[node as usize];
        if let Some(global) = global.filter(|_| node.follower.is_settled()) {
            node.errors.add(global.ahead_of(now));
        }
    }

    /// Returns a node's estimate of the global time; `None` before its first strobe, and for the
    /// master.
    #[must_use]
    pub fn time(&self, node: u32, now: Instant) -> Option<GlobalTime> {
        let node = self.nodes.get(node as usize)?;
        node.follower.global(node.clock.read(now))
    }

    /// Returns a node's own clock.
    ///
    /// # Panics
    /// When there is no such node.
    #[must_use]
    pub fn local(&self, node: u32) -> LocalClock {
        self.nodes[node as usize].clock
    }

    /// Returns a node's errors since [`restart`](GlobalClock::restart): at regular moments, and
    /// just before each strobe.
    ///
    /// # Panics
    /// When there is no such node.
    #[must_use]
    pub fn errors(&self, node: u32) -> Errors {
        self.nodes[node as usize].errors
    }

    /// Forgets the errors so far: the measurement begins.
    pub fn restart(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.errors = Errors::default());
    }

    /// The measured delay of a hop, times the number of nodes \[symbols\]; `None` before the first
    /// strobe came back.
    #[must_use]
    pub fn round_symbols(&self) -> Option<u64> {
        self.round
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the next report, oldest first.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }
}
