//! The speed of connections in virtual time on links of known speed: through a bottleneck, with
//! other senders, with loss, at a configured rate, and to a receiver that does not poll.

use crate::support::frames::packets;
use crate::support::ports::Tight;
use crate::support::{KEY, LossyNode, Raw, World, address, config, connected, lossy_node, name};
use fluxline_core::Span;
use fluxline_core::endpoint::{EndpointConfig, Node, StaticPeer, StaticRegion};
use fluxline_core::fabric::{
    EndpointId, Fabric, Grant, Level, Local, Reliability, RemoteId, Rights, Slice, Target, Work,
};
use fluxline_core::port::Port;
use fluxline_core::port::lossy::Faults;
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::roce::{Body, Headers, Psn, QueuePair, Reth, Transport, WritePart};

const FRAME_BYTES: usize = 4096;
const PUT_BYTES: u64 = 65_536;
const MB: u64 = 1_000_000;

/// A link of 1 GB/s and 20 us each way. Its queue marks frames when it is more than an eighth full.
fn link(rate: u64) -> Faults {
    let queue_bytes = 400_000;
    let mark_bytes = queue_bytes / 8;
    Faults { rate, queue_bytes, mark_bytes, delay: Span::from_ns(20_000), ..Faults::default() }
}

/// Many senders that write to node 0.
struct Many {
    world: World<fluxline_core::port::lossy::Lossy<NetworkPort>>,
    ends: Vec<(EndpointId, RemoteId)>,
    own: Vec<EndpointId>,
    sent: Vec<u64>,
}

fn many(senders: u8, faults: Faults, change: impl Fn(&mut EndpointConfig) + Copy) -> Many {
    let network = Network::new();
    let free = Faults { delay: faults.delay, ..Faults::default() };
    let mut nodes = vec![lossy_node(&network, 1, (FRAME_BYTES, faults, 7), change)];
    let sender = |number| lossy_node(&network, number + 2, (FRAME_BYTES, free, 7), change);
    nodes.extend((0..senders).map(sender).collect::<Vec<LossyNode>>());
    let mut world = World::new(nodes);
    world.step = Span::from_ns(2_000);
    let region = world.nodes[0].register(PUT_BYTES).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    world.nodes[0].export(region, name("x"), grant).expect("free");
    let (mut ends, mut own) = (Vec::new(), Vec::new());
    for place in 1..=usize::from(senders) {
        let to = address(1).to_string();
        let end = world.nodes[place].connect(&to, Reliability::Reliable).expect("reachable");
        world.wait(place, 100, connected);
        own.push(world.wait(0, 100, connected));
        ends.push((end, world.import(place, end, "x", KEY)));
        world.nodes[place].register(PUT_BYTES).expect("memory");
    }
    Many { world, sent: vec![0; ends.len()], ends, own }
}

impl Many {
    /// Lets all senders write as fast as they may.
    fn run(&mut self, ms: u64) {
        let until = self.world.now + Span::from_ms(ms);
        while self.world.now < until {
            for (place, (end, remote)) in self.ends.iter().enumerate() {
                let region = fluxline_core::fabric::RegionId(0);
                let from = Local::Region(Slice { region, offset: 0, bytes: PUT_BYTES });
                let (to, complete_at) =
                    (Target { remote: *remote, offset: 0 }, Some(Level::Placed));
                let work = Work::Put { from, to, notify: None, complete_at };
                // A few at a time keep the window full.
                while self.sent[place] < self.done(place) + 32 {
                    self.world.nodes[place + 1].post(*end, 1, work).expect("room");
                    self.sent[place] += 1;
                }
            }
            self.world.turn();
        }
    }

    fn done(&self, place: usize) -> u64 {
        self.world.completions[place + 1].len() as u64
    }

    fn placed(&self) -> Vec<u64> {
        let counters = self.own.iter().map(|&of| self.world.nodes[0].connection_counters(of));
        counters.map(|of| of.expect("open").payload_placed).collect()
    }

    /// Returns the rate of each sender over `ms` milliseconds, after it has found its speed
    /// \[byte/s\].
    fn rates(&mut self, warm_ms: u64, ms: u64) -> Vec<f64> {
        self.run(warm_ms);
        let before = self.placed();
        self.run(ms);
        let grown = self.placed().into_iter().zip(before).map(|(after, before)| after - before);
        grown.map(|bytes| bytes as f64 * 1000.0 / ms as f64).collect()
    }

    fn repeated_share(&self) -> f64 {
        let (mut repeated, mut sent) = (0, 0);
        for (place, &(end, _)) in self.ends.iter().enumerate() {
            let counters = self.world.nodes[place + 1].connection_counters(end).expect("open");
            repeated += counters.frames_repeated;
            sent += counters.frames_sent;
        }
        repeated as f64 / sent as f64
    }
}

#[test]
fn a_bottleneck_that_marks_is_filled_and_drops_little() {
    for rate in [200 * MB, 1000 * MB] {
        let mut one = many(1, link(rate), |_| {});
        let rates = one.rates(20, 50);
        let befell = one.world.nodes[0].port().faults();
        println!("rate {rate}: {rates:?}, {befell:?}, repeated {}", one.repeated_share());
        assert!(rates[0] >= 0.85 * rate as f64);
        assert!(one.repeated_share() < 0.01);
    }
}

#[test]
fn connections_through_one_bottleneck_share_it() {
    for senders in [2, 4] {
        let rate = 500 * MB;
        let mut many = many(senders, link(rate), |_| {});
        let rates = many.rates(100, 100);
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let jain = sum * sum / (rates.len() as f64 * squares);
        let befell = many.world.nodes[0].port().faults();
        println!("{rates:?}: fair {jain:.3}, {befell:?}, repeated {}", many.repeated_share());
        assert!(jain >= 0.9, "Jain's index {jain}");
        assert!(sum >= 0.85 * rate as f64, "{sum}");
    }
}

#[test]
fn one_lost_of_a_hundred_costs_less_than_a_quarter() {
    let clean = many(1, link(1000 * MB), |_| {}).rates(20, 50)[0];
    for drop in [0.001, 0.01] {
        let mut one = many(1, Faults { drop, ..link(1000 * MB) }, |_| {});
        let rate = one.rates(20, 50)[0];
        println!("{drop} lost: {rate:.0} of {clean:.0} byte/s; {}", one.repeated_share());
        assert!(rate >= 0.75 * clean, "{rate} of {clean}");
    }
}

#[test]
fn a_connection_keeps_to_the_rate_that_was_asked_for() {
    for (rate, frame_bytes) in [(50 * MB, 4096), (400 * MB, 4096), (900 * MB, 256)] {
        let paced = move |config: &mut EndpointConfig| {
            config.bytes_per_s = rate;
            config.frame_bytes_max = frame_bytes;
        };
        let free = Faults { delay: Span::from_ns(20_000), ..Faults::default() };
        let mut one = many(1, free, paced);
        one.run(20);
        let before = one.world.nodes[1].port().counters().bytes_sent;
        let at = one.world.now;
        one.run(50);
        let took = one.world.now.since(at).as_ns() as f64 / 1e9;
        let bytes = one.world.nodes[1].port().counters().bytes_sent - before;
        let found = bytes as f64 / took;
        println!("asked for {rate}, found {found:.0} byte/s");
        assert!((found / rate as f64 - 1.0).abs() < 0.03);
    }
}

// ---- a receiver that does not look ----

type TightNode = Node<Tight<NetworkPort>>;

fn tight(network: &Network, number: u8, buffer: usize, frame_cost: usize) -> TightNode {
    let port = Tight::new(network.port(address(number), 1472), buffer, frame_cost);
    Node::new(port, config(number, |_| {}))
}

#[test]
fn a_receiver_that_does_not_look_for_a_while_is_not_overrun() {
    for (senders, frame_cost) in [(1_u8, 0), (1, 768), (3, 768)] {
        let network = Network::new();
        let buffer = 200_000;
        let mut nodes = vec![tight(&network, 1, buffer, frame_cost)];
        nodes.extend((0..senders).map(|of| tight(&network, of + 2, 1 << 22, frame_cost)));
        let mut world = World::new(nodes);
        let region = world.nodes[0].register(1 << 20).expect("memory");
        let grant = Grant { rights: Rights::PUT, key: KEY };
        world.nodes[0].export(region, name("x"), grant).expect("free");
        let mut ends = Vec::new();
        for place in 1..=usize::from(senders) {
            let to = address(1).to_string();
            let end = world.nodes[place].connect(&to, Reliability::Reliable).expect("reachable");
            world.wait(place, 100, connected);
            ends.push((place, end, world.import(place, end, "x", KEY)));
        }
        let data = vec![1; 100_000];
        let mut tag = 0;
        // Frames that are sent after each silence are not counted: many senders send some each
        // second.
        let pauses = [0, 500, 5_000, 50_000, 1_000_000];
        for &pause_us in &pauses[..if senders == 1 { 5 } else { 4 }] {
            world.asleep[0] = true;
            for _ in 0..5 {
                for &(place, end, remote) in &ends {
                    world.post(place, end, tag, crate::support::put(&data, remote, 0, None));
                    tag += 1;
                }
            }
            let until = world.now + Span::from_ns(pause_us * 1000);
            while world.now < until {
                world.turn();
                let now = world.now;
                world.nodes[0].port().arrive(now);
            }
            world.asleep[0] = false;
            let done =
                |world: &World<_>| world.completions[1..].iter().map(Vec::len).sum::<usize>();
            world.until(5000, |world| done(world) == tag as usize);
        }
        let port = world.nodes[0].port();
        println!(
            "{senders} senders: at most {} of {buffer} byte, {} dropped",
            port.held_bytes_max_seen, port.dropped
        );
        assert_eq!(port.counters().frames_dropped, 0);
        for &(place, end, _) in &ends {
            let counters = world.nodes[place].connection_counters(end).expect("open");
            println!("{} sent, {} repeated", counters.frames_sent, counters.frames_repeated);
        }
    }
}

/// A card sends a burst through a bottleneck that marks frames; returns the times \[us\] of the
/// congestion notifications that it gets, and the frames that were marked.
fn notifications(peer_pair: u32) -> (Vec<u64>, u64) {
    const KEY: u32 = 7;
    const OWN_PAIR: u32 = 0x0011_0005;
    let network = Network::new();
    // 100 MB/s: a frame of 1 KiB takes 10 us.
    let faults = Faults { rate: 100_000_000, mark_bytes: 4000, ..Faults::default() };
    let mut node = lossy_node(&network, 2, (4200, faults, 1), |_| {});
    let mut raw = Raw::new(&network, address(1), address(2));
    let region = node.register(4096).expect("memory");
    let peer = StaticPeer {
        name: "card".into(),
        address: address(1),
        source_port: None,
        own_pair: QueuePair::new(OWN_PAIR),
        peer_pair: QueuePair::new(peer_pair),
        reliability: Reliability::Unreliable,
        peer_first: None,
        own_first: Psn::new(0),
        path_mtu: 1024,
        regions: vec![StaticRegion { region, key: KEY, base: 0, rights: Rights::PUT }],
        remotes: vec![],
    };
    let mut world = World::new(vec![node]);
    let (began, endpoint) = (world.now, world.nodes[0].add_static(&peer, world.now));
    for psn in 0..200 {
        let reth = Reth { address: 0, key: KEY, bytes: 1024 };
        let body = Body::Write(Transport::Unreliable, WritePart::Only(reth, None));
        raw.packet(Headers::new(QueuePair::new(OWN_PAIR), Psn::new(psn), body), &[1; 1024]);
    }
    let mut times = Vec::new();
    for _ in 0..400 {
        world.turn();
        for (headers, _) in packets(&raw.received()) {
            assert_eq!(headers.body, Body::CongestionNotification);
            assert!(headers.backward_congestion && headers.destination.get() == peer_pair);
            times.push(world.now.since(began).as_ns() / 1000);
        }
    }
    let counters = world.nodes[0].connection_counters(endpoint.expect("legal")).expect("open");
    assert_eq!(counters.notifications_sent, times.len() as u64);
    (times, counters.frames_marked)
}

#[test]
fn a_card_whose_frames_are_marked_is_notified_once_in_50_us() {
    let (times, marked) = notifications(0x0022_0006);
    assert!(marked > 100, "{marked} frames of 200 are marked");
    // About 1.9 ms of marks: 38 notifications fit in.
    assert!((20..=40).contains(&times.len()), "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 50), "{times:?}");
}

#[test]
fn a_sender_without_a_queue_pair_is_not_notified() {
    let (times, marked) = notifications(0);
    assert!(marked > 100 && times.is_empty(), "{times:?}");
}
