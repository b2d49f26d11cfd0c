//! Delivery under errors, cuts and load; closed forms; the fairness of connections.

use fluxline_core::random::{Draw, test_count, test_seed};

use super::connection::{Accepted, Early, Inbound, Letter, Outbound, Piece};
use super::measure::one_way;
use super::*;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, Refusal};
use crate::net::atoll::Flow;
use crate::{Agenda, Clock};

/// An entry of the agenda: of the network, or the end of a run.
#[derive(Clone, Copy, Debug)]
enum Due {
    Network(Entry),
    Pause,
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Network(entry)
    }
}

/// A network with its agenda, and what came out of it.
struct Bench {
    network: Network<Blank>,
    agenda: Agenda<Due>,
    /// By receiver: the numbers of messages.
    arrived: Vec<Vec<u64>>,
    done: Vec<u64>,
    lost: Vec<u64>,
    has_space: bool,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let nodes = config.nodes as usize;
        Bench {
            network: Network::new(config).expect("a network"),
            agenda: Agenda::default(),
            arrived: vec![Vec::new(); nodes],
            done: Vec::new(),
            lost: Vec::new(),
            has_space: false,
        }
    }

    /// Sends a message if there is a token; returns its send.
    fn send(&mut self, node: u32, blank: Blank) -> Option<u64> {
        self.network.send(node, blank, &mut self.agenda).ok().map(|send| send.0)
    }

    /// Handles the entries that are due by `until`, which is then the time.
    fn run(&mut self, until: Instant) {
        if until < Instant::NEVER {
            self.agenda.schedule(until, Due::Pause);
        }
        while let Some(due) = self.agenda.take(until) {
            let Due::Network(entry) = due else { continue };
            self.network.handle(entry, &mut self.agenda);
            self.follow();
        }
        self.network.conserve().expect("each message is in one place");
    }

    fn follow(&mut self) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, .. } => {
                    let blank = self.network.take(node, Class::Request, &mut self.agenda);
                    self.arrived[node as usize].push(blank.expect("a message").number);
                }
                Report::Done { send, .. } => self.done.push(send.0),
                Report::Lost { send, .. } => self.lost.push(send.0),
                Report::Space { .. } => self.has_space = true,
                Report::Dropped { .. } => {}
            }
        }
    }
}

fn blank(target: u32, bytes: u32, number: u64) -> Blank {
    Blank { target, bytes, number }
}

#[test]
fn one_message_takes_the_sum_of_its_parts() {
    for card in [config::Card::e(), config::Card::d(), config::Card::pci64c()] {
        for bytes in [1, 8, 100, 1024, 4096] {
            let config = Config { card, ..Config::new(2) };
            let (gm, bus) = (config.gm, config.bus);
            let cycles = |count: u32| card.lanai.span(u64::from(count)).as_us();
            let clocks = |count: u32| bus.clock.span(u64::from(count)).as_us();
            let words = |bytes: u32| bytes.div_ceil(bus.width_bytes);
            let host = clocks(bus.store_clocks + words(gm.token_bytes))
                + clocks(bus.read_clocks + words(bytes))
                + clocks(bus.write_clocks + words(bytes))
                + clocks(bus.write_clocks + words(gm.event_bytes));
            // By hand: the ends, a switch, two cables, data, header, and two symbols of route if
            // the packet is longer than a grain.
            let fabric = config.fabric;
            let cable = fabric.clock.tick_from(Instant::START + fabric.cable) as u32;
            let length = bytes + fabric.header_bytes;
            let route = if length > fabric.grain_bytes { 2 } else { 0 };
            let symbols = length + route;
            let link = 2 * fabric.end_clocks + fabric.switch_clocks + 2 * cable + symbols;
            let link = fabric.clock.span(u64::from(link)).as_us();
            let expected = host + link + cycles(gm.send_cycles) + cycles(gm.receive_cycles);
            let took = one_way(&config, Duration::ZERO, bytes).expect("it arrives").as_us();
            // The link begins at its next clock.
            assert!((took - expected).abs() < 0.005, "{bytes} B: {took}, by hand {expected}");
        }
    }
}

/// Draws Myrinet, QsNet or InfiniBand, the latter two with as few as two grains of credits.
fn any_network(nodes: u32, draw: &mut Draw) -> Config {
    let mut config = match draw.below(3) {
        0 => return Config::new(nodes),
        1 => other::qsnet2(nodes, other::bus_of_qsnet()),
        _ => other::infiniband(nodes, other::Rate::Qdr, crate::host::preset::pcie(4_000)),
    };
    config.fabric.credit_bytes = config.fabric.grain_bytes * (2 + draw.below(30) as u32);
    config
}

#[test]
fn every_message_arrives_once_and_in_order_whatever_the_links_do() {
    let mut draw = Draw::new(test_seed!(1));
    for _ in 0..test_count!(12) {
        let nodes = [2, 5, 16, 17, 40][draw.below(5) as usize];
        let mut config = any_network(nodes, &mut draw);
        config.card.ports = 1 + draw.below(3) as u8;
        config.bit_error_rate = [0.0, 1e-8, 1e-7, 1e-6][draw.below(4) as usize];
        config.seed = draw.below(1 << 32);
        config.gm.window = 1 + draw.below(16) as u32;
        config.gm.tokens = 1000;
        let mut bench = Bench::new(config);
        let mut sent = vec![Vec::new(); (nodes * nodes) as usize];
        for number in 0..300 {
            let (from, to) = (draw.below(nodes.into()) as u32, draw.below(nodes.into()) as u32);
            let bytes = [0, 8, 500, 4096, 4097, 20_000][draw.below(6) as usize];
            bench.send(from, blank(to, bytes, number)).expect("a token");
            sent[(from * nodes + to) as usize].push(number);
            if draw.chance(0.1) {
                let pause = Duration::from_us(draw.below(300));
                bench.run(bench.agenda.now() + pause);
            }
        }
        bench.run(Instant::NEVER);
        assert_eq!((bench.done.len(), bench.lost.len()), (300, 0), "all were acknowledged");
        for from in 0..nodes {
            for to in 0..nodes {
                let expected = &sent[(from * nodes + to) as usize];
                let arrived = bench.arrived[to as usize].iter().copied();
                let arrived: Vec<u64> = arrived.filter(|of| expected.contains(of)).collect();
                assert_eq!(&arrived, expected, "{from} to {to}");
            }
        }
        let (rate, lost) = (bench.network.config.bit_error_rate, bench.network.packets_lost());
        println!("{nodes} nodes, errors {rate}: {lost} packets lost");
        assert_eq!(lost > 0, bench.network.counts().repeated > 0, "a loss is a repetition");
        assert!(rate < 1e-6 || lost > 0, "nothing was tested");
    }
}

#[test]
fn a_message_ends_as_lost_or_done_whatever_is_cut_and_none_arrives_twice() {
    let mut draw = Draw::new(test_seed!(1));
    for _ in 0..test_count!(8) {
        let mut config = any_network(6, &mut draw);
        config.card.ports = 1 + draw.below(2) as u8;
        config.seed = draw.below(1 << 32);
        let mut bench = Bench::new(config);
        let (mut sends, mut dead) = (Vec::new(), Vec::new());
        for number in 0..120 {
            let (from, to) = (draw.below(6) as u32, draw.below(6) as u32);
            let bytes = draw.below(30_000) as u32;
            if let Some(send) = bench.send(from, blank(to, bytes, number)) {
                sends.push(send);
            } else {
                assert!(dead.contains(&from), "a living node has tokens");
            }
            let node = draw.below(6) as u32;
            let fault = match draw.below(30) {
                0 => Some(FaultKind::Cable(node)),
                1 | 2 => Some(FaultKind::Repair(node)),
                3 if dead.len() < 2 => {
                    dead.push(node);
                    Some(FaultKind::Power(node))
                }
                _ => None,
            };
            if let Some(fault) = fault.filter(|of| !dead.contains(&of.node()) || dead.len() < 3) {
                assert!(bench.network.fault(fault, &mut bench.agenda));
                bench.follow();
            }
            let pause = Duration::from_us(draw.below(2_000));
            bench.run(bench.agenda.now() + pause);
        }
        bench.run(Instant::NEVER);
        let mut ends: Vec<u64> = bench.done.iter().chain(&bench.lost).copied().collect();
        ends.sort_unstable();
        assert_eq!(ends, sends, "each send ends once");
        let mut all: Vec<u64> = bench.arrived.concat();
        let arrived = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), arrived, "a message arrived twice");
        assert!(arrived >= bench.done.len(), "an acknowledged message did not arrive");
    }
}

#[test]
fn a_dead_peer_does_not_delay_messages_to_others() {
    let mut bench = Bench::new(Config::new(3));
    bench.network.fault(FaultKind::Power(2), &mut bench.agenda);
    for number in 0..20 {
        bench.send(0, blank(2, 100_000, number)).expect("a token");
    }
    bench.send(0, blank(1, 100_000, 99)).expect("a token");
    bench.run(Instant::START + Duration::from_us(5_000));
    assert_eq!(bench.arrived[1], [99], "long before node 2 is given up");
    assert!(bench.lost.is_empty());
    bench.run(Instant::NEVER);
    assert_eq!(bench.lost.len(), 20);
    assert!(bench.agenda.now() < Instant::START + Duration::from_us(60_000));
}

#[test]
fn tokens_limit_the_messages_of_a_host() {
    let mut config = Config::new(2);
    config.gm.tokens = 3;
    let mut bench = Bench::new(config);
    let taken = (0..5).filter(|&number| bench.send(0, blank(1, 10, number)).is_some()).count();
    assert_eq!(taken, 3);
    bench.run(Instant::NEVER);
    assert!(bench.has_space && bench.done.len() == 3);
    let wrong = bench.network.send(0, blank(2, 1, 1), &mut bench.agenda).expect_err("no node 2");
    assert_eq!(wrong.why, Refusal::Never);
}

#[test]
fn two_senders_of_a_clos_network_do_not_share_a_link_up() {
    // Eight hosts of a switch send to eight hosts of another one: each has a way of its own.
    let mut config = Config::new(24);
    config.card = config::Card::d();
    let alone = {
        let mut bench = Bench::new(config.clone());
        bench.send(0, blank(8, 1 << 18, 0)).expect("a token");
        bench.run(Instant::NEVER);
        bench.agenda.now()
    };
    let mut bench = Bench::new(config);
    for number in 0..8 {
        bench.send(number, blank(8 + number, 1 << 18, number.into())).expect("a token");
    }
    bench.run(Instant::NEVER);
    let ratio = bench.agenda.now().as_ps() as f64 / alone.as_ps() as f64;
    println!("eight senders take {ratio:.3} of the time of one");
    assert!(ratio < 1.1, "{ratio}: their routes share links");
}

#[test]
fn wrong_parameters_are_rejected_with_what_to_write() {
    let good = || Config::new(2);
    let gm = |change: fn(&mut config::Gm)| {
        let mut config = good();
        change(&mut config.gm);
        config
    };
    let slow = config::Card { lanai: Clock::from_hertz(1), ..config::Card::e() };
    let wrong = [
        (Config::new(1), "give 2 to 128"),
        (Config::new(129), "give 2 to 128"),
        (Config { card: config::Card { ports: 0, ..config::Card::e() }, ..good() }, "1 to 8"),
        (Config { card: slow, ..good() }, "1 MHz or more"),
        (gm(|gm| gm.piece_bytes = 0), "give 1 to 1048576"),
        (gm(|gm| gm.window = 0), "1 to 1024"),
        (gm(|gm| gm.give_up = Duration::ZERO), "give a longer end"),
        (Config { bit_error_rate: f64::NAN, ..good() }, "give 0 to 0.01"),
    ];
    for (config, says) in wrong {
        let error = Network::<Blank>::new(config).expect_err("wrong").to_string();
        assert!(error.contains(says), "{error}");
    }
}

fn piece(sequence: u64) -> Piece {
    Piece { sequence, message: sequence, bytes: 1, is_first: true, is_last: true }
}

#[test]
fn a_receiver_complains_once_about_a_gap_and_a_new_life_begins_at_zero() {
    let mut inbound = Inbound::default();
    let mut accept = |life, sequence| inbound.accept(life, piece(sequence), Early::IsDropped);
    let accepted = |pieces: &[u64], complains| {
        Some(Accepted { pieces: pieces.iter().map(|&of| piece(of)).collect(), complains })
    };
    assert_eq!(accept(0, 0), accepted(&[0], false));
    assert_eq!(accept(0, 2), accepted(&[], true));
    assert_eq!(accept(0, 3), accepted(&[], false), "it complained before");
    assert_eq!(accept(0, 0), accepted(&[], false), "a copy");
    assert_eq!(accept(0, 1), accepted(&[1], false));
    assert_eq!(accept(0, 3), accepted(&[], true), "a new gap");
    assert_eq!(accept(1, 0), accepted(&[0], false));
    assert_eq!(accept(0, 2), None, "of a former life");
    let mut waits = Inbound::default();
    let mut accept = |sequence| waits.accept(0, piece(sequence), Early::Waits);
    assert_eq!(accept(2), accepted(&[], false));
    assert_eq!(accept(1), accepted(&[], false));
    assert_eq!(accept(0), accepted(&[0, 1, 2], false));
}

#[test]
fn an_acknowledgement_ends_the_messages_below_it() {
    let mut outbound = Outbound::default();
    let letter = |message| Letter { message, bytes: 10, taken: 0 };
    outbound.letters.extend([letter(7), letter(8)]);
    let now = Instant::START;
    let sizes: Vec<u32> =
        std::iter::from_fn(|| outbound.cut(6, now)).map(|piece| piece.bytes).collect();
    assert_eq!(sizes, [6, 4, 6, 4]);
    assert_eq!(outbound.acknowledged(1, now), Vec::<u64>::new());
    assert_eq!(outbound.acknowledged(3, now), [7]);
    outbound.letters.push_back(letter(9));
    assert_eq!(outbound.give_up(), [8, 9]);
    assert_eq!((outbound.life, outbound.unacknowledged.len()), (1, 0));
}

/// Returns the rate of a long stream between two hosts with QsNet's cards, with some credits.
fn rate_with(credit_bytes: u32) -> f64 {
    let mut config = other::qsnet2(2, other::bus_of_qsnet());
    config.fabric.credit_bytes = credit_bytes;
    config.fabric.switch_clocks = 300;
    assert_eq!(config.plane(0).expect("two hosts").flow, Flow::Credits);
    let call = Duration::ZERO;
    let streams = measure::Streams {
        bytes: 1 << 20,
        count: 4,
        outstanding: 4,
        call,
        ways: measure::Ways::One,
    };
    streams.rate(&config).expect("a network")
}

#[test]
fn a_link_carries_its_credits_in_each_round_trip() {
    let config = other::qsnet2(2, other::bus_of_qsnet());
    let cable = config.fabric.clock.tick_from(Instant::START + config.fabric.cable);
    let grain = f64::from(config.fabric.grain_bytes);
    // A grain arrives at the switch, leaves it if its output is free, and its place returns.
    let trip = cable as f64 + 300.0 + grain + cable as f64 + f64::from(config.fabric.stop_clocks);
    for grains in [2, 3, 4] {
        let credits = grain * f64::from(grains);
        let packet = f64::from(config.gm.piece_bytes + config.fabric.header_bytes);
        let share = f64::from(config.gm.piece_bytes) / packet;
        let expected = 1300.0 * credits / trip * share;
        let rate = rate_with(credits as u32);
        println!("{grains} grains: {rate:.1} MB/s, by hand {expected:.1}");
        assert!((rate / expected - 1.0).abs() < 0.06, "{grains}: {rate}, {expected}");
    }
    assert!(rate_with(4096) > 880.0, "enough credits leave the bus as the limit");
}

#[test]
fn a_link_without_a_bus_in_its_way_reaches_its_goodput() {
    for rate in [other::Rate::Sdr, other::Rate::Ddr] {
        let fast = crate::host::preset::pcie(20_000);
        let config = other::infiniband(2, rate, fast);
        let call = Duration::ZERO;
        let streams = measure::Streams {
            bytes: 1 << 22,
            count: 2,
            outstanding: 2,
            call,
            ways: measure::Ways::One,
        };
        let goodput = streams.rate(&config).expect("a network");
        // Two symbols of route for each packet.
        let expected = rate.mb_s() as f64 * 2048.0 / (2048.0 + 26.0 + 2.0);
        println!("{goodput:.1} MB/s, by hand {expected:.1}");
        assert!((goodput / expected - 1.0).abs() < 0.005, "{goodput} and {expected}");
    }
}
