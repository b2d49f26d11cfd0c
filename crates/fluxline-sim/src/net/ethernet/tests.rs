//! The wire: times against closed forms and a reference, losses against what a queue can hold.

use std::collections::BTreeMap;

use fluxline_core::random::Draw;

use super::framing::{PREAMBLE_BYTES, datagram_slot_bytes, frame_bytes, part, parts, slot_bytes};
use super::link::Entry;
use super::{Config, Datagram, Faults, Forwarding, Network, Pause, Payload};
use crate::core::agenda::Agenda;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, Report};
use crate::load::traffic::Message;
use crate::{Duration, Instant};

/// A network with its agenda, and the ends of its datagrams.
struct Bench {
    network: Network,
    agenda: Agenda<Entry>,
    /// The time at which each datagram arrived, by its number.
    arrived: BTreeMap<u64, Instant>,
    /// Datagrams that were reported as lost.
    lost: u64,
    handled: u64,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let network = Network::new(config).expect("a right configuration");
        let arrived = BTreeMap::new();
        Bench { network, agenda: Agenda::default(), arrived, lost: 0, handled: 0 }
    }

    fn send(&mut self, number: u64, source: u32, to: u32, bytes: u32) {
        let message = Message { at: self.agenda.now(), source, to, bytes, event: number };
        let datagram = Datagram { source, target: to, payload: Payload::Message(message) };
        self.network.send(source, datagram, &mut self.agenda).expect("room");
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class } => {
                    while let Some(datagram) = self.network.take(node, class) {
                        assert_eq!(datagram.target, node);
                        let Payload::Message(message) = datagram.payload else { panic!("bytes") };
                        let again = self.arrived.insert(message.event, self.agenda.now());
                        assert_eq!(again, None, "datagram {} came twice", message.event);
                    }
                }
                Report::Lost { .. } | Report::Dropped { .. } => self.lost += 1,
                Report::Done { .. } | Report::Space { .. } => {}
            }
        }
        assert_eq!(self.network.take(0, Class::Response), None);
    }

    /// Handles all that is due by `until`.
    fn run(&mut self, until: Instant) {
        while let Some(entry) = self.agenda.take(until) {
            self.network.handle(entry, &mut self.agenda);
            self.follow();
            self.handled += 1;
            if self.handled.is_multiple_of(64) {
                self.network.conserve().expect("every frame is somewhere");
            }
        }
        self.network.conserve().expect("every frame is somewhere");
        self.agenda.idle_until(until);
    }
}

fn at(after: Duration) -> Instant {
    Instant::START + after
}

/// A network whose cards take everything at once.
fn deep(nodes: u32) -> Config {
    Config { send_queue_bytes: 1 << 40, ..Config::new(nodes) }
}

#[test]
fn a_frame_alone_takes_the_time_of_the_equation_to_the_picosecond() {
    for (bits_per_s, byte_ps) in
        [(1_000_000_000, 8000), (10_000_000_000, 800), (25_000_000_000, 320), (100_000_000_000, 80)]
    {
        for payload in [0, 1, 18, 19, 64, 1000, 1472] {
            let config = Config { bits_per_s, ..Config::new(3) };
            let frame = PREAMBLE_BYTES + frame_bytes(u64::from(payload) + 28);
            let fixed = config.cable.times(2) + config.switch_latency;
            let mut bench = Bench::new(config.clone());
            bench.send(0, 2, 1, payload);
            bench.run(at(Duration::from_us(10_000)));
            let stored = fixed + Duration::from_ps(byte_ps).times(2 * frame);
            assert_eq!(bench.arrived[&0], at(stored), "{payload} B at {bits_per_s} bit/s, stored");
            let mut bench =
                Bench::new(Config { forwarding: Forwarding::CutThrough, ..config.clone() });
            bench.send(0, 2, 1, payload);
            bench.run(at(Duration::from_us(10_000)));
            // The header of 14 bytes and its preamble, then the whole frame.
            let cut = fixed + Duration::from_ps(byte_ps).times(22 + frame);
            assert_eq!(
                bench.arrived[&0],
                at(cut),
                "{payload} B at {bits_per_s} bit/s, cut through"
            );
        }
    }
}

#[test]
fn a_stream_has_the_goodput_of_its_framing() {
    for mtu in [1500, 9000] {
        for payload in [18, 1000, mtu - 28, mtu - 27, 3 * mtu] {
            let config = Config { mtu, ..deep(2) };
            let byte_s = config.byte_time().as_ps() as f64 / 1e12;
            let mut bench = Bench::new(config.clone());
            let count = 2000;
            (0..count).for_each(|number| bench.send(number, 0, 1, payload));
            bench.run(at(Duration::from_us(1_000_000)));
            assert_eq!((bench.arrived.len() as u64, bench.lost), (count, 0));
            let took = bench.arrived[&(count - 1)].since(bench.arrived[&0]).as_ps() as f64 / 1e12;
            let goodput = (count - 1) as f64 * f64::from(payload) / took;
            let slot = datagram_slot_bytes(payload.into(), mtu.into()) as f64;
            let expected = f64::from(payload) / (slot * byte_s);
            assert!((goodput / expected - 1.0).abs() < 0.001, "{mtu}, {payload} B: {goodput}");
            if payload == mtu - 28 {
                assert!((goodput / config.goodput_bytes_per_s() - 1.0).abs() < 0.001);
            }
        }
    }
    // The known figure for frames of 1,518 bytes.
    assert!((Config::new(2).goodput_bytes_per_s() * 8.0 / 1e9 - 9.571).abs() < 0.001);
}

/// Sends `frames` frames of each of the other nodes to node 0, all at once.
fn incast(config: Config, frames: u64) -> Bench {
    let payload = config.mtu - 28;
    let nodes = config.nodes;
    let mut bench = Bench::new(config);
    for frame in 0..frames {
        for source in 1..nodes {
            bench.send(frame * u64::from(nodes) + u64::from(source), source, 0, payload);
        }
    }
    bench.run(at(Duration::from_us(3_000_000)));
    bench
}

#[test]
fn an_incast_loses_exactly_the_frames_that_the_queue_cannot_hold() {
    for forwarding in [Forwarding::StoreAndForward, Forwarding::CutThrough] {
        for (senders, frames, queue_frames) in
            [(1, 50, 1), (2, 100, 10), (2, 8, 10), (7, 40, 30), (31, 20, 340), (31, 20, 900)]
        {
            let queue_bytes = queue_frames * 1518 + 1517;
            let config = Config { queue_bytes, forwarding, ..deep(senders + 1) };
            let bench = incast(config, frames);
            let sent = u64::from(senders) * frames;
            // A frame leaves for each that a sender sends, but for the first.
            let kept = sent.min(queue_frames + frames - 1);
            assert_eq!(bench.arrived.len() as u64, kept, "{senders} x {frames}, {queue_frames}");
            let counters = bench.network.counters();
            assert_eq!((counters.ports[0].queue, counters.lost()), (sent - kept, sent - kept));
            assert_eq!(bench.lost, sent - kept, "each loss is reported");
        }
    }
}

#[test]
fn with_pause_frames_an_incast_loses_nothing_and_keeps_the_link_busy() {
    let mut seeds = Draw::new(7);
    for case in 0..24 {
        let senders = 1 + seeds.below(15) as u32;
        let mtu = [1500, 9000][seeds.below(2) as usize];
        let bits_per_s = [1_000_000_000, 10_000_000_000, 100_000_000_000][seeds.below(3) as usize];
        let forwarding =
            [Forwarding::StoreAndForward, Forwarding::CutThrough][seeds.below(2) as usize];
        let cable = Duration::from_ns(seeds.below(2000));
        let config = Config { mtu, bits_per_s, forwarding, cable, ..deep(senders + 1) };
        // As little as the equation allows, and a frame more for the queue to work with.
        let least = u64::from(senders) * config.headroom_bytes() + 2 * u64::from(mtu) + 40;
        let config = Config { queue_bytes: least, ..config };
        let pause = config.lossless_pause();
        assert!(pause.is_some());
        let bench = incast(Config { pause, ..config.clone() }, 100);
        let about = format!("case {case}: {config:?}");
        let sent = u64::from(senders) * 100;
        assert_eq!((bench.arrived.len() as u64, bench.lost), (sent, 0), "{about}");
        let slot = slot_bytes(frame_bytes(mtu.into()));
        let busy = config.byte_time().times(slot).times(sent).as_ps() as f64;
        let took = bench.arrived.values().max().expect("some").as_ps() as f64;
        assert!(took < busy * 1.6 + 1e8, "{about}: {took} ps for {busy}");
        if senders > 2 {
            assert!(bench.network.counters().pauses > 0, "{about}");
            let lossy = incast(config, 100);
            assert!(lossy.lost > 0 || sent * slot < least, "{about}: the queue was never full");
        }
    }
}

#[test]
fn a_pause_ends_by_itself_and_is_repeated_while_it_is_needed() {
    // 100 Mb/s: a pause ends after 0.34 s, and the queue takes longer than that to drain.
    let pause = Some(Pause { xoff_bytes: 6_000_000, xon_bytes: 10_000 });
    let config = Config { bits_per_s: 100_000_000, queue_bytes: 10_000_000, pause, ..deep(3) };
    let mut bench = Bench::new(config);
    for frame in 0..8_000 {
        bench.send(2 * frame, 1, 0, 1472);
        bench.send(2 * frame + 1, 2, 0, 1472);
    }
    bench.run(at(Duration::from_us(4_000_000)));
    assert_eq!((bench.arrived.len(), bench.lost), (16_000, 0));
    assert!(bench.network.counters().pauses > 4, "{}", bench.network.counters().pauses);
}

/// A frame of the reference, at the switch.
#[derive(Clone, Copy, Debug)]
struct AtSwitch {
    at_ps: u64,
    number: u64,
    to: u32,
    bytes: u64,
}

/// Returns the arrivals by the recursion of queues with one server: no agenda, no state but times.
fn reference(config: &Config, sends: &[(u64, Message)]) -> BTreeMap<u64, u64> {
    let byte = config.byte_time().as_ps();
    let cable = config.cable.as_ps();
    let mut at_switch = Vec::new();
    let mut card_free = vec![0; config.nodes as usize];
    let mut open = BTreeMap::new();
    for (number, message) in sends {
        let payload = u64::from(message.bytes);
        let count = parts(payload, config.mtu.into());
        open.insert(*number, count);
        for index in 0..count {
            let bytes = part(payload, config.mtu.into(), index).frame_bytes();
            let begins = message.at.as_ps().max(card_free[message.source as usize]);
            card_free[message.source as usize] = begins + byte * slot_bytes(bytes);
            let read = match config.forwarding {
                Forwarding::StoreAndForward => 8 + bytes,
                Forwarding::CutThrough => 22,
            };
            let at_ps = begins + byte * read + cable + config.switch_latency.as_ps();
            at_switch.push(AtSwitch { at_ps, number: *number, to: message.to, bytes });
        }
    }
    at_switch.sort_by_key(|frame| frame.at_ps);
    let mut arrived = BTreeMap::new();
    let mut port_free = vec![0; config.nodes as usize];
    let mut kept: Vec<(u32, u64, u64)> = Vec::new();
    for frame in at_switch {
        let AtSwitch { at_ps, number, to, bytes } = frame;
        let held = kept.iter().filter(|of| of.0 == to && of.1 > at_ps);
        if held.map(|of| of.2).sum::<u64>() + bytes > config.queue_bytes {
            continue;
        }
        let begins = at_ps.max(port_free[to as usize]);
        port_free[to as usize] = begins + byte * slot_bytes(bytes);
        let tail_leaves = begins + byte * (8 + bytes);
        kept.push((to, tail_leaves, bytes));
        let left = open.entry(number).or_default();
        *left -= 1;
        if *left == 0 {
            arrived.insert(number, tail_leaves + cable);
        }
    }
    arrived
}

#[test]
fn random_traffic_arrives_as_the_recursion_of_queues_says() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let nodes = 2 + draw.below(6) as u32;
        let forwarding =
            [Forwarding::StoreAndForward, Forwarding::CutThrough][draw.below(2) as usize];
        let queue_bytes = 3_000 + draw.below(20_000);
        let config = Config { forwarding, queue_bytes, ..deep(nodes) };
        let mut now = 0;
        let mut sends = Vec::new();
        for number in 0..600 {
            // Primes: no two frames meet at the same picosecond.
            now += draw.below(900_001) + 7;
            let source = draw.below(nodes.into()) as u32;
            let to = (source + 1 + draw.below(u64::from(nodes) - 1) as u32) % nodes;
            let bytes = [draw.below(64), draw.below(1500), draw.below(9000)][number as usize % 3];
            let at = Instant::from_ps(now);
            sends.push((number, Message { at, source, to, bytes: bytes as u32, event: number }));
        }
        let mut bench = Bench::new(config.clone());
        for (number, message) in &sends {
            bench.run(message.at);
            bench.send(*number, message.source, message.to, message.bytes);
        }
        bench.run(Instant::from_ps(now + 1_000_000_000_000));
        let found: BTreeMap<u64, u64> =
            bench.arrived.iter().map(|(number, at)| (*number, at.as_ps())).collect();
        assert_eq!(found, reference(&config, &sends), "{config:?}");
        assert_eq!(found.len() as u64 + bench.lost, 600);
    }
}

#[test]
fn wrong_bits_cost_as_many_frames_as_their_probability_says() {
    let faults = Faults { bit_error_rate: 1e-5, loss: 0.0 };
    for forwarding in [Forwarding::StoreAndForward, Forwarding::CutThrough] {
        let mut bench = Bench::new(Config { faults, forwarding, ..deep(2) });
        let count = 20_000;
        (0..count).for_each(|number| bench.send(number, 0, 1, 1472));
        bench.run(at(Duration::from_us(1_000_000)));
        let right: f64 = (1.0 - 1e-5_f64).powi(8 * 1518);
        let expected = count as f64 * right * right;
        let (found, sigma) = (bench.arrived.len() as f64, (count as f64 * 0.2 * 0.8).sqrt());
        assert!((found - expected).abs() < 5.0 * sigma, "{found}, expected {expected}");
        let [sender, receiver] = [0, 1].map(|node| bench.network.counters().ports[node]);
        match forwarding {
            Forwarding::StoreAndForward => assert!(sender.crc_at_switch > 1000),
            Forwarding::CutThrough => assert_eq!(sender.crc_at_switch, 0, "it does not look"),
        }
        assert!(receiver.crc_at_node > 1000);
        assert_eq!(bench.lost + bench.arrived.len() as u64, count);
    }
}

#[test]
fn a_cut_cable_loses_the_frames_on_it_and_for_it_and_works_again_after_its_repair() {
    let mut bench = Bench::new(deep(3));
    // A frame takes 1.2 us on each link, and the switch 1 us.
    for number in 0..100 {
        bench.send(number, 0, 1, 1472);
        bench.send(1000 + number, 2, 0, 1472);
    }
    bench.run(at(Duration::from_us(50)));
    let before = bench.arrived.len();
    assert!(bench.network.fault(FaultKind::Cable(1), &mut bench.agenda));
    bench.follow();
    bench.run(at(Duration::from_us(500)));
    assert_eq!(bench.arrived.keys().filter(|number| **number >= 1000).count(), 100);
    let lost = 100 - bench.arrived.keys().filter(|number| **number < 1000).count() as u64;
    assert!(before > 20 && lost > 20);
    assert_eq!(bench.network.counters().ports[1].cut, lost);
    bench.send(200, 1, 0, 1472);
    assert_eq!(bench.lost, lost + 1, "a card without a cable loses its frames");
    assert!(bench.network.fault(FaultKind::Repair(1), &mut bench.agenda));
    bench.send(201, 0, 1, 1472);
    bench.send(202, 1, 0, 1472);
    bench.run(at(Duration::from_us(1000)));
    assert!(bench.arrived.contains_key(&201) && bench.arrived.contains_key(&202));
}

#[test]
fn whatever_fails_each_datagram_ends_once_and_no_frame_disappears() {
    let mut delivered = 0;
    for seed in 0..40 {
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let nodes = 3 + draw.below(4) as u32;
        let faults = Faults { bit_error_rate: [0.0, 1e-5][draw.below(2) as usize], loss: 0.01 };
        let xoff_bytes = 20_000 + draw.below(20_000);
        let pause = draw.chance(0.5).then_some(Pause { xoff_bytes, xon_bytes: xoff_bytes / 2 });
        let forwarding =
            [Forwarding::StoreAndForward, Forwarding::CutThrough][draw.below(2) as usize];
        let base = deep(nodes);
        let mut bench =
            Bench::new(Config { faults, pause, forwarding, seed, queue_bytes: 60_000, ..base });
        let mut now = Instant::START;
        for number in 0..1500 {
            now += Duration::from_ns(draw.below(1500));
            bench.run(now);
            let node = draw.below(nodes.into()) as u32;
            let kind = match draw.below(60) {
                0 => FaultKind::Cable(node),
                1 => FaultKind::Repair(node),
                2 => FaultKind::Power(node),
                3 => FaultKind::Restart(node),
                4 => FaultKind::Host(node),
                _ => FaultKind::Repair(u32::MAX),
            };
            assert_eq!(bench.network.fault(kind, &mut bench.agenda), kind.node() != u32::MAX);
            bench.follow();
            let to = (node + 1 + draw.below(u64::from(nodes) - 1) as u32) % nodes;
            bench.send(number, node, to, draw.below(4000) as u32);
        }
        for node in 0..nodes {
            bench.network.fault(FaultKind::Restart(node), &mut bench.agenda);
            bench.network.fault(FaultKind::Repair(node), &mut bench.agenda);
        }
        bench.run(now + Duration::from_us(10_000_000));
        assert_eq!(bench.arrived.len() as u64 + bench.lost, 1500);
        delivered += bench.arrived.len();
    }
    assert!(delivered > 40 * 100, "{delivered} of 60,000");
}
