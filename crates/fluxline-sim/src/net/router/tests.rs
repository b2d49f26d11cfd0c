//! Compares the network with a brute-force model that checks everything at every tick, and checks
//! its laws.

use std::collections::VecDeque;

use fluxline_core::random::Draw;

use super::topology::{Class, Topology};
use super::*;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Interconnect, Report};
use crate::core::model;
use crate::load::Settings;
use crate::load::traffic::{Arrivals, Message, Pattern, Plan, Size};
use crate::{Agenda, Fingerprint, Instant, Model};

/// The tick of a message's last byte, and the message: source, target, bytes, and hand-over time
/// [ps].
type Came = (u64, u32, u32, u32, u64);

#[derive(Clone, Copy)]
struct Piece {
    to: u32,
    message: usize,
    bytes: u32,
}

/// The same rules without agenda and wake-ups: every tick processes everything.
struct Obvious<'a> {
    config: &'a NetworkConfig,
    topology: Topology,
    tick: u64,
    queues: Vec<VecDeque<Piece>>,
    /// The tick from which the head of a queue may leave.
    ready: Vec<u64>,
    free: Vec<u32>,
    busy_until: Vec<u64>,
    /// The input port whose turn it is at each output.
    turn: Vec<usize>,
    /// The queues that each output has served in the present round of their port.
    served: Vec<Vec<usize>>,
    /// The arrivals of a tick: a piece into a queue, space back, a piece to its node.
    arrivals: Vec<(u64, usize, Piece)>,
    space: Vec<(u64, usize, u32)>,
    /// Bytes that fit into each buffer, and the tick of the next change. Counted by the bytes of a
    /// tick, independent of the rules for whole packets.
    room: Vec<i64>,
    room_changes: Vec<(u64, usize, i64)>,
    last_bytes: Vec<(u64, Piece)>,
    rest: Vec<u32>,
}

impl<'a> Obvious<'a> {
    fn new(config: &'a NetworkConfig, messages: &[Message]) -> Obvious<'a> {
        let topology = config.check().expect("a network");
        let ports = (topology.routers() * topology.ports()) as usize;
        let queues = ports * usize::from(config.channels);
        let mut arrivals = Vec::new();
        let mut rest = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let delay = u64::from(config.wire_ticks + config.router_ticks);
            let at = config.clock.tick_from(message.at) + delay;
            let port = message.source * topology.ports() + topology.local_port();
            let queue = port as usize * usize::from(config.channels);
            let (mut left, mut count) = (message.bytes, 0);
            while left > 0 {
                let part = left.min(config.packet_bytes);
                let bytes = part + config.header_bytes;
                arrivals.push((at, queue, Piece { to: message.to, message: index, bytes }));
                left -= part;
                count += 1;
            }
            rest.push(count);
        }
        Obvious {
            config,
            topology,
            tick: 0,
            queues: vec![VecDeque::new(); queues],
            ready: vec![0; queues],
            free: vec![config.buffer_bytes; queues],
            busy_until: vec![0; ports],
            turn: vec![0; ports],
            served: vec![Vec::new(); ports],
            arrivals,
            space: Vec::new(),
            room: vec![i64::from(config.buffer_bytes); queues],
            room_changes: Vec::new(),
            last_bytes: Vec::new(),
            rest,
        }
    }

    fn step(&mut self, messages: &[Message]) -> Vec<Came> {
        let now = self.tick;
        let mut came = Vec::new();
        for &(_, queue, piece) in self.arrivals.iter().filter(|arrival| arrival.0 == now) {
            self.queues[queue].push_back(piece);
        }
        for &(_, queue, bytes) in self.space.iter().filter(|space| space.0 == now) {
            self.free[queue] += bytes;
        }
        for (_, piece) in self.last_bytes.iter().filter(|last| last.0 == now) {
            self.rest[piece.message] -= 1;
            if self.rest[piece.message] == 0 {
                let message = messages[piece.message];
                let Message { source, to, bytes, at, .. } = message;
                came.push((now, source, to, bytes, at.as_ps()));
            }
        }
        self.arrivals.retain(|arrival| arrival.0 > now);
        self.space.retain(|space| space.0 > now);
        self.last_bytes.retain(|last| last.0 > now);
        (0..self.busy_until.len()).for_each(|output| self.choose(output));
        for &(_, queue, change) in self.room_changes.iter().filter(|change| change.0 == now) {
            self.room[queue] += change;
        }
        self.room_changes.retain(|change| change.0 > now);
        assert!(self.room.iter().all(|&room| room >= 0), "a buffer overflows at tick {now}");
        self.tick += 1;
        came
    }

    fn choose(&mut self, output: usize) {
        if self.busy_until[output] > self.tick {
            return;
        }
        let ports = self.topology.ports() as usize;
        let channels = usize::from(self.config.channels);
        let (router, port) = (output / ports, output % ports);
        for queue in self.in_turn(output) {
            let Some(&piece) = self.queues[queue].front() else { continue };
            let route = self.topology.route(router as u32, piece.to);
            if usize::from(route.port) != port || self.ready[queue] > self.tick {
                continue;
            }
            let neighbour = self.topology.neighbour(router as u32, port as u32);
            if port == 2 * self.config.dimensions.len() {
                self.send(queue, output, piece, None);
            } else {
                let allowed = match route.class {
                    Class::Any => 0..channels,
                    Class::Before => 0..channels / 2,
                    Class::After => channels / 2..channels,
                };
                let first = (neighbour as usize * ports + port) * channels;
                let Some(to) = allowed.map(|c| first + c).find(|&to| self.free[to] >= piece.bytes)
                else {
                    continue;
                };
                self.send(queue, output, piece, Some(to));
            }
            self.take_turn(output, queue);
            return;
        }
    }

    /// The queues of an output's router: ports one after the other; of a port, those that had no
    /// turn in its round first.
    fn in_turn(&self, output: usize) -> Vec<usize> {
        let (ports, channels) = (self.topology.ports() as usize, usize::from(self.config.channels));
        let first = output / ports * ports * channels;
        let mut all = Vec::new();
        for offset in 0..ports {
            let port = (self.turn[output] + offset) % ports;
            let queues = (0..channels).map(|channel| first + port * channels + channel);
            let is_served = |queue: &usize| self.served[output].contains(queue);
            all.extend(queues.clone().filter(|queue| !is_served(queue)));
            all.extend(queues.filter(is_served));
        }
        all
    }

    fn take_turn(&mut self, output: usize, queue: usize) {
        let channels = usize::from(self.config.channels);
        let port = queue / channels;
        let served = &mut self.served[output];
        if served.contains(&queue) {
            served.retain(|other| other / channels != port);
        }
        served.push(queue);
        let ports = self.topology.ports() as usize;
        self.turn[output] = (port % ports + 1) % ports;
    }

    fn send(&mut self, queue: usize, output: usize, piece: Piece, to: Option<usize>) {
        let config = self.config;
        let gone = self.tick + u64::from(piece.bytes.div_ceil(config.bytes_per_tick));
        self.queues[queue].pop_front();
        self.ready[queue] = gone;
        self.busy_until[output] = gone;
        let credit = u64::from(config.credit_ticks + config.wire_ticks);
        self.space.push((gone + credit, queue, piece.bytes));
        for (index, tick) in (self.tick..gone).enumerate() {
            let before = index as u32 * config.bytes_per_tick;
            let flit = i64::from((piece.bytes - before).min(config.bytes_per_tick));
            let is_fed = queue / usize::from(config.channels) % self.topology.ports() as usize
                != self.topology.local_port() as usize;
            if is_fed {
                self.room_changes.push((tick + 1 + credit, queue, flit));
            }
            self.room_changes.extend(to.map(|to| (tick, to, -flit)));
        }
        let wire = u64::from(config.wire_ticks);
        if let Some(to) = to {
            self.free[to] -= piece.bytes;
            let at = self.tick + wire + u64::from(config.router_ticks);
            self.arrivals.push((at, to, piece));
        } else {
            self.last_bytes.push((gone + wire, piece));
        }
    }
}

/// Carries messages, which must be in order of time, until all have come or nothing moves.
fn carry(config: &NetworkConfig, messages: &[Message]) -> (Network, Vec<Came>) {
    carry_over(Network::new(config.clone()).expect("a network"), messages)
}

fn carry_over(mut network: Network, messages: &[Message]) -> (Network, Vec<Came>) {
    let clock = network.config.clock;
    let mut agenda: Agenda<Entry> = Agenda::default();
    let mut came = Vec::new();
    let mut next = messages.iter().peekable();
    loop {
        let due = next.peek().map(|message| message.at);
        let until = due.map_or(Instant::NEVER, |at| Instant::from_ps(at.as_ps().wrapping_sub(1)));
        if due != Some(Instant::START)
            && let Some(entry) = agenda.take(until)
        {
            if let Some(got) = network.handle(entry, &mut agenda) {
                let now = agenda.now();
                let sent = now.as_ps() - got.latency.as_ps();
                let tick = clock.tick_from(now);
                came.push((tick, got.source, got.to, got.bytes, sent));
            }
        } else if let Some(message) = next.next() {
            agenda.idle_until(message.at);
            assert_eq!(agenda.now(), message.at);
            network.send(message, &mut agenda);
        } else {
            return (network, came);
        }
    }
}

/// Returns a small network of a random kind.
fn any_config(draw: &mut Draw) -> NetworkConfig {
    let mut config = NetworkConfig::torus(&[3]);
    let wrap = [Wrap::Ring, Wrap::Line][draw.below(2) as usize];
    let ways = if wrap == Wrap::Ring && draw.chance(0.3) { Ways::Up } else { Ways::Both };
    config.dimensions = (0..=draw.below(3))
        .map(|_| Dimension { routers: 2 + draw.below(3) as u32, wrap, ways })
        .collect();
    config.clock =
        Clock::from_hertz([1_000_000_000, 333_500_000, 156_250_000][draw.below(3) as usize]);
    config.bytes_per_tick = 1 + draw.below(16) as u32;
    config.channels = [2, 4][draw.below(2) as usize];
    config.packet_bytes = 1 + draw.below(64) as u32;
    config.header_bytes = draw.below(8) as u32;
    let packet = config.packet_bytes + config.header_bytes;
    config.buffer_bytes = packet + draw.below(u64::from(3 * packet)) as u32;
    config.router_ticks = draw.below(5) as u32;
    config.wire_ticks = 1 + draw.below(4) as u32;
    config.credit_ticks = draw.below(4) as u32;
    let _ = draw.below(2);
    config
}

fn any_messages(draw: &mut Draw, config: &NetworkConfig, count: u64) -> Vec<Message> {
    let nodes = u64::from(config.check().expect("a network").routers());
    let span = 1 + draw.below(count * 40_000);
    let mut messages: Vec<Message> = (0..count)
        .map(|event| {
            let source = draw.below(nodes);
            let to = (source + 1 + draw.below(nodes - 1)) % nodes;
            let bytes = 1 + draw.below(3 * u64::from(config.packet_bytes)) as u32;
            let at = Instant::from_ps(draw.below(span));
            Message { at, source: source as u32, to: to as u32, bytes, event }
        })
        .collect();
    messages.sort_by_key(|message| message.at);
    messages
}

#[test]
fn every_message_comes_at_the_tick_at_which_the_obvious_network_delivers_it() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let config = any_config(&mut draw);
        let messages = any_messages(&mut draw, &config, 150);
        let mut network = Network::new(config.clone()).expect("a network");
        // Every second network reads ahead as large ones do, which must change nothing.
        network.is_large = seed % 2 == 1;
        let (network, mut came) = carry_over(network, &messages);
        network.audit().expect("nothing is lost");
        assert_eq!((network.pending(), network.deadlock()), (0, None), "{config:?}");
        let mut obvious = Obvious::new(&config, &messages);
        let mut expected = Vec::new();
        while expected.len() < messages.len() {
            expected.extend(obvious.step(&messages));
            assert!(obvious.tick < 1_000_000, "the obvious network does not end: {config:?}");
        }
        came.sort_unstable();
        expected.sort_unstable();
        assert_eq!(came, expected, "{config:?}");
    }
}

#[test]
fn a_lone_message_takes_exactly_the_time_of_the_formula() {
    for clock in [1_000_000_000, 333_500_000] {
        let mut config = NetworkConfig::torus(&[5, 4]);
        (config.header_bytes, config.buffer_bytes) = (8, 144);
        config.clock = Clock::from_hertz(clock);
        for to in 1..20 {
            let message = Message { at: Instant::START, source: 0, to, bytes: 40, event: 0 };
            let (network, _) = carry(&config, &[message]);
            // From the formula's terms: source wire, routers with their wires, 48 bytes in 3 ticks.
            let hops = network.topology().hops(0, to);
            let ticks = u64::from(1 + (hops + 1) * (5 + 1) + 3);
            let mut agenda: Agenda<Entry> = Agenda::default();
            let mut alone = Network::new(config.clone()).expect("a network");
            alone.send(&message, &mut agenda);
            let mut latency = None;
            while let Some(entry) = agenda.take(Instant::NEVER) {
                latency = latency.or(alone.handle(entry, &mut agenda).map(|got| got.latency));
            }
            assert_eq!(latency, Some(alone.zero_load(0, to, 40)));
            assert_eq!(latency, Some(config.clock.span(ticks)));
            assert_eq!(alone.hops(), u64::from(hops));
        }
    }
}

#[test]
fn a_ring_without_dateline_deadlocks_and_names_the_circle() {
    let mut config = NetworkConfig::torus(&[4]);
    config.dimensions[0].ways = Ways::Up;
    config.dateline = Dateline::Ignored;
    (config.channels, config.buffer_bytes) = (1, 64);
    let messages: Vec<Message> = (0..16)
        .map(|event| {
            let source = event as u32 % 4;
            let to = (source + 2) % 4;
            Message { at: Instant::START, source, to, bytes: 64, event }
        })
        .collect();
    let (network, came) = carry(&config, &messages);
    network.audit().expect("nothing is lost");
    assert!(came.len() < 16);
    let deadlock = network.deadlock().expect("found");
    let links: Vec<(u32, u32, u32)> =
        deadlock.cycle.iter().map(|held| (held.from, held.to, held.channel)).collect();
    assert_eq!(links, [(3, 0, 0), (0, 1, 0), (1, 2, 0), (2, 3, 0)]);
    assert_eq!(deadlock.packets, 16 - came.len() as u64);
    assert!(deadlock.to_string().contains("(3->0, 0) (0->1, 0)"), "{deadlock}");
    // The same traffic with a dateline arrives.
    (config.dateline, config.channels) = (Dateline::Kept, 2);
    let (network, came) = carry(&config, &messages);
    assert_eq!((came.len(), network.deadlock()), (16, None));
}

fn plan(nodes: u32, arrivals: Arrivals) -> Plan {
    Plan { nodes, pattern: Pattern::Uniform, arrivals, size: Size::Fixed(64), seed: 9 }
}

fn run_loaded(config: &NetworkConfig, plan: Plan, until: Duration) -> (Loaded, Fingerprint, u64) {
    let mut agenda = Agenda::default();
    let mut loaded = loaded(config.clone(), plan, &Settings::default(), &mut agenda).expect("fits");
    let mut print = Fingerprint::default();
    let entries = model::run(&mut loaded, &mut agenda, &mut print, Instant::START + until);
    loaded.network().audit().expect("nothing is lost");
    (loaded, print, entries)
}

#[test]
fn the_fingerprint_is_the_same_in_every_build() {
    // The constants come from one run; all kinds of builds and machines must reproduce them.
    let config = NetworkConfig::torus(&[4, 4]);
    let arrivals = Arrivals::Periodic { bytes_per_s: 4e9 };
    let (_, print, entries) = run_loaded(&config, plan(16, arrivals), Duration::from_us(20));
    assert_eq!((print.to_string().as_str(), entries), ("dff369c84037eec5", 78_972));
}

#[test]
fn a_window_keeps_so_many_messages_under_way_and_never_more() {
    let config = NetworkConfig::torus(&[4, 4]);
    let (loaded, ..) =
        run_loaded(&config, plan(16, Arrivals::Window { messages: 3 }), Duration::from_us(10));
    assert_eq!(loaded.network().pending(), 48);
    assert!(loaded.network().hops() > 10_000);
}

#[test]
fn a_source_that_is_full_refuses_and_memory_stays_bounded() {
    let mut config = NetworkConfig::torus(&[4, 4]);
    config.source_packets = 10;
    let arrivals = Arrivals::Poisson { bytes_per_s: 64e9 };
    let (loaded, ..) = run_loaded(&config, plan(16, arrivals), Duration::from_us(10));
    // Sixteen nodes with 10 waiting packets, the packets on the way to a queue, and all buffers
    // full.
    assert!(
        loaded.network().pending() < 16 * (10 + 40 + 5 * 2 * 2),
        "{}",
        loaded.network().pending()
    );
}

#[test]
fn configurations_that_cannot_work_are_refused_with_a_sentence() {
    let good = NetworkConfig::torus(&[4]);
    let cases = [
        (NetworkConfig { bytes_per_tick: 0, ..good.clone() }, "1 or more"),
        (NetworkConfig { wire_ticks: 0, ..good.clone() }, "1 tick"),
        (NetworkConfig { channels: 1, ..good.clone() }, "2 channels"),
        (NetworkConfig { channels: 22, ..good.clone() }, "1 to 64"),
        (NetworkConfig { buffer_bytes: 63, ..good.clone() }, "holds no packet of 64"),
        (NetworkConfig { source_packets: 0, ..good.clone() }, "source_packets"),
        (NetworkConfig { dimensions: vec![], ..good.clone() }, "0 dimensions"),
        (NetworkConfig { clock: Clock::from_hertz(u64::MAX), ..good.clone() }, "100 GHz"),
    ];
    for (config, part) in cases {
        let text = Network::new(config).expect_err("refused").to_string();
        assert!(text.contains(part), "{text}");
    }
    let mut agenda = Agenda::default();
    let settings = Settings::default();
    let long = Plan { size: Size::Fixed(u32::MAX), ..plan(4, Arrivals::Window { messages: 1 }) };
    let wrong = loaded(good.clone(), long, &settings, &mut agenda);
    assert!(wrong.err().expect("refused").to_string().contains("at most 65536"));
    let wrong = loaded(good, plan(5, Arrivals::Window { messages: 1 }), &settings, &mut agenda);
    assert!(wrong.err().expect("refused").to_string().contains("5 nodes on a network of 4"));
}

#[test]
fn a_part_of_a_larger_model_needs_nothing_but_a_conversion() {
    struct Whole(Network);
    #[derive(Clone, Copy)]
    enum Anything {
        Net(Entry),
    }
    impl From<Entry> for Anything {
        fn from(entry: Entry) -> Anything {
            Anything::Net(entry)
        }
    }
    impl crate::Entry for Anything {
        fn component(&self) -> u32 {
            let Anything::Net(entry) = self;
            entry.component()
        }
        fn kind(&self) -> u8 {
            7
        }
    }
    impl Model for Whole {
        type Entry = Anything;
        fn handle(&mut self, Anything::Net(entry): Anything, agenda: &mut Agenda<Anything>) {
            self.0.handle(entry, agenda);
        }
    }
    let mut whole = Whole(Network::new(NetworkConfig::torus(&[4])).expect("a network"));
    let mut agenda = Agenda::default();
    let message = Message { at: Instant::START, source: 0, to: 2, bytes: 100, event: 0 };
    whole.0.send(&message, &mut agenda);
    model::run(&mut whole, &mut agenda, &mut Fingerprint::default(), Instant::NEVER);
    assert_eq!((whole.0.pending(), whole.0.hops()), (0, 4));
}

/// A network with its agenda, and the ends of its messages.
struct Bench {
    network: Network,
    agenda: Agenda<Entry>,
    arrived: u64,
    dropped: u64,
}

impl Bench {
    fn run(&mut self, until: Instant) {
        while let Some(entry) = self.agenda.take(until) {
            Interconnect::handle(&mut self.network, entry, &mut self.agenda);
            self.follow();
        }
        self.agenda.idle_until(until);
        self.network.audit().expect("every packet is somewhere");
    }

    fn follow(&mut self) {
        while let Some(report) = Interconnect::next_report(&mut self.network) {
            match report {
                Report::Received { node, class } => {
                    let found = self.network.take(node, class, &mut self.agenda);
                    self.arrived += u64::from(found.is_some());
                }
                Report::Dropped { .. } => self.dropped += 1,
                other => panic!("{other:?}"),
            }
        }
    }

    fn send(&mut self, source: u32, to: u32, bytes: u32) {
        let message = Message { at: self.agenda.now(), source, to, bytes, event: 0 };
        Interconnect::send(&mut self.network, source, message, &mut self.agenda).expect("taken");
    }

    fn fault(&mut self, kind: FaultKind) -> bool {
        let is_known = Interconnect::fault(&mut self.network, kind, &mut self.agenda);
        self.follow();
        is_known
    }
}

fn bench(config: NetworkConfig) -> Bench {
    let network = Network::new(config).expect("a network");
    Bench { network, agenda: Agenda::default(), arrived: 0, dropped: 0 }
}

fn ns(ns: u64) -> Instant {
    Instant::from_ps(ns * 1000)
}

#[test]
fn a_packet_is_lost_on_a_cut_link_while_it_is_there_and_not_before_or_after() {
    // A ring of 8: from the node 1 ns, then at each router 5 ns and at each link 1 ns; 4 ns long.
    for (cut_at, arrives) in [(0, 0), (5, 0), (12, 0), (16, 0), (17, 1), (40, 1)] {
        let mut bench = bench(NetworkConfig::torus(&[8]));
        bench.send(0, 3, 64);
        bench.run(ns(cut_at));
        assert!(bench.fault(FaultKind::CutLink { from: 2, to: 1 }));
        bench.run(ns(1000));
        assert_eq!((bench.arrived, bench.dropped), (arrives, 1 - arrives), "cut at {cut_at} ns");
        let losses = Interconnect::losses(&bench.network);
        assert_eq!(losses.len() as u64, 1 - arrives);
        assert!(losses.iter().all(|loss| loss.place == "link from router 1 to router 2"));
        // Other routes work, and this one after its repair.
        bench.send(4, 6, 64);
        bench.run(ns(2000));
        assert!(bench.fault(FaultKind::MendLink { from: 1, to: 2 }));
        bench.send(0, 3, 640);
        bench.run(ns(3000));
        assert_eq!((bench.arrived, bench.dropped), (arrives + 2, 1 - arrives));
    }
}

#[test]
fn whatever_links_are_cut_each_message_ends_once() {
    let mut dropped = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let base = NetworkConfig::torus([&[4, 3][..], &[6], &[3, 3, 3]][seed as usize % 3]);
        let wire_ticks = 1 + draw.below(20) as u32;
        let mut bench = bench(NetworkConfig { wire_ticks, ..base });
        let routers = bench.network.topology().routers();
        let mut now = 0;
        for _ in 0..600 {
            now += draw.below(12);
            bench.run(ns(now));
            let (from, to) = (draw.below(routers.into()) as u32, draw.below(routers.into()) as u32);
            let joined = bench.network.topology().hops(from, to) == 1;
            if draw.chance(0.2) {
                assert_eq!(bench.fault(FaultKind::CutLink { from, to }), joined);
            } else if draw.chance(0.2) {
                assert_eq!(bench.fault(FaultKind::MendLink { from, to }), joined);
            } else if from != to {
                bench.send(from, to, draw.below(400) as u32);
            }
        }
        bench.run(ns(now + 1_000_000));
        let sent = bench.network.sends;
        assert_eq!((bench.arrived + bench.dropped, bench.network.pending()), (sent, 0));
        assert_eq!(bench.network.deadlock(), None);
        dropped += bench.dropped;
        assert!(!bench.fault(FaultKind::CutLink { from: 0, to: 99 }));
        assert!(!bench.fault(FaultKind::Power(0)));
    }
    assert!(dropped > 100, "{dropped}");
}
