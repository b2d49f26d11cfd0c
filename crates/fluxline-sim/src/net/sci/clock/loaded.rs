//! A ringlet with a global clock under traffic, to measure the errors of its nodes' time.

use std::collections::VecDeque;

use super::{Config, ConfigError, Counters, Due, Errors, GlobalClock, Report};
use crate::core::agenda::{Part, Schedule};
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::{self, Class, Interconnect, Refused, SendId};
use crate::core::model;
use crate::load::traffic::{Arrivals, Message, Pattern, Plan, PlanError, Size, Traffic};
use crate::load::{self, Arrived, Carrier, Settings, Ticket};
use crate::net::sci::messages::{Largest, Messages, Style};
use crate::net::sci::{self, Network, Packet, Unbalanced};
use crate::{Agenda, Duration, Fingerprint, Instant};

/// Periods before errors count: by then traffic is on, and every node has received two strobes of a
/// loaded ringlet.
const WARM_UP_PERIODS: u64 = 4;
/// Payload of a message \[byte\].
const MESSAGE_BYTES: u32 = 64;

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

/// A ringlet whose nodes have a global clock.
#[derive(Debug)]
pub struct Clocked {
    /// The network.
    pub network: Network,
    /// The clock.
    pub clock: GlobalClock,
    reports: VecDeque<interconnect::Report>,
}

impl Clocked {
    /// Shows the network's reports to the clock, and keeps the others.
    fn follow_reports(&mut self, agenda: &mut impl Schedule<Due>) {
        while let Some(report) = self.network.next_report() {
            match report {
                sci::Report::Strobe { node, passage } => self.clock.passed(node, passage, agenda),
                sci::Report::Done { send, .. } | sci::Report::Lost { send, .. }
                    if self.clock.ended(send) => {}
                report => self.reports.extend(self.network.common_report(report)),
            }
        }
    }
}

impl Interconnect for Clocked {
    type Frame = Packet;
    type Entry = Due;

    fn nodes(&self) -> u32 {
        self.network.nodes()
    }

    fn send(
        &mut self,
        node: u32,
        packet: Packet,
        agenda: &mut impl Schedule<Due>,
    ) -> Result<SendId, Refused<Packet>> {
        Interconnect::send(&mut self.network, node, packet, &mut Part::<_, Due>::of(agenda))
    }

    fn handle(&mut self, entry: Due, agenda: &mut impl Schedule<Due>) {
        match entry {
            Due::Network(entry) => self.network.handle(entry, &mut Part::<_, Due>::of(agenda)),
            Due::Clock(entry) => self.clock.handle(entry, &mut self.network, agenda),
        }
        self.follow_reports(agenda);
    }

    /// Strobes come only while an entry is handled.
    fn next_report(&mut self) -> Option<interconnect::Report> {
        self.reports.pop_front().or_else(|| Interconnect::next_report(&mut self.network))
    }

    fn take(&mut self, node: u32, class: Class, agenda: &mut impl Schedule<Due>) -> Option<Packet> {
        self.network.take(node, class, &mut Part::<_, Due>::of(agenda))
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Due>) -> bool {
        self.network.fault(kind, &mut Part::<_, Due>::of(agenda))
    }

    fn conserve(&self) -> Result<(), String> {
        self.network.conserve()
    }
}

/// Moves of generated traffic on a ringlet with a clock.
#[derive(Clone, Debug)]
pub struct Moves(Messages);

impl Carrier for Moves {
    type Network = Clocked;

    const MADE: u8 = 0x30;

    fn pack(&mut self, message: &Message, ringlet: &Clocked) -> Packet {
        self.0.pack(message, &ringlet.network)
    }

    fn unpack(&mut self, packet: Packet) {
        self.0.unpack(packet);
    }

    fn arrived(&mut self, node: u32, packet: Packet, ringlet: &Clocked) -> Arrived<Packet> {
        self.0.arrived(node, packet, &ringlet.network)
    }

    fn ticket(&self, packet: &Packet) -> Option<Ticket> {
        self.0.ticket(packet)
    }

    fn done(&mut self, ticket: Ticket) -> Option<u32> {
        self.0.done(ticket)
    }

    fn gave_up(&mut self, ticket: Ticket) -> Option<u32> {
        self.0.gave_up(ticket)
    }

    fn lost(&self) -> u64 {
        self.0.lost()
    }
}

/// A ringlet with a clock, under traffic.
pub type Loaded = load::Loaded<Moves>;
/// An entry of its agenda.
pub type LoadedEntry = load::loaded::Entry<Due>;

/// Makes a ringlet on which every node offers `load`, a fraction of its link's capacity, as moves
/// of 64 B to random other nodes; 0 means no traffic. The first strobe travels round while the
/// ringlet is idle; then traffic begins.
///
/// # Errors
/// [`LoadedError`].
pub fn loaded(
    network: &sci::Config,
    clock: &Config,
    load: f64,
    faults: &[Fault],
    agenda: &mut Agenda<LoadedEntry>,
) -> Result<Loaded, LoadedError> {
    let bytes_per_s = load * network.clock.hertz() as f64 * 2.0;
    let plan = Plan {
        nodes: network.addresses.len() as u32,
        pattern: Pattern::Uniform,
        arrivals: match load {
            0.0 => Arrivals::Silent,
            _ => Arrivals::Poisson { bytes_per_s },
        },
        size: Size::Fixed(MESSAGE_BYTES),
        seed: clock.seed,
    };
    let traffic = Traffic::new(plan)?;
    let mut ringlet = Clocked {
        network: Network::new(network)?,
        clock: GlobalClock::new(clock, network)?,
        reports: VecDeque::new(),
    };
    ringlet.clock.begin(agenda);
    let settings = Settings { faults, quiet: clock.period, ..Settings::default() };
    let moves = Moves(Messages::new(Style::Move, Largest::default()));
    Ok(load::Loaded::new(ringlet, moves, traffic, &settings, agenda))
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
/// [`loaded`]. Equal configurations give equal results.
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
    let mut loaded = loaded(network, clock, load, &[], &mut agenda)?;
    let begin = Instant::START + clock.period.times(WARM_UP_PERIODS);
    model::run(&mut loaded, &mut agenda, &mut fingerprint, begin);
    loaded.network_mut().clock.restart();
    let end = begin + measured;
    model::run(&mut loaded, &mut agenda, &mut fingerprint, end);
    let Clocked { network: ringlet, clock, .. } = loaded.network_mut();
    let total = ringlet.total();
    let links = u64::from(ringlet.nodes());
    let busy = network.clock.span(total.symbols_out + total.packets_out).as_ps() as f64;
    Ok(Measured {
        nodes: (0..ringlet.nodes()).map(|node| clock.errors(node)).collect(),
        counters: clock.counters(),
        reports: std::iter::from_fn(|| clock.next_report()).collect(),
        busy: busy / (end.as_ps() as f64 * links as f64),
        fingerprint,
        unbalanced: ringlet.check_conservation().err(),
    })
}
