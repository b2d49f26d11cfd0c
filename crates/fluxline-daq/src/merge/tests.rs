//! The merge compared with simple models: all packets sorted, or a check of every input's position.

use fluxline_core::Moment;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Lane, Merge, Times};
use crate::builder::Position;

/// A packet: when it was captured, and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    time: u64,
    key: u64,
}

/// The choices of a merge: the lane of each packet, and the time then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    lane: usize,
    packet: Packet,
    now: Moment,
}

fn lane(input: u16, times: Times, has_positions: bool) -> Lane {
    Lane { input, times, has_positions }
}

/// Merges these packets; checks at each step what must always hold.
fn merge(lanes: &[Lane], packets: &[Vec<Packet>]) -> Vec<Given> {
    let mut merge = Merge::new(lanes.iter().copied());
    let mut read = vec![0; lanes.len()];
    let mut positions: Vec<Option<Position>> = vec![None; lanes.len()];
    let mut given = Vec::new();
    loop {
        while let Some(lane) = merge.unknown() {
            match packets[lane].get(read[lane]) {
                Some(packet) => merge.show(lane, Moment::from_ns(packet.time)),
                None => merge.end(lane),
            }
        }
        let position = |input: u16| {
            let lane = lanes.iter().position(|lane| lane.input == input).expect("a lane");
            positions[lane]
        };
        let Some(chosen) = merge.choose(position) else { break };
        let packet = packets[chosen][read[chosen]];
        given.push(Given { lane: chosen, packet, now: merge.now() });
        read[chosen] += 1;
        let position = Position { generation: 0, ordinal: packet.key };
        positions[chosen] = positions[chosen].max(Some(position));
        merge.take(chosen);
    }
    let total: usize = packets.iter().map(Vec::len).sum();
    assert_eq!(given.len(), total, "every packet is read once");
    assert!(given.is_sorted_by_key(|given| given.now), "the clock never goes back");
    given
}

fn seeded(run: u64) -> Xoshiro256PlusPlus {
    println!("seed {run}");
    Xoshiro256PlusPlus::seed_from_u64(run)
}

/// Up to 6 lanes of up to 200 packets; times and keys grow, as those of captures do.
fn random_lanes(random: &mut Xoshiro256PlusPlus) -> Vec<Vec<Packet>> {
    let lanes = 1 + random.next_u64() % 6;
    let lane = |_| {
        let (mut time, mut key) = (1 + random.next_u64() % 1000, random.next_u64() % 50);
        let count = random.next_u64() % 200;
        let mut packets = Vec::new();
        for _ in 0..count {
            packets.push(Packet { time, key });
            time += random.next_u64() % 20;
            key += random.next_u64() % 3;
        }
        packets
    };
    (0..lanes).map(lane).collect()
}

#[test]
fn captures_without_keys_are_read_as_if_sorted_by_time() {
    for run in 0..200 {
        let packets = random_lanes(&mut seeded(run));
        let lanes: Vec<Lane> =
            (0..packets.len()).map(|at| lane(at as u16, Times::Captured, false)).collect();
        let given = merge(&lanes, &packets);
        let mut sorted: Vec<(u64, usize)> = Vec::new();
        for (lane, packets) in packets.iter().enumerate() {
            sorted.extend(packets.iter().map(|packet| (packet.time, lane)));
        }
        sorted.sort_unstable();
        let read: Vec<(u64, usize)> =
            given.iter().map(|given| (given.packet.time, given.lane)).collect();
        assert_eq!(read, sorted);
        let times_are_now =
            given.iter().all(|given| given.now == Moment::from_ns(given.packet.time));
        assert!(times_are_now, "the packet that is read is the earliest of all that are unread");
    }
}

#[test]
fn no_input_runs_ahead_of_the_one_that_holds_events_back() {
    for run in 0..200 {
        let packets = random_lanes(&mut seeded(run));
        let times = if run % 2 == 0 { Times::Captured } else { Times::Absent };
        let lanes: Vec<Lane> = (0..packets.len()).map(|at| lane(at as u16, times, true)).collect();
        let given = merge(&lanes, &packets);
        for at in 0..given.len() {
            let newest = |of: usize| {
                let keys = given[..at].iter().filter(|given| given.lane == of);
                keys.map(|given| given.packet.key).max()
            };
            let is_open = |of: usize| given[at..].iter().any(|given| given.lane == of);
            let lowest = (0..lanes.len()).filter(|of| is_open(*of)).map(newest).min();
            assert_eq!(Some(newest(given[at].lane)), lowest, "packet {at}");
        }
    }
}

#[test]
fn raw_files_without_keys_are_read_in_turns() {
    let packets = |count| vec![Packet { time: 0, key: 0 }; count];
    let lanes: Vec<Lane> = (0..3).map(|at| lane(at, Times::Absent, false)).collect();
    let given = merge(&lanes, &[packets(3), packets(1), packets(2)]);
    let order: Vec<usize> = given.iter().map(|given| given.lane).collect();
    assert_eq!(order, [0, 1, 2, 0, 2, 0]);
}

#[test]
fn files_of_all_kinds_are_merged_without_one_waiting_for_the_end_of_another() {
    let packets: Vec<Packet> =
        (0..100).map(|at| Packet { time: 1_000_000 + at * 1000, key: at }).collect();
    let lanes = [
        lane(0, Times::Captured, true),
        lane(1, Times::Absent, true),
        lane(2, Times::Captured, false),
        lane(3, Times::Absent, false),
    ];
    let given = merge(&lanes, &[packets.clone(), packets.clone(), packets.clone(), packets]);
    for at in 0..given.len() {
        let read = |of| given[..at].iter().filter(|given| given.lane == of).count();
        let counts: Vec<usize> = (0..lanes.len()).map(read).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 2), "{counts:?}");
    }
}

#[test]
fn the_time_is_never_later_than_a_packet_that_is_still_to_come() {
    for run in 0..200 {
        let packets = random_lanes(&mut seeded(run));
        let lanes: Vec<Lane> =
            (0..packets.len()).map(|at| lane(at as u16, Times::Captured, true)).collect();
        let given = merge(&lanes, &packets);
        for at in 0..given.len() {
            let to_come = given[at..].iter().map(|given| given.packet.time).min();
            assert_eq!(Some(given[at].now.as_ns()), to_come, "packet {at}");
        }
    }
}
