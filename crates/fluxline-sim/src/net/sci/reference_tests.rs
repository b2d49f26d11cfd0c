//! Compares the engine with the reference model: the same symbols at the same ticks.

use super::config::{Config, Retry};
use super::lane::lane_of;
use super::link::{Entry, Loss, NodeIndex, Priority, Report};
use super::random::Random;
use super::reference::{Offered, Reference};
use super::{Command, Network, NodeId, Packet, Status};
use crate::Agenda;
use fluxline_core::random::{test_count, test_seed};

/// A packet offered at a tick.
#[derive(Clone, Copy, Debug)]
struct Offer {
    tick: u64,
    from: u32,
    to: u32,
    command: Command,
    priority: Priority,
    id: u64,
}

enum Due {
    Net(Entry),
    Offer(Offer),
    Take(NodeIndex, bool),
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Net(entry)
    }
}

type Trace = Vec<(u64, u32, char, u64)>;

fn packet(offer: Offer) -> Packet {
    Packet {
        target: NodeId(offer.to as u16),
        source: NodeId(offer.from as u16),
        command: offer.command,
        transaction: 0,
        offset: offer.id,
        status: Status::Normal,
        data: Vec::new(),
    }
}

/// Trace, received packets, events, strobes, largest fill of bypass FIFOs, largest tick.
struct Outcome {
    trace: Trace,
    received: Vec<(u64, usize, usize)>,
    events: Vec<(u64, usize, u64)>,
    strobes: Vec<(u64, usize, u64, [u64; 2])>,
    bypass: Vec<u64>,
    last: u64,
}

/// A ring that needs more ticks has stopped: sixty packets need about ten thousand.
const TICKS_MAX: u64 = 3_000_000;

fn engine(config: &Config, offers: &[Offer], service: u64) -> Outcome {
    let mut network = Network::new(config).expect("a good configuration");
    let mut agenda: Agenda<Due> = Agenda::default();
    let clock = config.clock;
    offers.iter().for_each(|&offer| agenda.schedule(clock.at(offer.tick), Due::Offer(offer)));
    let (mut received, mut ended) = (Vec::new(), 0);
    let (mut events, mut strobes) = (Vec::new(), Vec::new());
    while let Some(due) = agenda.take(clock.at(TICKS_MAX)) {
        let tick = clock.tick_from(agenda.now());
        match due {
            Due::Net(entry) => network.handle(entry, &mut agenda),
            Due::Offer(offer) => {
                let node = NodeIndex(offer.from);
                let sent = network.send_at(node, packet(offer), offer.priority, &mut agenda);
                let sent = sent.expect("a large queue");
                assert_eq!(sent.0, offer.id, "sends are numbered as offered");
            }
            Due::Take(node, false) => drop(network.take_request(node, &mut agenda)),
            Due::Take(node, true) => drop(network.take_response(node, &mut agenda)),
        }
        while let Some(report) = network.next_report() {
            match report {
                Report::Received { node, response } => {
                    received.push((tick, node.0 as usize, usize::from(response)));
                    agenda.schedule(clock.at(tick + service), Due::Take(node, response));
                }
                Report::Event { node, packet } => {
                    events.push((tick, node.0 as usize, packet.offset));
                }
                Report::Strobe { node, passage: it } => {
                    let waits = [it.delayed, it.waited];
                    assert_eq!(it.arrived + u64::from(Command::Strobe.symbols()), tick);
                    strobes.push((it.arrived, node.0 as usize, it.number, waits));
                }
                Report::Done { .. } | Report::Lost { why: Loss::NoSuchNode, .. } => ended += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(ended, offers.len(), "not every send ended, once: {config:?} {offers:?}");
    network.check_conservation().expect("all is accounted for");
    assert_eq!(network.total().gos_injected, 0, "no go bit was lost: {config:?} {offers:?}");
    let mut trace = network.rings.trace.clone();
    trace.sort_unstable();
    received.sort_unstable();
    events.sort_unstable();
    strobes.sort_unstable();
    let bypass = (0..network.nodes()).map(|port| network.counters(port).bypass_max).collect();
    let last = clock.tick_from(agenda.now());
    Outcome { trace, received, events, strobes, bypass, last }
}

fn reference(config: &Config, offers: &[Offer], service: u64, last: u64) -> Outcome {
    let mut model = Reference::new(config);
    let mut next = 0;
    let mut taken = 0;
    while model.tick <= last {
        while let Some(offer) = offers.get(next).filter(|offer| offer.tick == model.tick) {
            model.send(offer.from as usize, offered(offer));
            next += 1;
        }
        let mut due: Vec<(usize, usize)> = Vec::new();
        for &(tick, node, class) in &model.received {
            if tick + service == model.tick {
                due.push((node, class));
            }
        }
        taken += due.len();
        due.into_iter().for_each(|(node, class)| model.take(node, class));
        model.step();
    }
    assert!(taken <= model.received.len());
    let mut trace = model.trace.clone();
    trace.sort_unstable();
    let mut received = model.received.clone();
    received.sort_unstable();
    model.events.sort_unstable();
    model.strobes.sort_unstable();
    let bypass = model.bypass_max();
    let (events, strobes) = (model.events, model.strobes);
    Outcome { trace, received, events, strobes, bypass, last }
}

/// A strobe travels to its sender, whatever its target is.
fn offered(offer: &Offer) -> Offered {
    let strobe = offer.command == Command::Strobe;
    Offered {
        id: offer.id,
        target: if strobe { offer.from } else { offer.to } as usize,
        length: offer.command.symbols(),
        response: offer.command.is_response(),
        high: offer.priority == Priority::High && !offer.command.is_event(),
        event: offer.command.is_event(),
        strobe,
    }
}

/// Finds the first difference between engine and model, if any.
fn part(config: &Config, offers: &[Offer], service: u64) -> Option<String> {
    let fast = engine(config, offers, service);
    let slow = reference(config, offers, service, fast.last + 10);
    let differs = fast.trace.iter().zip(&slow.trace).position(|(fast, slow)| fast != slow);
    if let Some(at) = differs {
        let from = at.saturating_sub(6);
        let fast = &fast.trace[from..(at + 4).min(fast.trace.len())];
        let slow = &slow.trace[from..(at + 4).min(slow.trace.len())];
        return Some(format!("{config:?}\n{offers:?}\nengine    {fast:?}\nreference {slow:?}"));
    }
    let same = fast.trace.len() == slow.trace.len()
        && fast.received == slow.received
        && fast.events == slow.events
        && fast.strobes == slow.strobes
        && fast.bypass == slow.bypass;
    (!same).then(|| "the same trace, but not the same number, packets or queues".to_owned())
}

fn agree(seed: u64, config: &Config, offers: &[Offer], service: u64) {
    if let Some(difference) = part(config, offers, service) {
        panic!("seed {seed}: {difference}");
    }
}

/// Options of a scenario, beyond requests and responses of low priority.
#[derive(Clone, Copy, Debug, Default)]
struct Also {
    high: bool,
    /// Full receive queues.
    busy: bool,
    /// Events and strobes.
    events: bool,
    /// Packets without a receiver.
    nobody: bool,
}

/// Draws a small ring and some sends from a seed.
fn scenario(seed: u64, also: Also) -> (Config, Vec<Offer>, u64) {
    let mut random = Random(seed);
    let mut below = |limit: u64| random.next() % limit;
    let nodes = 2 + below(5) as u32;
    let mut config = Config::ring(nodes);
    config.pass_symbols = [1, 2, 4, 12, 60][below(5) as usize];
    config.flow_control = below(4) != 0;
    config.unacknowledged = 1 + below(4) as u32;
    config.send_queue = 1000;
    if also.nobody {
        // The reference model has no circulation toggle. The toggle may end a send without a
        // receiver before its "none" echo is back: after two of the up to three rounds that this
        // takes.
        config.circulations = 1000;
    }
    let slots = if also.busy { 1 + below(3) as u32 } else { 1000 };
    (config.request_queue, config.response_queue) = (slots, slots);
    config.retry = if below(2) == 0 { Retry::Aged } else { Retry::Plain { delay: below(3) * 40 } };
    let service = if also.busy { 1 + below(150) } else { 1 };
    let commands = [
        Command::Read64,
        Command::Write16,
        Command::Move64,
        Command::Write256,
        Command::Response00,
        Command::Response64,
        Command::Event00,
        Command::Strobe,
        Command::Event16,
        Command::Event256,
    ];
    let kinds = if also.events { commands.len() } else { 6 } as u64;
    let span = [60, 600, 3000][below(3) as usize];
    let mut offers: Vec<Offer> = (0..1 + below(60))
        .map(|_| {
            let from = below(u64::from(nodes)) as u32;
            let mut to = (from + 1 + below(u64::from(nodes) - 1) as u32) % nodes;
            if also.nobody && below(4) == 0 {
                to = 1000;
            }
            let priority = if also.high && below(2) == 0 { Priority::High } else { Priority::Low };
            let command = commands[below(kinds) as usize];
            Offer { tick: below(span), from, to, command, priority, id: 0 }
        })
        .collect();
    offers.sort_by_key(|offer| offer.tick);
    offers.iter_mut().zip(0..).for_each(|(offer, id)| offer.id = id);
    (config, offers, service)
}

/// Seeds of a test. `SEED=0 COUNT=20000` tries others: a campaign.
fn seeds(usual: u64, count: u64) -> std::ops::Range<u64> {
    let first = test_seed!(usual);
    first..first + test_count!(count)
}

#[test]
fn one_packet_takes_hops_and_length() {
    for (to, command) in [(1, Command::Read64), (5, Command::Move64), (7, Command::Write256)] {
        let offer = Offer { tick: 10, from: 0, to, command, priority: Priority::Low, id: 0 };
        let outcome = engine(&Config::ring(8), &[offer], 1);
        let start = 11;
        let length = u64::from(command.symbols());
        assert_eq!(outcome.received, [(start + 4 * u64::from(to) + length, to as usize, 0)]);
        agree(0, &Config::ring(8), &[offer], 1);
    }
    assert_eq!(lane_of(Command::Response16, Priority::High), 3);
}

#[test]
fn the_engine_puts_every_symbol_where_the_obvious_model_does() {
    for seed in seeds(0, 400) {
        let (config, offers, service) = scenario(seed, Also::default());
        agree(seed, &config, &offers, service);
    }
}

#[test]
fn so_it_does_with_full_queues_and_retries() {
    for seed in seeds(1000, 300) {
        let (config, offers, service) = scenario(seed, Also { busy: true, ..Also::default() });
        agree(seed, &config, &offers, service);
    }
}

#[test]
fn so_it_does_with_two_priorities() {
    for seed in seeds(2000, 300) {
        let (config, offers, service) =
            scenario(seed, Also { high: true, busy: seed % 2 == 0, ..Also::default() });
        agree(seed, &config, &offers, service);
    }
}

/// Draws a scenario from a seed in which all nodes send to node 0, which uses ageing.
fn hot_scenario(seed: u64, high: bool) -> (Config, Vec<Offer>, u64) {
    let (mut config, mut offers, service) =
        scenario(seed, Also { high, busy: true, ..Also::default() });
    config.retry = Retry::Aged;
    for offer in offers.iter_mut().filter(|offer| offer.from != 0) {
        offer.to = 0;
    }
    (config, offers, service)
}

#[test]
fn no_ring_of_one_priority_with_a_hot_receiver_that_ages_stops() {
    for seed in seeds(4000, 1000) {
        let (config, offers, service) = hot_scenario(seed, false);
        engine(&config, &offers, service);
    }
}

#[test]
fn with_two_priorities_a_ring_with_a_hot_receiver_that_ages_does_not_stop_either() {
    for seed in seeds(6000, 300) {
        let (config, offers, service) = hot_scenario(seed, true);
        agree(seed, &config, &offers, service);
    }
}

/// Node 1 began to serve a generation in the tick in which the scrubber removed the toggle of the
/// last one: the result depended on the order of the two.
#[test]
fn a_generation_that_begins_when_the_rounds_end_has_rounds_of_its_own() {
    let (config, offers, service) =
        scenario(105_050, Also { high: true, busy: true, ..Also::default() });
    agree(105_050, &config, &offers, service);
}

/// On these rings, a port held a go bit back to empty its bypass FIFO. The scrubber took it for
/// lost and inserted a second one, with which the other ports kept sending; the first three rings
/// stopped.
#[test]
fn a_go_bit_that_a_port_holds_back_is_not_taken_for_a_lost_one() {
    for seed in [2078, 2158, 2380, 2081, 2503] {
        let (config, offers, service) = hot_scenario(seed, true);
        agree(seed, &config, &offers, service);
    }
    for seed in [2185, 2503, 2545] {
        let (config, offers, service) = hot_scenario(seed, false);
        agree(seed, &config, &offers, service);
    }
    for seed in [31690, 31702, 32354] {
        let (config, offers, service) =
            scenario(seed, Also { high: true, busy: seed % 2 == 0, ..Also::default() });
        agree(seed, &config, &offers, service);
    }
}

#[test]
fn so_it_does_with_events_and_strobes() {
    for seed in seeds(3000, 600) {
        let (high, busy) = (seed % 3 == 0, seed % 2 == 0);
        let (config, offers, service) =
            scenario(seed, Also { high, busy, events: true, nobody: false });
        agree(seed, &config, &offers, service);
    }
}

/// A packet without a receiver circulates until the scrubber takes it off.
#[test]
fn so_it_does_with_packets_to_nobody() {
    for seed in seeds(4000, 300) {
        let (high, busy) = (seed % 3 == 0, seed % 2 == 0);
        let (config, offers, service) =
            scenario(seed, Also { high, busy, events: true, nobody: true });
        agree(seed, &config, &offers, service);
    }
}
