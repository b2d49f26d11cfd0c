//! Streams against the bounds of links, credits and windows, and shares of flows at one link.

use super::config::{Card, Config};
use super::{Blank, Network, other};
use crate::core::interconnect::{Class, Interconnect, Report};
use crate::host::{Bus, preset};
use crate::{Agenda, Clock, Duration, Instant};

/// Flows that always have messages under way.
struct Flows<'a> {
    config: Config,
    /// Sender and receiver of each; no sender has two.
    pairs: &'a [[u32; 2]],
    /// Packets of a message.
    pieces: u32,
    /// The time that is simulated \[us\]; a quarter of it is the warm-up.
    us: u64,
}

impl Flows<'_> {
    /// Runs the flows. Asserts that nothing was dropped or sent twice.
    fn run(&self) -> Outcome {
        let mut network = Network::<Blank>::new(self.config.clone()).expect("a network");
        let mut agenda = Agenda::<super::Entry>::default();
        let bytes = self.pieces * self.config.gm.piece_bytes;
        let message = |flow: usize| {
            let [_, target] = self.pairs[flow];
            Blank { target, bytes, number: flow as u64 }
        };
        for (flow, &[from, _]) in self.pairs.iter().enumerate() {
            for _ in 0..4 {
                network.send(from, message(flow), &mut agenda).expect("a token");
            }
        }
        let warm = Instant::START + Duration::from_us(self.us / 4);
        let mut arrivals = vec![Vec::new(); self.pairs.len()];
        while let Some(entry) = agenda.take(Instant::START + Duration::from_us(self.us)) {
            network.handle(entry, &mut agenda);
            while let Some(report) = network.next_report() {
                match report {
                    Report::Received { node, .. } => {
                        let blank = network.take(node, Class::Request, &mut agenda);
                        let flow = blank.expect("a message").number as usize;
                        if agenda.now() >= warm {
                            arrivals[flow].push(agenda.now());
                        }
                    }
                    Report::Done { node, .. } => {
                        let flow = self.pairs.iter().position(|&[from, _]| from == node);
                        let flow = flow.expect("a flow of the sender");
                        network.send(node, message(flow), &mut agenda).expect("a token");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        // A buffer that overflowed is a broken law of the links.
        network.conserve().expect("no byte is dropped");
        assert_eq!((network.packets_lost(), network.counts().repeated), (0, 0));
        let rate = |times: &Vec<Instant>| {
            let [first, .., last] = times[..] else { panic!("too few arrivals: {times:?}") };
            f64::from(bytes) * (times.len() - 1) as f64 / last.since(first).as_us()
        };
        let rates = arrivals.iter().map(rate).collect();
        Outcome { rates, stops: network.planes[0].counts().stops }
    }
}

/// The results of flows.
struct Outcome {
    /// The rate of each from its first to its last arrival after the warm-up \[MB/s\].
    rates: Vec<f64>,
    /// Stop symbols.
    stops: u64,
}

/// Returns a network whose buses and processors are in nobody's way.
fn of_links_alone(config: Config) -> Config {
    let card = Card { lanai: Clock::from_hertz(100_000_000_000), ports: 1 };
    Config { card, bus: preset::pcie(20_000), ..config }
}

/// Returns the rate of one stream from host 0 to host 1 \[MB/s\].
fn stream(config: Config, pieces: u32, us: u64) -> f64 {
    Flows { config, pairs: &[[0, 1]], pieces, us }.run().rates[0]
}

/// Compares a rate with the lower one of two bounds \[MB/s\].
fn check(name: &str, rate: f64, link: f64, window: f64) {
    let bound = link.min(window);
    println!("{name}: {rate:.1} of {bound:.1} MB/s (link {link:.1}, window {window:.1})");
    assert!(rate <= bound * 1.003, "{name}: {rate} MB/s are above the bound of {bound}");
    assert!(rate >= bound * 0.97, "{name}: {rate} MB/s are far below the bound of {bound}");
}

/// Returns the data that a link carries if it never waits \[MB/s\]: a packet has a header, and two
/// symbols of route on its first link.
fn link_rate(config: &Config) -> f64 {
    let piece = f64::from(config.gm.piece_bytes);
    let symbols = piece + f64::from(config.fabric.header_bytes + 2);
    config.fabric.clock.hertz() as f64 / 1e6 * piece / symbols
}

/// Returns the same for the link into a host, on which a packet has one symbol of route left.
fn last_link_rate(config: &Config) -> f64 {
    let piece = f64::from(config.gm.piece_bytes);
    let symbols = piece + f64::from(config.fabric.header_bytes + 1);
    config.fabric.clock.hertz() as f64 / 1e6 * piece / symbols
}

fn cable_clocks(config: &Config) -> u32 {
    config.fabric.clock.tick_from(Instant::START + config.fabric.cable) as u32
}

/// Returns QsNet, or InfiniBand at a rate.
fn with_credits(rate: Option<other::Rate>) -> Config {
    let bus = preset::pcie(20_000);
    of_links_alone(match rate {
        None => other::qsnet2(2, bus),
        Some(rate) => other::infiniband(2, rate, bus),
    })
}

#[test]
fn a_stream_is_faster_than_its_credits_allow() {
    let (qsnet, sdr, qdr) = (None, Some(other::Rate::Sdr), Some(other::Rate::Qdr));
    let cases = [
        (qsnet, [(5, 128), (50, 256), (100, 4096), (200, 1024), (500, 4096)]),
        (sdr, [(5, 128), (50, 512), (200, 1024), (500, 2048), (500, 16_384)]),
        (qdr, [(5, 256), (20, 1024), (100, 2048), (200, 8192), (200, 16_384)]),
    ];
    for (rate, points) in cases {
        for (metres, credits) in points {
            let mut config = with_credits(rate);
            config.fabric.cable = Duration::from_ns(5 * metres);
            config.fabric.credit_bytes = credits;
            let fabric = config.fabric;
            // By hand: a grain takes the cable and the way to the output of the switch or into the
            // card; its tail leaves behind it; then its credit takes the cable back.
            let chip = fabric.switch_clocks.max(fabric.end_clocks);
            let cables = 2 * cable_clocks(&config);
            let trip = f64::from(cables + chip + fabric.grain_bytes + fabric.stop_clocks);
            let piece = f64::from(config.gm.piece_bytes);
            let share = piece / (piece + f64::from(fabric.header_bytes));
            let mb_s = fabric.clock.hertz() as f64 / 1e6;
            let window = mb_s * f64::from(credits) / trip * share;
            let name = format!("{rate:?}, {metres} m, credits of {credits} B");
            check(&name, stream(config.clone(), 16, 8_000), link_rate(&config), window);
        }
    }
}

#[test]
fn a_stream_is_faster_than_the_window_of_its_connection_allows() {
    let myrinet = Config { card: Card::d(), ..Config::new(2) };
    let bus = preset::pcie(2_000);
    let (qsnet, sdr) = (other::qsnet2(2, bus), other::infiniband(2, other::Rate::Sdr, bus));
    for (name, network) in [("Myrinet", myrinet), ("QsNet", qsnet), ("InfiniBand", sdr)] {
        for (ns, window) in [(25, 1), (1_000, 1), (2_500, 2), (3_000, 3), (3_000, 32)] {
            let mut config = network.clone();
            config.fabric.cable = Duration::from_ns(ns);
            config.gm.window = window;
            // More credits than the cables need, so that the window is the limit.
            config.fabric.credit_bytes *= 8;
            let (gm, fabric) = (config.gm, config.fabric);
            // By hand: the data's way into the card, the packet's over two links, its processing,
            // and the same for the acknowledgement, which is a header.
            let ends = 2 * fabric.end_clocks + fabric.switch_clocks + 2 * cable_clocks(&config);
            let symbols = gm.piece_bytes + fabric.header_bytes + 2 + fabric.header_bytes;
            let links = fabric.clock.span(u64::from(2 * ends + symbols)).as_us();
            let cycles = gm.packet_cycles + 2 * gm.ack_cycles;
            let fetch = Bus::new(config.bus).read(Instant::START, gm.piece_bytes);
            let fetch = fetch.since(Instant::START).as_us();
            let trip = fetch + links + config.card.lanai.span(u64::from(cycles)).as_us();
            let bound = f64::from(window * gm.piece_bytes) / trip;
            let link = link_rate(&config).min(f64::from(gm.piece_bytes) / fetch);
            let name = format!("{name}, cables of {ns} ns, a window of {window}");
            check(&name, stream(config, 64, 20_000), link, bound);
        }
    }
}

#[test]
fn stop_and_go_drops_bytes_or_leaves_a_link_idle_behind_a_long_cable() {
    for metres in [5, 50, 200, 600, 1000] {
        let mut config = of_links_alone(Config::new(4));
        config.fabric.cable = Duration::from_ps(6_500 * metres);
        let alone = stream(config.clone(), 16, 20_000);
        check(&format!("stop and go, {metres} m"), alone, link_rate(&config), f64::INFINITY);
        // A sender whose packets wait for those of others is stopped, and goes on in time.
        let pairs = &[[0, 3], [1, 3], [2, 3]];
        let link = last_link_rate(&config);
        let Outcome { rates, stops } = Flows { config, pairs, pieces: 4, us: 20_000 }.run();
        assert!(stops > 100, "{metres} m: {stops} stops do not test the slack");
        let sum = rates.iter().sum();
        check(&format!("three senders, {metres} m"), sum, link, f64::INFINITY);
    }
}

#[test]
fn a_buffer_without_place_for_a_round_trip_is_accepted() {
    for metres in [5, 50, 200, 1000] {
        let mut config = Config::new(2);
        config.fabric.cable = Duration::from_ps(6_500 * metres);
        let fabric = config.fabric;
        // By hand: a symbol comes in each clock until the stop is obeyed and what was under way
        // has come, and one more grain may have begun. A go leaves when the grains that are left
        // last until the first one behind it comes.
        let cables = 2 * cable_clocks(&config);
        let trip = cables + fabric.stop_clocks + fabric.switch_clocks.max(fabric.end_clocks);
        let mut plane = config.plane(0).expect("two hosts");
        assert_eq!(plane.slack_bytes(), trip + fabric.grain_bytes);
        assert_eq!(plane.go_bytes, trip.next_multiple_of(fabric.grain_bytes));
        let least = plane.go_bytes + plane.slack_bytes();
        assert_eq!((plane.fifo_bytes, plane.check()), (least, Ok(())));
        plane.fifo_bytes -= 1;
        let error = plane.check().expect_err("too small a buffer").to_string();
        assert!(error.contains(&format!("give {least} to")), "{error}");
    }
}

/// Compares the shares of flows with those of an arbiter that serves its input ports in turn \[%\],
/// and their sum with the rate of the link that all of them share.
fn check_shares(network: &Config, pairs: &[[u32; 2]], expected: &[f64]) {
    let config = network.clone();
    let link = last_link_rate(&config);
    // Five megabytes of the link.
    let us = 5_000_000_000_000 / config.fabric.clock.hertz();
    let Outcome { rates, .. } = Flows { config, pairs, pieces: 4, us }.run();
    let sum: f64 = rates.iter().sum();
    let shares: Vec<f64> = rates.iter().map(|rate| rate / sum * 100.0).collect();
    println!("{pairs:?}: {shares:.1?} % of {sum:.1} MB/s, link {link:.1}");
    let is_near = shares.iter().zip(expected).all(|(of, expected)| (of - expected).abs() < 1.0);
    assert!(is_near, "{pairs:?}: {shares:.1?} %, not {expected:?}");
    assert!((sum / link - 1.0).abs() < 0.01, "{pairs:?}: {sum} MB/s on a link of {link}");
}

#[test]
fn a_flow_gets_more_or_less_of_a_link_than_its_input_port_is_due() {
    let bus = preset::pcie(20_000);
    for metres in [5, 200] {
        for network in [
            Config::new(4),
            other::qsnet2(4, bus),
            other::infiniband(4, other::Rate::Sdr, bus),
            other::infiniband(4, other::Rate::Qdr, bus),
        ] {
            let mut network = of_links_alone(network);
            network.fabric.cable = Duration::from_ns(5 * metres);
            // One switch: each sender has a port.
            check_shares(&network, &[[0, 3], [1, 3]], &[50.0; 2]);
            check_shares(&network, &[[0, 3], [1, 3], [2, 3]], &[33.3; 3]);
            // Switches with hosts 0 to 7, 8 to 15 and 16 to 23. All paths to host 8 from the others
            // lead through one upper switch, so they come by one port to the switch of host 8.
            network.nodes = 24;
            check_shares(&network, &[[0, 8], [1, 8]], &[50.0; 2]);
            check_shares(&network, &[[0, 8], [9, 8]], &[50.0; 2]);
            check_shares(&network, &[[0, 8], [9, 8], [10, 8]], &[33.3; 3]);
            check_shares(&network, &[[0, 8], [1, 8], [9, 8]], &[25.0, 25.0, 50.0]);
            check_shares(&network, &[[0, 8], [16, 8], [9, 8]], &[25.0, 25.0, 50.0]);
            // The upper switch has a port for each lower one.
            check_shares(&network, &[[0, 8], [1, 8], [16, 8]], &[25.0, 25.0, 50.0]);
        }
    }
}
