//! A ringlet with a global clock under traffic, to measure the errors of its nodes' time.

use std::collections::VecDeque;

use super::{Config, ConfigError, Counters, Entry as ClockEntry, Errors, GlobalClock, Report};
use crate::core::model;
use crate::load::traffic::{Arrivals, Message, Pattern, Plan, PlanError, Size, Traffic};
use crate::net::sci::{self, Command, Network, NodeIndex, Packet, Status, Unbalanced};
use crate::{Agenda, Duration, Fingerprint, Instant, Model};

/// Periods before errors count: by then traffic is on, and every node has received two strobes of a
/// loaded ringlet.
const WARM_UP_PERIODS: u64 = 4;
/// Most messages that wait at a node; later ones are dropped. Assumed: far more than wait below
/// saturation.
const WAITING_MAX: usize = 1024;
/// Payload of a message \[byte\].
const MESSAGE_BYTES: u32 = 64;

/// An entry of the agenda of a ringlet with clock and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An entry of the network.
    Network(sci::link::Entry),
    /// The clock's.
    Clock(ClockEntry),
    /// A node creates a message.
    Create(u32),
}

impl From<sci::link::Entry> for Entry {
    fn from(entry: sci::link::Entry) -> Entry {
        Entry::Network(entry)
    }
}

impl From<ClockEntry> for Entry {
    fn from(entry: ClockEntry) -> Entry {
        Entry::Clock(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Network(entry) => crate::Entry::component(entry),
            Entry::Clock(entry) => crate::Entry::component(entry),
            Entry::Create(node) => *node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Network(entry) => crate::Entry::kind(entry),
            Entry::Clock(entry) => crate::Entry::kind(entry),
            Entry::Create(_) => 0x30,
        }
    }
}

/// The reason why a measurement cannot start, in one sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadedError {
    /// The clock's.
    #[error(transparent)]
    Clock(#[from] ConfigError),
    /// An error in the network's configuration.
    #[error(transparent)]
    Network(#[from] sci::ConfigError),
    /// An error in the traffic plan.
    #[error(transparent)]
    Traffic(#[from] PlanError),
}

/// One node's messages of 64 B.
#[derive(Debug, Default)]
struct Source {
    next: Option<Message>,
    waiting: VecDeque<Message>,
}

/// The ringlet. The first strobe travels round while the ringlet is idle; then traffic begins.
#[derive(Debug)]
pub struct Loaded {
    /// The network.
    pub network: Network,
    /// The clock.
    pub clock: GlobalClock,
    traffic: Option<Traffic>,
    quiet: Duration,
    sources: Vec<Source>,
}

impl Loaded {
    /// Makes a ringlet on which every node offers `load`, a fraction of its link's capacity, as
    /// moves of 64 B to random other nodes; 0 means no traffic.
    ///
    /// # Errors
    /// [`LoadedError`].
    pub fn new(
        network: &sci::Config,
        clock: &Config,
        load: f64,
        agenda: &mut Agenda<Entry>,
    ) -> Result<Loaded, LoadedError> {
        let bytes_per_s = load * network.clock.hertz() as f64 * 2.0;
        let plan = Plan {
            nodes: network.addresses.len() as u32,
            pattern: Pattern::Uniform,
            arrivals: Arrivals::Poisson { bytes_per_s },
            size: Size::Fixed(MESSAGE_BYTES),
            seed: clock.seed,
        };
        let traffic = if load == 0.0 { None } else { Some(Traffic::new(plan)?) };
        let mut loaded = Loaded {
            network: Network::new(network)?,
            clock: GlobalClock::new(clock, network)?,
            traffic,
            quiet: clock.period,
            sources: network.addresses.iter().map(|_| Source::default()).collect(),
        };
        loaded.clock.begin(agenda);
        (0..loaded.network.nodes()).for_each(|node| loaded.plan_next(node, agenda));
        Ok(loaded)
    }

    fn plan_next(&mut self, node: u32, agenda: &mut Agenda<Entry>) {
        let message = self.traffic.as_mut().and_then(|it| it.next(node, agenda.now()));
        self.sources[node as usize].next = message;
        if let Some(message) = message {
            agenda.schedule(message.at + self.quiet, Entry::Create(node));
        }
    }

    fn create(&mut self, node: u32, agenda: &mut Agenda<Entry>) {
        let source = &mut self.sources[node as usize];
        if let Some(message) = source.next.take().filter(|_| source.waiting.len() < WAITING_MAX) {
            source.waiting.push_back(message);
        }
        self.plan_next(node, agenda);
        self.send_waiting(node, agenda);
    }

    fn send_waiting(&mut self, node: u32, agenda: &mut Agenda<Entry>) {
        while let Some(message) = self.sources[node as usize].waiting.front() {
            let packet = Packet {
                target: self.network.address(NodeIndex(message.to)),
                source: self.network.address(NodeIndex(node)),
                command: Command::Move64,
                transaction: 0,
                offset: 0,
                status: Status::Normal,
                data: vec![0; MESSAGE_BYTES as usize],
            };
            if self.network.send(NodeIndex(node), packet, agenda).is_err() {
                return;
            }
            self.sources[node as usize].waiting.pop_front();
        }
    }

    fn follow_reports(&mut self, agenda: &mut Agenda<Entry>) {
        while let Some(report) = self.network.next_report() {
            match report {
                sci::Report::Strobe { node, passage } => self.clock.passed(node, passage, agenda),
                sci::Report::Received { node, .. } => {
                    while self.network.take_request(node, agenda).is_some() {}
                }
                sci::Report::Done { send, .. } | sci::Report::Lost { send, .. } => {
                    self.clock.ended(send);
                }
                sci::Report::Space { node, .. } => self.send_waiting(node.0, agenda),
                sci::Report::Event { .. } | sci::Report::Dropped { .. } => {}
            }
        }
    }
}

impl Model for Loaded {
    type Entry = Entry;

    fn handle(&mut self, entry: Entry, agenda: &mut Agenda<Entry>) {
        match entry {
            Entry::Network(entry) => self.network.handle(entry, agenda),
            Entry::Clock(entry) => self.clock.handle(entry, &mut self.network, agenda),
            Entry::Create(node) => self.create(node, agenda),
        }
        self.follow_reports(agenda);
    }
}

/// The measurement of a global clock.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The error of each node; the master has none.
    pub nodes: Vec<Errors>,
    /// The clock's counters, since the start.
    pub counters: Counters,
    /// The clock's reports.
    pub reports: Vec<Report>,
    /// The fraction of time in which links were busy, as a mean over all links since the start.
    pub busy: f64,
    /// The fingerprint: equal runs have equal ones.
    pub fingerprint: Fingerprint,
    /// An imbalance of the network's counters; there should be none.
    pub unbalanced: Option<Unbalanced>,
}

impl Measured {
    /// The largest error of any node \[ps\].
    #[must_use]
    pub fn largest_ps(&self) -> u128 {
        self.nodes.iter().map(Errors::largest_ps).max().unwrap_or(0)
    }

    /// The largest standard deviation of any node \[ps\].
    #[must_use]
    pub fn deviation_ps(&self) -> f64 {
        self.nodes.iter().map(Errors::deviation_ps).fold(0.0, f64::max)
    }
}

/// Measures a global clock for a span, after a warm-up of a few periods, at a load as in
/// [`Loaded::new`]. Equal configurations give equal results.
///
/// # Errors
/// [`LoadedError`].
pub fn measure(
    network: &sci::Config,
    clock: &Config,
    load: f64,
    measured: Duration,
) -> Result<Measured, LoadedError> {
    let (mut agenda, mut fingerprint) = (Agenda::default(), Fingerprint::default());
    let mut loaded = Loaded::new(network, clock, load, &mut agenda)?;
    let begin = Instant::START + clock.period.times(WARM_UP_PERIODS);
    model::run(&mut loaded, &mut agenda, &mut fingerprint, begin);
    loaded.clock.restart();
    let end = begin + measured;
    model::run(&mut loaded, &mut agenda, &mut fingerprint, end);
    let total = loaded.network.total();
    let links = u64::from(loaded.network.nodes());
    let busy = network.clock.span(total.symbols_out + total.packets_out).as_ps() as f64;
    Ok(Measured {
        nodes: (0..loaded.network.nodes()).map(|node| loaded.clock.errors(node)).collect(),
        counters: loaded.clock.counters(),
        reports: std::iter::from_fn(|| loaded.clock.next_report()).collect(),
        busy: busy / (end.as_ps() as f64 * links as f64),
        fingerprint,
        unbalanced: loaded.network.check_conservation().err(),
    })
}
