//! Demonstrates: a network of one's own. A token passes along the nodes of a bus; its holder sends
//! one frame. The program runs a sweep, lets a cable fail and be repaired under load, and writes a
//! report. `tests/all/token_bus.rs` runs the suite of all links on it.
//!
//! `cargo run --release -p fluxline-sim --example token_bus`

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;

use fluxline_sim::core::agenda::Schedule;
use fluxline_sim::core::fault::{Fault, FaultKind};
use fluxline_sim::core::interconnect::{Class, Interconnect, LinkUse, Refused, Report, SendId};
use fluxline_sim::fabric::courier::{self, Courier, Frame, Messages, Times};
use fluxline_sim::load::sweep::{Limits, measure};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size, Traffic};
use fluxline_sim::load::{Loaded, Settings};
use fluxline_sim::report::{Point, Results, Subject, page_of};
use fluxline_sim::world::{Cluster, Due, World};
use fluxline_sim::{Agenda, Duration, Entry, Instant};

/// The time of a byte on the bus: 100 MB/s.
const BYTE: Duration = Duration::from_ns(10);
/// The time in which the token goes from a node to the next.
const PASS: Duration = Duration::from_ns(50);

/// An entry of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// The token comes to a node.
    Token(u32),
    /// The frame of the token's holder has arrived.
    Sent(u32),
}

impl Entry for Bus {
    fn component(&self) -> u32 {
        let (Bus::Token(node) | Bus::Sent(node)) = self;
        *node
    }

    fn kind(&self) -> u8 {
        u8::from(matches!(self, Bus::Sent(_)))
    }
}

impl From<Bus> for Due<Bus, courier::Step> {
    fn from(entry: Bus) -> Self {
        Due::Wire(entry)
    }
}

/// The nodes of a bus.
#[derive(Debug)]
pub struct TokenBus {
    waiting: Vec<VecDeque<(SendId, Frame)>>,
    arrived: Vec<VecDeque<Frame>>,
    /// The node at which the token rests; `None`: it moves or is used.
    rests_at: Option<u32>,
    /// Nodes that the bus does not reach.
    dark: BTreeSet<u32>,
    reports: VecDeque<Report>,
    busy: Duration,
    taken: u64,
    ended: u64,
}

impl TokenBus {
    /// Makes a bus at rest.
    #[must_use]
    pub fn new(nodes: u32) -> TokenBus {
        let (waiting, arrived) = (0..nodes).map(|_| (VecDeque::new(), VecDeque::new())).unzip();
        let (dark, reports, busy) = (BTreeSet::new(), VecDeque::new(), Duration::ZERO);
        TokenBus { waiting, arrived, rests_at: Some(0), dark, reports, busy, taken: 0, ended: 0 }
    }

    /// Uses the token at a node, passes it on, or lets it rest while no frame waits.
    fn token_at(&mut self, node: u32, agenda: &mut impl Schedule<Bus>) {
        if let Some((_, frame)) = self.waiting[node as usize].front() {
            let time = BYTE.times(frame.bytes());
            self.busy = self.busy + time;
            agenda.schedule_after(time, Bus::Sent(node));
        } else if self.waiting.iter().all(VecDeque::is_empty) {
            self.rests_at = Some(node);
        } else {
            agenda.schedule_after(PASS, Bus::Token((node + 1) % self.nodes()));
        }
    }

    fn sent(&mut self, node: u32) {
        let Some((send, frame)) = self.waiting[node as usize].pop_front() else { return };
        let to = frame.target;
        self.ended += 1;
        if to >= self.nodes() || self.dark.contains(&node) || self.dark.contains(&to) {
            return self.reports.push_back(Report::Lost { node, send });
        }
        self.arrived[to as usize].push_back(frame);
        self.reports.push_back(Report::Received { node: to, class: Class::Request });
        self.reports.push_back(Report::Done { node, send });
    }
}

impl Interconnect for TokenBus {
    type Frame = Frame;
    type Entry = Bus;

    fn nodes(&self) -> u32 {
        self.waiting.len() as u32
    }

    fn send(
        &mut self,
        node: u32,
        frame: Frame,
        agenda: &mut impl Schedule<Bus>,
    ) -> Result<SendId, Refused<Frame>> {
        self.taken += 1;
        self.waiting[node as usize].push_back((SendId(self.taken), frame));
        if let Some(rests_at) = self.rests_at.take() {
            self.token_at(rests_at, agenda);
        }
        Ok(SendId(self.taken))
    }

    fn handle(&mut self, entry: Bus, agenda: &mut impl Schedule<Bus>) {
        match entry {
            Bus::Token(node) => self.token_at(node, agenda),
            Bus::Sent(node) => {
                self.sent(node);
                agenda.schedule_after(PASS, Bus::Token((node + 1) % self.nodes()));
            }
        }
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(&mut self, node: u32, _: Class, _: &mut impl Schedule<Bus>) -> Option<Frame> {
        self.arrived[node as usize].pop_front()
    }

    fn fault(&mut self, kind: FaultKind, _: &mut impl Schedule<Bus>) -> bool {
        match kind {
            FaultKind::Power(node) | FaultKind::Cable(node) => self.dark.insert(node),
            FaultKind::Repair(node) | FaultKind::Restart(node) => self.dark.remove(&node),
            _ => false,
        }
    }

    fn conserve(&self) -> Result<(), String> {
        let waiting = self.waiting.iter().map(VecDeque::len).sum::<usize>() as u64;
        let is_whole = self.taken == self.ended + waiting;
        is_whole.then_some(()).ok_or_else(|| "a frame is missing".to_owned())
    }

    fn links(&self, _: Instant) -> Vec<LinkUse> {
        vec![LinkUse { from: 0, to: 0, busy: self.busy }]
    }
}

/// Makes nodes on the bus, as in any other cluster.
pub fn cluster(nodes: u32, faults: &[Fault]) -> Cluster {
    let card = |node, starts| Courier::<TokenBus>::of_life(node, Times::default(), starts);
    let cards = (0..nodes).map(|node| card(node, 1));
    let mut world = World::new(TokenBus::new(nodes), cards).restarting(card);
    faults.iter().for_each(|&fault| world.plan_fault(fault));
    Cluster::of(world, "sim:token-bus", u64::MAX)
}

/// Measures one load, a share of the bus.
pub fn point(nodes: u32, load: f64, faults: &[Fault]) -> Result<Point, Box<dyn Error>> {
    let arrivals = Arrivals::Poisson { bytes_per_s: load * 1e8 / f64::from(nodes) };
    let (pattern, size) = (Pattern::Uniform, Size::Fixed(1024));
    let traffic = Traffic::new(Plan { nodes, pattern, arrivals, size, seed: 1 })?;
    let (mut agenda, settings) = (Agenda::default(), Settings { faults, ..Settings::default() });
    let (bus, carrier) = (TokenBus::new(nodes), Messages::default());
    let mut model = Loaded::new(bus, carrier, traffic, &settings, &mut agenda);
    let us = Duration::from_us;
    let limits = Limits { warm_up_first: us(500), warm_up_max: us(5_000), measured: us(20_000) };
    let outcome = measure(&mut model, &mut agenda, &limits)?;
    Ok(Point::of(load, &outcome))
}

#[allow(dead_code, reason = "the test uses the network alone")]
fn main() -> Result<(), Box<dyn Error>> {
    let faults: Vec<Fault> =
        ["cable:2@8ms", "repair:2@12ms"].map(Fault::parse).into_iter().flatten().collect();
    let loads = [0.1, 0.3, 0.5, 0.7, 0.9];
    let points = loads.into_iter().map(|load| point(8, load, &faults)).collect::<Result<_, _>>()?;
    let results = Results { points, saturation: None, fingerprint: String::new() };
    for point in &results.points {
        let latency = point.latency_us.map_or(f64::NAN, |latency| latency.mean);
        println!("load {:.1}: {latency:7.1} us, {} lost", point.load, point.lost);
    }
    let (title, network) = ("A bus with a token".to_owned(), "token bus".to_owned());
    let subject =
        Subject { title, network, nodes: 8, sizes: "1024 B".into(), ..Subject::default() };
    std::fs::write("token-bus.html", page_of(&subject, &results).html())?;
    Ok(())
}
