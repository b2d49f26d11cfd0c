//! Peers that die, come back under the same address, or are cut off. Completions come once, and no
//! old frame is accepted as new.

use std::collections::BTreeMap;

use crate::support::{
    LossyNode, MS, World, address, bad, connected, lossy_node, message, put, tags,
};
use fluxline_core::Span;
use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Operation, PostError, RegionId, Reliability, RemoteId, Slice,
    Status, Target, Work,
};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::random::{test_count, test_seed};

const DEATH_MS: u64 = 500;

fn dies_soon(secret: u8) -> impl FnOnce(&mut EndpointConfig) {
    move |config| {
        config.death = Span::from_ms(DEATH_MS);
        config.secret[0] = secret;
    }
}

fn node(network: &Network, number: u8, secret: u8, faults: Faults) -> LossyNode {
    lossy_node(network, number, (1472, faults, u64::from(secret)), dies_soon(secret))
}

struct Two {
    network: Network,
    world: World<Lossy<NetworkPort>>,
    left: EndpointId,
    right: EndpointId,
    region: RegionId,
    remote: RemoteId,
    own: RegionId,
}

fn two(faults: Faults) -> Two {
    let network = Network::new();
    let mut world = World::new(vec![node(&network, 1, 1, faults), node(&network, 2, 2, faults)]);
    let (left, right) = world.connect((0, 1), address(2), Reliability::Reliable);
    let (region, remote) = world.share((1, 0), left, "x", 1 << 20);
    let own = world.nodes[0].register(1 << 20).expect("memory");
    Two { network, world, left, right, region, remote, own }
}

/// Fills left's queue with work of every kind; returns how much.
fn fill(two: &mut Two) -> u64 {
    let data = vec![9; 20_000];
    for tag in 0.. {
        let into = Slice { region: two.own, offset: 0, bytes: 10_000 };
        let at = Target { remote: two.remote, offset: 8 };
        let work = match tag % 6 {
            0 => put(&data, two.remote, 0, Some(1)),
            1 => Work::Get { from: at, into },
            2 => message(&data),
            3 => Work::FetchAdd { at, add: 1 },
            4 => Work::CompareSwap { at, expected: 0, desired: 1 },
            _ => Work::Flush,
        };
        match two.world.nodes[0].post(two.left, 1000 + tag, work) {
            Ok(()) => {}
            Err(PostError::Full) => return tag,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!()
}

/// Checks that each tag completes once, that unfinished work is flushed, and that `Broken` is last.
fn assert_all_flushed(two: &Two, posted: u64) {
    let completions = &two.world.completions[0];
    let mut times = BTreeMap::new();
    for (tag, status) in tags(completions) {
        *times.entry(tag).or_insert(0) += 1;
        assert!(matches!(status, Status::Flushed | Status::Done), "{tag}: {status:?}");
    }
    for tag in 1000..1000 + posted {
        assert_eq!(times.get(&tag), Some(&1), "tag {tag}");
    }
    let over = completions.iter().position(|what| matches!(what, Completion::Broken { .. }));
    assert_eq!(over, Some(completions.len() - 1), "broken is the last completion");
}

fn broken(world: &World<Lossy<NetworkPort>>, node: usize) -> Option<Status> {
    world.completions[node].iter().find_map(|what| match *what {
        Completion::Broken { status, .. } => Some(status),
        _ => None,
    })
}

#[test]
fn a_peer_that_dies_with_the_queue_full_has_each_tag_told_once() {
    for turns in [0, 1, 3, 10, 40] {
        let mut two = two(bad(0));
        let posted = fill(&mut two);
        (0..turns).for_each(|_| two.world.turn());
        let dead = two.world.nodes.pop().expect("two");
        drop(dead);
        two.world.until(DEATH_MS * 3 / 2, |world| broken(world, 0).is_some());
        two.world.run(50);
        assert!(matches!(broken(&two.world, 0), Some(Status::PeerGone | Status::Transport)));
        assert_all_flushed(&two, posted);
        assert_eq!(two.world.nodes[0].post(two.left, 0, Work::Flush), Err(PostError::NotConnected));
    }
}

#[test]
fn a_successor_under_the_same_address_does_not_take_the_old_ones_frames() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(5) {
        println!("SEED={seed} COUNT=1");
        let faults = Faults { delay: Span::from_ms(2), ..bad(seed) };
        let mut two = two(faults);
        let posted = fill(&mut two);
        two.world.run(3);
        // The new port takes the address before the old one is dropped, or after.
        two.world.nodes.pop();
        two.world.completions.pop();
        let successor = node(&two.network, 2, 3, faults);
        two.world.nodes.push(successor);
        two.world.completions.push(Vec::new());
        let (left, right) = two.world.connect((0, 1), address(2), Reliability::Reliable);
        let (region, remote) = two.world.share((1, 0), left, "x", 1 << 20);
        two.world.until(DEATH_MS * 2, |world| broken(world, 0).is_some());
        let place = |of: &Completion| matches!(of, Completion::Broken { .. });
        let at = two.world.completions[0].iter().position(place).expect("broken");
        two.world.completions[0].truncate(at + 1);
        assert_all_flushed(&two, posted);
        two.world.completions[0].clear();
        assert_eq!(two.world.completions[1], [], "nothing old was done");
        assert_eq!(two.world.bytes(1, region, 0, 1 << 20), vec![0; 1 << 20]);
        two.world.post(0, left, 1, put(&[5; 5000], remote, 7, Some(9)));
        assert_eq!(two.world.done(0, 1), (Operation::Put, Status::Done, 0));
        assert_eq!(two.world.bytes(1, region, 7, 5000), [5; 5000]);
        let _ = right;
    }
}

fn cut(two: &mut Two, faults: Faults, ms: u64) {
    let from = two.world.now;
    let until = from + Span::from_ms(ms);
    for node in &mut two.world.nodes {
        node.port().set(Faults { cut: Some((from, until)), ..faults });
    }
}

#[test]
fn a_cable_that_is_cut_for_less_than_death_loses_nothing() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(6) {
        println!("SEED={seed} COUNT=1");
        let faults = bad(seed);
        let mut two = two(faults);
        let data: Vec<u8> = (0..900_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
        let half = two.own;
        two.world.nodes[0].memory(half).expect("own").write(0, &data).expect("inside");
        for (tag, chunk) in data.chunks(10_000).enumerate() {
            let work = put(chunk, two.remote, tag as u64 * 10_000, Some(tag as u32));
            two.world.post(0, two.left, tag as u64, work);
        }
        (0..seed % 40).for_each(|_| two.world.turn());
        // On the worst link it takes several tries to come back.
        cut(&mut two, faults, DEATH_MS * [14, 14, 3][(seed % 3) as usize] / 20);
        for tag in 0..90 {
            assert_eq!(two.world.done(0, tag), (Operation::Put, Status::Done, 0));
        }
        assert!(two.world.bytes(1, two.region, 0, 900_000) == data);
        let completions: Vec<u32> = two.world.completions[1]
            .iter()
            .filter_map(|what| match *what {
                Completion::Notified { value, .. } => Some(value),
                _ => None,
            })
            .collect();
        assert_eq!(completions, (0..90).collect::<Vec<_>>(), "each once and in order");
        assert_eq!((broken(&two.world, 0), broken(&two.world, 1)), (None, None));
    }
}

#[test]
fn a_cable_that_is_cut_for_longer_than_death_breaks_both_ends_in_time() {
    for idle in [false, true] {
        let mut two = two(bad(0));
        two.world.run(5);
        let buffer = Slice { region: two.region, offset: 0, bytes: 10 };
        two.world.nodes[1].post_receive(two.right, 77, buffer).expect("room");
        let posted = if idle { 0 } else { fill(&mut two) };
        cut(&mut two, bad(0), DEATH_MS * 3);
        let began = two.world.now;
        two.world.until(DEATH_MS * 5 / 4 + 10, |world| {
            broken(world, 0).is_some() && broken(world, 1).is_some()
        });
        println!("broken after {}", two.world.now.since(began));
        for node in 0..2 {
            let status = broken(&two.world, node);
            assert!(matches!(status, Some(Status::PeerGone | Status::Transport)), "{status:?}");
        }
        assert_all_flushed(&two, posted);
        assert!(tags(&two.world.completions[1]).contains(&(77, Status::Flushed)));
        // With the cable back, there is a connection again.
        two.world.run(DEATH_MS * 3);
        two.world.completions.iter_mut().for_each(Vec::clear);
        two.world.connect((0, 1), address(2), Reliability::Reliable);
    }
}

#[test]
fn a_peer_that_sleeps_for_less_than_death_is_not_taken_for_dead() {
    let mut two = two(bad(0));
    two.world.post(0, two.left, 1, put(&[1; 100_000], two.remote, 0, None));
    two.world.turn();
    two.world.asleep[1] = true;
    two.world.run(DEATH_MS * 7 / 10);
    two.world.asleep[1] = false;
    assert_eq!(two.world.done(0, 1), (Operation::Put, Status::Done, 0));
    two.world.run(DEATH_MS * 2);
    assert_eq!((broken(&two.world, 0), broken(&two.world, 1)), (None, None));
}

#[test]
fn an_idle_connection_lives_on_with_few_frames() {
    let mut two = two(bad(2));
    two.world.run(200);
    let before = fluxline_core::port::Port::counters(two.world.nodes[0].port()).frames_sent;
    let began = two.world.now;
    two.world.run(DEATH_MS * 10);
    let after = fluxline_core::port::Port::counters(two.world.nodes[0].port()).frames_sent;
    assert_eq!((broken(&two.world, 0), broken(&two.world, 1)), (None, None));
    let seconds = two.world.now.since(began).as_ns() / (1000 * MS);
    let each_s = (after - before) / seconds;
    assert!(each_s < 60, "{each_s} frames/s of nothing");
}

/// The programs of both ends do not poll for seconds, and no peer counts as dead.
#[test]
fn ends_that_both_did_not_poll_for_long_are_still_connected() {
    for pause_ms in [DEATH_MS / 2, DEATH_MS + 1, 10 * DEATH_MS] {
        let mut two = two(bad(0));
        let (region, remote) = two.world.share((1, 0), two.left, "pause", 100);
        for round in 0..5 {
            two.world.now = two.world.now + Span::from_ms(pause_ms);
            two.world.run(DEATH_MS / 10);
            assert_eq!((broken(&two.world, 0), broken(&two.world, 1)), (None, None));
            two.world.post(0, two.left, 7, put(&[round + 1; 50], remote, 0, None));
            // Only one end does not poll; it answers at its next poll.
            two.world.asleep[1] = true;
            two.world.run(DEATH_MS / 2);
            two.world.asleep[1] = false;
            assert_eq!(two.world.done(0, 7), (Operation::Put, Status::Done, 0));
            assert_eq!(two.world.bytes(1, region, 0, 50), [round + 1; 50]);
        }
    }
}

#[test]
fn a_peer_that_dies_while_nobody_polls_is_noticed_soon_after() {
    let mut two = two(bad(0));
    two.world.now = two.world.now + Span::from_ms(10 * DEATH_MS);
    drop(two.world.nodes.pop());
    two.world.until(DEATH_MS, |world| broken(world, 0).is_some());
    assert_eq!(broken(&two.world, 0), Some(Status::PeerGone));
}

/// A lost goodbye is repeated, and the other end gets one completion.
#[test]
fn a_disconnect_over_a_lossy_path_is_told_once() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(20) {
        println!("SEED={seed} COUNT=1");
        let mut two = two(Faults { drop: 0.4, ..bad(seed) });
        two.world.completions.iter_mut().for_each(Vec::clear);
        let both = seed % 2 == 0;
        two.world.nodes[0].disconnect(two.left).expect("open");
        if both {
            two.world.nodes[1].disconnect(two.right).expect("open");
        }
        two.world.run(1000);
        let own = Completion::Broken { endpoint: two.left, status: Status::Done };
        assert_eq!(two.world.completions[0], [own]);
        let status = if both { Status::Done } else { Status::Disconnected };
        let theirs = Completion::Broken { endpoint: two.right, status };
        assert_eq!(two.world.completions[1], [theirs]);
        assert_eq!(two.world.completions[1].iter().filter_map(connected).count(), 0);
    }
}
