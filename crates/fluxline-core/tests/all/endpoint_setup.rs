//! The beginning of connections: with loss, on paths that drop long frames, with peers of another
//! size or version, and with peers that are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::frames::{self, OFFER, read_accept, read_hello, read_retry, setup_kind};
use crate::support::ports::Filter;
use crate::support::script::{Joint, REGION_BYTES, run};
use crate::support::{
    KEY, Raw, STEP, World, address, bad, config, connected, lossy_node, name, put,
};
use fluxline_core::Span;
use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Operation, Reliability, Rights, Status,
};
use fluxline_core::port::lossy::Faults;
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::random::{test_count, test_seed};

/// `SEED` in the environment repeats one script, `COUNT` sets how many are run.
#[test]
fn nodes_that_connect_to_each_other_at_once_over_a_lossy_path_have_two_connections() {
    let faults = Faults { drop: 0.3, duplicate: 0.3, reorder: 0.3, ..bad(0) };
    let first = test_seed!(1);
    for seed in first..first + test_count!(20) {
        println!("SEED={seed} COUNT=1");
        let network = Network::new();
        let node = |number| lossy_node(&network, number, (1472, faults, seed), |_| {});
        let mut world = World::new(vec![node(1), node(2)]);
        let one = world.nodes[0].connect("10.0.0.2", Reliability::Reliable).expect("reachable");
        let other = world.nodes[1].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
        // Late frames must not make a third connection.
        world.run(1000);
        for (node, own) in [(0, one), (1, other)] {
            let ends: Vec<_> = world.completions[node].iter().filter_map(connected).collect();
            assert_eq!(ends.len(), 2, "{:?}", world.completions[node]);
            assert!(ends.contains(&own) && world.completions[node].len() == 2);
        }
        let theirs = world.completions[1].iter().filter_map(connected).find(|&of| of != other);
        let (_, remote) = world.share((1, 0), one, "x", 100);
        world.post(0, one, 5, put(&[1; 50], remote, 0, Some(1)));
        assert_eq!(world.done(0, 5), (Operation::Put, Status::Done, 0));
        // A late hello of an ended connection makes none either.
        world.nodes[0].disconnect(one).expect("open");
        assert_eq!(world.broken(1, theirs.expect("two"), 2000), Status::Disconnected);
        world.completions[1].clear();
        world.run(500);
        assert_eq!(world.completions[1].iter().filter_map(connected).count(), 0);
    }
}

/// A port that lets in only frames up to a length.
type Narrow = Filter<NetworkPort>;

fn narrow(network: &Network, number: u8, frame_bytes: usize, longest: usize) -> Node<Narrow> {
    let inner = network.port(address(number), frame_bytes);
    let keep =
        Box::new(move |frame: &fluxline_core::port::Incoming<'_>| frame.bytes.len() <= longest);
    Node::new(Filter { inner, keep }, config(number, |_| {}))
}

fn work_both_ways(nodes: Vec<Node<Narrow>>, reliability: Reliability, ms: u64) {
    let mut world = World::new(nodes);
    let began = world.now;
    let (left, right) = world.connect((0, 1), address(2), reliability);
    assert!(world.now.since(began) < Span::from_ms(ms), "took {}", world.now.since(began));
    let (there, to_right) = world.share((1, 0), left, "x", 100_000);
    let (here, to_left) = world.share((0, 1), right, "y", 100_000);
    let data: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    world.post(0, left, 5, put(&data, to_right, 0, None));
    world.post(1, right, 6, put(&data, to_left, 0, None));
    assert_eq!(world.done(0, 5), (Operation::Put, Status::Done, 0));
    assert_eq!(world.done(1, 6), (Operation::Put, Status::Done, 0));
    world.run(5);
    assert!(world.bytes(1, there, 0, 100_000) == data, "to the right");
    assert!(world.bytes(0, here, 0, 100_000) == data, "to the left");
}

#[test]
fn a_path_that_swallows_long_frames_gets_shorter_ones() {
    for longest in [8972, 8960, 5000, 4200, 1480, 1460, 1240, 972] {
        for (there, back) in [(longest, longest), (longest, 9000), (9000, longest)] {
            for reliability in [Reliability::Reliable, Reliability::Unreliable] {
                println!("there {there}, back {back}, {reliability:?}");
                let network = Network::new();
                let left = narrow(&network, 1, 8972, back);
                let right = narrow(&network, 2, 8972, there);
                work_both_ways(vec![left, right], reliability, 1000);
            }
        }
    }
}

/// A connected pair, and the length that its path takes from now on.
fn on_a_path(longest: usize) -> (World<Narrow>, EndpointId, Arc<AtomicUsize>) {
    let (network, now) = (Network::new(), Arc::new(AtomicUsize::new(longest)));
    let node = |number| {
        let (inner, now) = (network.port(address(number), 8972), Arc::clone(&now));
        let keep = Box::new(move |frame: &fluxline_core::port::Incoming<'_>| {
            frame.bytes.len() <= now.load(Ordering::Relaxed)
        });
        let death = Span::from_s(12); // as the links have it
        Node::new(Filter { inner, keep }, config(number, |config| config.death = death))
    };
    let mut world = World::new(vec![node(1), node(2)]);
    let (left, _) = world.connect((0, 1), address(2), Reliability::Reliable);
    (world, left, now)
}

#[test]
fn a_path_that_is_down_for_three_seconds_ends_the_connection() {
    let (mut world, left, longest) = on_a_path(8972);
    let (_, remote) = world.share((1, 0), left, "x", 100_000);
    longest.store(0, Ordering::Relaxed);
    world.post(0, left, 5, put(&[7; 50_000], remote, 0, None));
    world.run(3000);
    longest.store(8972, Ordering::Relaxed);
    assert_eq!(world.done(0, 5), (Operation::Put, Status::Done, 0));
}

#[test]
fn a_path_whose_mtu_shrinks_is_not_named_as_the_cause() {
    let (mut world, left, longest) = on_a_path(8972);
    let (_, remote) = world.share((1, 0), left, "x", 100_000);
    longest.store(1272, Ordering::Relaxed);
    world.post(0, left, 5, put(&[7; 50_000], remote, 0, None));
    assert_eq!(world.broken(0, left, 20_000), Status::PathShrunk);
    // Connected again, both use what the path takes now.
    let (left, _) = world.connect((0, 1), address(2), Reliability::Reliable);
    let (_, remote) = world.share((1, 0), left, "y", 100_000);
    world.post(0, left, 6, put(&[7; 50_000], remote, 0, None));
    assert_eq!(world.done(0, 6), (Operation::Put, Status::Done, 0));
}

#[test]
fn peers_of_different_frame_sizes_use_the_smaller_one() {
    for (one, other) in [(8972, 1472), (1472, 8972), (65_000, 1240), (256, 8972)] {
        let network = Network::new();
        let left = narrow(&network, 1, one, one);
        let right = narrow(&network, 2, other, other);
        work_both_ways(vec![left, right], Reliability::Reliable, 1000);
    }
}

/// The acceptor writes at once, and the path back drops frames as long as the first hello.
#[test]
fn work_posted_before_the_caller_knows_the_frame_size_is_not_stuck() {
    let network = Network::new();
    let left = narrow(&network, 1, 8972, 2000);
    let right = narrow(&network, 2, 8972, 9000);
    let mut world = World::new(vec![left, right]);
    let left = world.nodes[0].connect("10.0.0.2", Reliability::Reliable).expect("reachable");
    let right = world.wait(1, 1000, connected);
    world.completions[0].retain(|what| connected(what).is_none());
    let own = world.nodes[0].register(50_000).expect("memory");
    let data = vec![3; 50_000];
    world.post(1, right, 7, crate::support::message(&data));
    world.post(1, right, 8, fluxline_core::fabric::Work::Flush);
    assert_eq!(world.wait(0, 1000, connected), left);
    let slice = fluxline_core::fabric::Slice { region: own, offset: 0, bytes: 50_000 };
    world.nodes[0].post_receive(left, 1, slice).expect("room");
    assert_eq!(world.done(1, 7), (Operation::Send, Status::Done, 0));
    assert_eq!(world.done(1, 8), (Operation::Flush, Status::Done, 0));
    assert!(world.bytes(0, own, 0, 50_000) == data);
}

fn one_node(change: impl FnOnce(&mut EndpointConfig)) -> (Raw, World<NetworkPort>) {
    let network = Network::new();
    let node = Node::new(network.port(address(2), 1472), config(2, change));
    let raw = Raw::new(&network, address(1), address(2));
    (raw, World::new(vec![node]))
}

fn answers(raw: &mut Raw, world: &mut World<NetworkPort>) -> Vec<Vec<u8>> {
    world.turn();
    raw.received()
}

#[test]
fn another_version_is_refused_and_the_caller_told_so() {
    let (mut raw, mut world) = one_node(|_| {});
    raw.sealed(&frames::hello(2, (9, 0), OFFER, 0));
    let refused = answers(&mut raw, &mut world);
    assert_eq!(refused.len(), 1);
    assert_eq!(setup_kind(&refused[0]), Some(4));
    assert_eq!(world.nodes[0].counters().refused, 1);
    // The node calls, and the raw peer refuses with the same frame.
    let endpoint = world.nodes[0].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
    let hello = answers(&mut raw, &mut world);
    let (nonce, _, _) = read_hello(&hello[0]);
    let mut words = refused[0].clone();
    words[14..22].copy_from_slice(&nonce.to_le_bytes());
    raw.sealed(&words);
    assert_eq!(world.broken(0, endpoint, 100), Status::Version);
}

#[test]
fn whoever_finds_no_room_is_told_so() {
    let network = Network::new();
    let node = |number| {
        let small = |config: &mut EndpointConfig| config.endpoints_max = 1;
        lossy_node(&network, number, (1472, bad(0), 1), small)
    };
    let mut world = World::new(vec![node(1), node(2), node(3)]);
    let (left, right) = world.connect((0, 1), address(2), Reliability::Reliable);
    let late = world.nodes[2].connect("10.0.0.2", Reliability::Reliable).expect("reachable");
    assert_eq!(world.broken(2, late, 1000), Status::NoRoom);
    assert_eq!(world.nodes[1].counters().refused, 1);
    // The first connection is over, so there is room.
    world.nodes[0].disconnect(left).expect("open");
    assert_eq!(world.broken(1, right, 100), Status::Disconnected);
    world.run(10);
    world.connect((2, 1), address(2), Reliability::Reliable);
}

#[test]
fn one_address_does_not_take_the_room_of_others() {
    let network = Network::new();
    let limits = |config: &mut EndpointConfig| {
        config.endpoints_max = 8;
        config.endpoints_per_address_max = 3;
    };
    let node = Node::new(network.port(address(2), 1472), config(2, limits));
    let mut world = World::new(vec![node]);
    for number in 0..20 {
        let from = std::net::SocketAddr::from(([10, 0, 0, 1], 5000 + number));
        let mut raw = Raw::new(&network, from, address(2));
        raw.sealed(&frames::hello(1, (5, 0), OFFER, 0));
        let cookie = read_retry(&answers(&mut raw, &mut world)[0]);
        raw.sealed(&frames::hello(1, (5, cookie), OFFER, 1472));
        let kind = setup_kind(&answers(&mut raw, &mut world)[0]);
        assert_eq!(kind, Some(if number < 3 { 3 } else { 4 }), "{number}");
    }
    assert_eq!(world.nodes[0].counters().refused, 17);
    let mut honest = Raw::new(&network, address(9), address(2));
    shake(&mut honest, &mut world, 5);
}

/// Returns the number of keys that are checked within `ms`, when a peer shows another each 10 ms.
fn guessed(world: &mut World<NetworkPort>, raw: &mut Raw, pair: u32, ms: u64) -> u64 {
    for step in 0..ms / 10 {
        raw.sealed(&frames::import(pair, step as u32, step, "ring"));
        world.run(10);
        raw.received();
    }
    world.nodes[0].counters().keys_wrong
}

#[test]
fn who_guesses_keys_waits_and_others_do_not() {
    let network = Network::new();
    let node = Node::new(network.port(address(2), 1472), config(2, |_| {}));
    let mut world = World::new(vec![node]);
    world.step = Span::from_ms(1);
    let ring = world.nodes[0].register(64).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    world.nodes[0].export(ring, name("ring"), grant).expect("free");
    let mut guesser = Raw::new(&network, address(66), address(2));
    let (_, pair, _) = shake(&mut guesser, &mut world, 5);
    let wrong = guessed(&mut world, &mut guesser, pair, 20_000);
    assert!((5..20).contains(&wrong), "{wrong} keys in 20 s");
    assert!(world.nodes[0].counters().keys_put_off > 1000);
    // Even the right key is ignored now; another address does not wait.
    guesser.sealed(&frames::import(pair, 9, KEY.0, "ring"));
    assert_eq!(answers(&mut guesser, &mut world), Vec::<Vec<u8>>::new());
    let mut honest = Raw::new(&network, address(9), address(2));
    let (_, pair, _) = shake(&mut honest, &mut world, 6);
    honest.sealed(&frames::import(pair, 1, KEY.0, "ring"));
    frames::read_imported(&answers(&mut honest, &mut world)[0]);
}

#[test]
fn a_region_for_one_has_one_user_until_its_owner_admits_the_next() {
    let (mut raw, mut world) = one_node(|_| {});
    let ring = world.nodes[0].register(64).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    world.nodes[0].export(ring, name("ring"), grant).expect("free");
    world.nodes[0].admit_one(ring).expect("own");
    let (_, first, _) = shake(&mut raw, &mut world, 5);
    let (_, second, _) = shake(&mut raw, &mut world, 6);
    let mut status = |pair, key: u64| {
        raw.sealed(&frames::import(pair, 1, key, "ring"));
        let status = answers(&mut raw, &mut world)[0][frames::BASE + 1];
        world.run(200);
        raw.received();
        (status, world.nodes[0].importer(ring).is_some())
    };
    let (done, wrong_key, no_room) = (0, 2, 11);
    assert_eq!(status(first, 7), (wrong_key, false), "a wrong key admits nobody");
    assert_eq!(status(second, KEY.0), (done, true));
    assert_eq!(status(second, KEY.0), (done, true), "asked again, since the answer was lost");
    assert_eq!(status(first, KEY.0), (no_room, true));
    assert_eq!(status(first, 7), (wrong_key, true), "whether it is in use is told to none without");
}

#[test]
fn an_address_that_is_not_allowed_gets_no_answer_and_is_counted() {
    let network = Network::new();
    let node = |number| {
        let change = |config: &mut EndpointConfig| {
            config.death = Span::from_ms(200);
            config.allowed = vec![(address(9).ip(), 32)];
        };
        lossy_node(&network, number, (1472, Faults::default(), 1), change)
    };
    let mut world = World::new(vec![node(1), node(2)]);
    let endpoint = world.nodes[0].connect("10.0.0.2", Reliability::Reliable).expect("reachable");
    assert_eq!(world.broken(0, endpoint, 1000), Status::PeerGone);
    assert!(world.nodes[1].counters().not_allowed >= 3);
    assert_eq!(world.completions[1], []);
    let mut raw = Raw::new(&network, address(7), address(2));
    raw.sealed(&frames::goodbye(0x4242, 5));
    world.turn();
    assert_eq!(raw.received(), Vec::<Vec<u8>>::new(), "not even a farewell");
}

#[test]
fn a_hello_without_its_cookie_keeps_nothing_however_many_come() {
    let network = Network::new();
    let node = Node::new(network.port(address(2), 1472), config(2, |_| {}));
    let mut world = World::new(vec![node]);
    let mut draw = fluxline_core::random::Draw::new(test_seed!(1));
    for round in 0..40_u64 {
        for number in 0..100 {
            let from = std::net::SocketAddr::from((
                [10, 9, draw.below(256) as u8, draw.below(256) as u8],
                1024 + number,
            ));
            let mut raw = Raw::new(&network, from, address(2));
            let cookie = draw.bits() * (round % 2);
            raw.sealed(&frames::hello(1, (draw.bits(), cookie), OFFER, 1472));
        }
        world.turn();
    }
    assert_eq!(world.completions[0], []);
    assert_eq!(world.nodes[0].counters().cookies_sent, 4000);
    // No room is used.
    for _ in 0..256 {
        world.nodes[0].connect("10.0.0.1", Reliability::Reliable).expect("room");
    }
}

/// Does a handshake by hand; returns the node's queue pair and PSN.
fn shake(raw: &mut Raw, world: &mut World<NetworkPort>, nonce: u64) -> (Vec<u8>, u32, u32) {
    raw.sealed(&frames::hello(1, (nonce, 0), OFFER, 0));
    let cookie = read_retry(&answers(raw, world)[0]);
    let hello = frames::hello(1, (nonce, cookie), OFFER, 1472);
    raw.sealed(&hello);
    let (pair, psn) = read_accept(&answers(raw, world)[0]);
    (hello, pair, psn)
}

#[test]
fn a_hello_that_is_played_again_makes_no_second_connection() {
    let (mut raw, mut world) = one_node(|_| {});
    let (hello, pair, psn) = shake(&mut raw, &mut world, 77);
    for _ in 0..10 {
        raw.sealed(&hello);
        assert_eq!(read_accept(&answers(&mut raw, &mut world)[0]), (pair, psn), "the same");
    }
    assert_eq!(world.completions[0].iter().filter_map(connected).count(), 1);
    raw.sealed(&frames::goodbye(pair, OFFER.pair));
    answers(&mut raw, &mut world);
    for _ in 0..10 {
        raw.sealed(&hello);
        let refused = answers(&mut raw, &mut world);
        assert_eq!(setup_kind(&refused[0]), Some(4), "it is over");
    }
    assert_eq!(world.completions[0].iter().filter_map(connected).count(), 1);
    // The cookie is valid for that address only.
    let network_of_another = frames::hello(1, (78, read_hello_cookie(&hello)), OFFER, 1472);
    raw.sealed(&network_of_another);
    assert_eq!(setup_kind(&answers(&mut raw, &mut world)[0]), Some(2), "another nonce");
}

fn read_hello_cookie(frame: &[u8]) -> u64 {
    u64::from_le_bytes(frame[24..32].try_into().expect("8 byte"))
}

#[test]
fn strangers_neither_accept_nor_end_a_connection() {
    let network = Network::new();
    let node = Node::new(network.port(address(2), 1472), config(2, |_| {}));
    let mut raw = Raw::new(&network, address(1), address(2));
    let mut stranger = Raw::new(&network, address(66), address(2));
    let mut world = World::new(vec![node]);
    let (_, pair, _) = shake(&mut raw, &mut world, 5);
    let calling = world.nodes[0].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
    let (nonce, own_pair, _) = read_hello(&answers(&mut raw, &mut world)[0]);
    world.completions[0].clear();
    stranger.sealed(&frames::accept(nonce, OFFER));
    for to in [pair, own_pair] {
        stranger.sealed(&frames::goodbye(to, OFFER.pair));
    }
    raw.sealed(&frames::accept(nonce + 1, OFFER));
    world.run(1);
    assert_eq!(world.completions[0], []);
    assert_eq!(world.nodes[0].counters().wrong_sender, 1);
    raw.sealed(&frames::accept(nonce, OFFER));
    assert_eq!(world.wait(0, 1, connected), calling);
}

/// A peer that asks for frames of no length must not cause a division by zero or an endless loop.
#[test]
fn an_offer_of_frames_too_short_for_anything_is_not_taken() {
    for frame_bytes in [0, 16, 64, 127] {
        let (mut raw, mut world) = one_node(|_| {});
        let offer = frames::Offer { frame_bytes, ..OFFER };
        raw.sealed(&frames::hello(1, (5, 0), offer, 0));
        let cookie = read_retry(&answers(&mut raw, &mut world)[0]);
        for (of, whole) in [(offer, 1472), (OFFER, 0)] {
            raw.sealed(&frames::hello(1, (5, cookie), of, whole));
            assert_eq!(answers(&mut raw, &mut world), Vec::<Vec<u8>>::new());
        }
        assert_eq!(world.completions[0], []);
        world.nodes[0].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
        let (nonce, _, _) = read_hello(&answers(&mut raw, &mut world)[0]);
        raw.sealed(&frames::accept(nonce, offer));
        world.turn();
        assert_eq!(world.completions[0], []);
    }
}

/// Returns a secret with which the first PSN of a node's first connection is near the wrap.
fn secret_near_the_wrap() -> [u8; 16] {
    let network = Network::new();
    let mut raw = Raw::new(&network, address(1), address(2));
    for number in 0..200_000_u32 {
        let mut secret = [0; 16];
        secret[..4].copy_from_slice(&number.to_le_bytes());
        let change = |config: &mut EndpointConfig| config.secret = secret;
        let mut node = Node::new(network.port(address(2), 300), config(2, change));
        node.connect("10.0.0.1", Reliability::Reliable).expect("reachable");
        while node.poll(fluxline_core::Moment::from_ns(1)).is_some() {}
        let (_, _, psn) = read_hello(&raw.received()[0]);
        if psn > 0x00FF_FFFF - 300 {
            println!("secret number {number}: first PSN {psn:#x}");
            return secret;
        }
    }
    panic!("none of 200,000")
}

#[test]
fn sequence_numbers_that_wrap_right_after_the_handshake_change_nothing() {
    let secret = secret_near_the_wrap();
    let first = test_seed!(1);
    for seed in first..first + test_count!(6) {
        println!("SEED={seed} COUNT=1");
        let network = Network::new();
        let node = |number| {
            let same = |config: &mut EndpointConfig| config.secret = secret;
            lossy_node(&network, number, (300, bad(seed), seed), same)
        };
        let mut world = World::new(vec![node(1), node(2)]);
        world.step = STEP;
        let (left, right) = world.connect((0, 1), address(2), Reliability::Reliable);
        let (region, remote) = world.share((1, 0), left, "x", REGION_BYTES);
        let (region_left, back) = world.share((0, 1), right, "y", REGION_BYTES);
        let joint = Joint { left: (0, left), right: (1, right), region, remote };
        run(&mut world, joint, seed, true);
        let (left, right) = ((1, right), (0, left));
        let joint = Joint { left, right, region: region_left, remote: back };
        run(&mut world, joint, seed, true);
        for completions in &world.completions {
            assert!(!completions.iter().any(|what| matches!(what, Completion::Broken { .. })));
        }
    }
}
