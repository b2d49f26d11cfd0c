//! The laws of groups: message passing and collective operations on any link.
//!
//! One thread polls all members in turn, so a law decides who runs when.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::joined::{KEY, name};
pub use super::team::Nodes;
use super::team::{CHUNK_BYTES, EAGER_BYTES, Member, PATIENCE, SLOTS, Sample, Team, pattern};
use fluxline_core::Span;
use fluxline_core::fabric::group::{
    BarrierPath, Collected, Group, GroupConfig, GroupError, Outcome, Reduction, Request, Source,
    Values,
};
use fluxline_core::fabric::{Key, Local, Slice};
use fluxline_core::random::Draw;

/// Messages of one tag come in order, and other tags wait for their receiver.
pub fn messages_come_in_order_and_tags_wait_for_their_receiver(nodes: Nodes) {
    let mut team = Team::new(nodes);
    for number in 0..3_u8 {
        for tag in [5, 6] {
            team.send(0, 1, Sample { tag, bytes: &[tag as u8, number] });
            team.until("arrival", |team| team.of(0).group.unexpected() == 0);
        }
        for tag in [6, 5] {
            let request = team.receive(1, Source::Rank(0), Some(tag));
            let message = team.received(1, request);
            assert_eq!((message.from, message.tag), (0, tag));
            assert_eq!(message.bytes, [tag as u8, number]);
        }
    }
    let sent = team.send(0, 1, Sample { tag: 0, bytes: &[] });
    assert_eq!(team.end(0, sent), Ok(Outcome::Sent));
    let request = team.receive(1, Source::Any, None);
    assert_eq!(team.received(1, request).bytes, [], "an empty message is a message");
    let again = team.member(1).group.finished(request);
    assert_eq!(again, Some(Err(GroupError::UnknownRequest)), "each result is returned once");
}

/// Messages of every length arrive whole, both ways at once, from bytes and from a region.
pub fn long_messages_arrive_whole_from_bytes_and_regions(nodes: Nodes) {
    let mut team = Team::new(nodes);
    let (eager, chunk) = (EAGER_BYTES as usize, CHUNK_BYTES as usize);
    let lengths = [0, 1, eager - 1, eager, eager + 1, chunk, chunk + 1, 9 * chunk + 17];
    for (salt, length) in lengths.into_iter().enumerate() {
        let [one, other] = [pattern(salt, length), pattern(salt + 100, length)];
        let sent = team.send(0, 1, Sample { tag: 1, bytes: &one });
        let region = {
            let fabric = &mut *team.member(1).fabric;
            let region = fabric.register(length.max(8) as u64 + 8).expect("memory");
            fabric.memory(region).expect("own").write(8, &other).expect("inside");
            region
        };
        let slice = Slice { region, offset: 8, bytes: length as u64 };
        let Member { fabric, group } = team.member(1);
        let back = group.start_send(&mut **fabric, 0, 2, Local::Region(slice)).expect("taken");
        let (here, there) =
            (team.receive(1, Source::Rank(0), None), team.receive(0, Source::Rank(1), None));
        assert!(team.received(1, here).bytes == one, "{length} bytes");
        assert!(team.received(0, there).bytes == other, "{length} bytes");
        assert_eq!(team.end(0, sent), Ok(Outcome::Sent));
        assert_eq!(team.end(1, back), Ok(Outcome::Sent));
        team.member(1).fabric.withdraw(region).expect("own");
    }
}

/// A message longer than its receive ends both sides' requests, and the next one arrives.
pub fn a_message_too_long_for_its_receive_is_an_error_and_the_next_one_arrives(nodes: Nodes) {
    let mut team = Team::new(nodes);
    for length in [EAGER_BYTES as usize, 5 * CHUNK_BYTES as usize] {
        let bytes = pattern(1, length);
        let sent = team.send(0, 1, Sample { tag: 9, bytes: &bytes });
        let max = length as u64 - 1;
        let Member { fabric, group } = team.member(1);
        let short = group.start_receive(&mut **fabric, Source::Rank(0), Some(9), max);
        let refused = team.end(1, short.expect("taken"));
        assert_eq!(refused, Err(GroupError::TooLong { rank: 1, bytes: length as u64, max }));
        let ended = team.end(0, sent);
        match length > EAGER_BYTES as usize {
            true => {
                let bytes = length as u64;
                assert_eq!(ended, Err(GroupError::Refused { rank: 1, bytes }));
            }
            false => assert_eq!(ended, Ok(Outcome::Sent), "a short one was sent before"),
        }
        team.send(0, 1, Sample { tag: 9, bytes: &bytes });
        let request = team.receive(1, Source::Rank(0), Some(9));
        assert!(team.received(1, request).bytes == bytes);
    }
}

/// A sender whose messages nobody receives waits; memory does not grow and nothing is lost.
pub fn a_fast_sender_waits_and_loses_nothing(nodes: Nodes) {
    const MESSAGES: usize = 100;
    let mut team = Team::new(nodes);
    let mut open: Vec<Request> = Vec::new();
    for number in 0..MESSAGES {
        let bytes = pattern(number, number * 7 % 500);
        open.push(team.send(0, 1, Sample { tag: number as u64, bytes: &bytes }));
        team.turn();
    }
    for _ in 0..50 {
        team.turn();
        assert!(team.of(1).group.unexpected() <= SLOTS as usize, "slots bound the memory");
    }
    for number in 0..MESSAGES {
        let request = team.receive(1, Source::Any, None);
        let message = team.received(1, request);
        assert_eq!(message.tag, number as u64);
        assert!(message.bytes == pattern(number, number * 7 % 500), "message {number}");
    }
    for request in open {
        assert_eq!(team.end(0, request), Ok(Outcome::Sent));
    }
}

/// A receive that cannot be served, since other messages have all slots, is an error, not a hang.
pub fn a_receive_behind_too_many_unexpected_messages_is_an_error(nodes: Nodes) {
    let mut team = Team::new(nodes);
    for number in 0..=SLOTS as u8 {
        team.send(0, 1, Sample { tag: 1, bytes: &[number] });
    }
    team.until("arrival", |team| team.of(1).group.unexpected() == SLOTS as usize);
    let Member { fabric, group } = team.member(1);
    let late = group.receive(&mut **fabric, Source::Rank(0), Some(2), 8);
    assert_eq!(late, Err(GroupError::Unexpected { rank: 0, waiting: SLOTS as usize }));
    for number in 0..=SLOTS as u8 {
        let request = team.receive(1, Source::Rank(0), Some(1));
        assert_eq!(team.received(1, request).bytes, [number], "they are still there");
    }
}

/// Wrong arguments are refused, and change nothing.
pub fn wrong_calls_are_refused_in_a_sentence(nodes: Nodes) {
    let names = nodes.names.clone();
    let mut team = Team::with(nodes, |config| GroupConfig { requests_max: 3, ..config });
    let Member { fabric, group } = team.member(0);
    let (size, last) = (names.len(), names.len() - 1);
    for rank in [0, size, usize::MAX] {
        let sent = group.start_send(&mut **fabric, rank, 1, Local::Bytes(b"x"));
        assert_eq!(sent, Err(GroupError::Rank { rank, last }), "not another rank");
        let receive = group.start_receive(&mut **fabric, Source::Rank(rank), None, 1);
        assert_eq!(receive, Err(GroupError::Rank { rank, last }));
    }
    let root = group.start_broadcast(&mut **fabric, size, Vec::new());
    assert_eq!(root, Err(GroupError::Rank { rank: size, last }));
    let pieces = [Slice { region: fluxline_core::fabric::RegionId(0), offset: 0, bytes: 300 }];
    assert!(group.start_send(&mut **fabric, 1, 1, Local::Gather(&pieces)).is_err());
    for _ in 0..3 {
        group.start_receive(&mut **fabric, Source::Rank(1), Some(7), 1).expect("room");
    }
    let full = group.start_receive(&mut **fabric, Source::Rank(1), Some(7), 1);
    assert_eq!(full, Err(GroupError::Requests { max: 3 }));
    group.start_barrier(&mut **fabric).expect("begins");
    assert_eq!(group.start_barrier(&mut **fabric), Err(GroupError::Busy));
    let config = |rank| GroupConfig::new(name("other"), KEY, rank, names.clone());
    for wrong in [
        config(size),
        GroupConfig { slots: 65, ..config(0) },
        GroupConfig { slots: 1, ..config(0) },
        GroupConfig { eager_bytes: 0, ..config(0) },
        GroupConfig { chunk_bytes: 0, ..config(0) },
        GroupConfig { requests_max: 0, ..config(0) },
    ] {
        let made = Group::new(&mut **fabric, wrong).map(|group| group.rank());
        assert!(matches!(made, Err(GroupError::Config { .. })), "{made:?}");
    }
}

/// Nobody passes a barrier before the last one has come, by messages and by the counter.
pub fn nobody_passes_a_barrier_before_the_last_one_comes(mut make: impl FnMut() -> Nodes) {
    let nodes = make();
    let has_atomics = nodes.fabrics[0].capabilities().atomics;
    let mut all = vec![(BarrierPath::Messages, nodes)];
    if has_atomics {
        all.push((BarrierPath::Counter, make()));
    }
    for (barrier, nodes) in all {
        let mut team = Team::with(nodes, |config| GroupConfig { barrier, ..config });
        for round in 0..6 {
            let last = round % team.size();
            for rank in (0..team.size()).filter(|rank| *rank != last) {
                let Member { fabric, group } = team.member(rank);
                group.start_barrier(&mut **fabric).expect("begins");
            }
            for _ in 0..20 {
                team.turn();
                for rank in 0..team.size() {
                    assert!(team.member(rank).group.collected().is_none(), "{barrier:?}");
                }
            }
            let Member { fabric, group } = team.member(last);
            group.start_barrier(&mut **fabric).expect("begins");
            let passed = team.collect();
            assert!(passed.iter().all(|of| *of == Ok(Collected::Barrier)), "{passed:?}");
        }
    }
}

/// A broadcast from every root reaches all, at any length.
pub fn broadcasts_of_any_length_are_whole(nodes: Nodes) {
    let mut team = Team::new(nodes);
    for root in 0..team.size() {
        for length in [0, 1, 3 * SLOTS as usize * EAGER_BYTES as usize + 5] {
            let bytes = pattern(root, length);
            for rank in 0..team.size() {
                let Member { fabric, group } = team.member(rank);
                let own = if rank == root { bytes.clone() } else { Vec::new() };
                group.start_broadcast(&mut **fabric, root, own).expect("begins");
            }
            for of in team.collect() {
                assert!(of == Ok(Collected::Broadcast(bytes.clone())), "{length} of {root}");
            }
        }
    }
}

/// An all-reduce has the same bits on all ranks: the sum of integers, and of random floats.
pub fn an_all_reduce_has_equal_bits(seed: u64, nodes: Nodes) {
    let mut draw = Draw::new(seed);
    let mut team = Team::new(nodes);
    for length in [1, 7, SLOTS as usize * EAGER_BYTES as usize / 4] {
        let integers: Vec<Vec<i64>> = (0..team.size())
            .map(|_| (0..length).map(|_| draw.bits().cast_signed()).collect())
            .collect();
        let sums: Vec<i64> = (0..length)
            .map(|index| integers.iter().fold(0, |sum: i64, of| sum.wrapping_add(of[index])))
            .collect();
        for of in team.reduce(Reduction::Sum, |rank| Values::I64(integers[rank].clone())) {
            assert!(of == Ok(Collected::AllReduced(Values::I64(sums.clone()))), "seed {seed}");
        }
        // Sums of these depend on their order.
        let mut float = || (draw.below(1 << 53) as f64 - 4e15) * f64::from(draw.below(1000) as u32);
        let floats: Vec<Vec<f64>> =
            (0..team.size()).map(|_| (0..length).map(|_| float()).collect()).collect();
        for reduction in [Reduction::Sum, Reduction::Min, Reduction::Max] {
            let all = team.reduce(reduction, |rank| Values::F64(floats[rank].clone()));
            let bits = |of: &Result<Collected, GroupError>| match of {
                Ok(Collected::AllReduced(Values::F64(values))) => {
                    values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>()
                }
                other => panic!("{other:?}"),
            };
            assert!(all.iter().all(|of| bits(of) == bits(&all[0])), "{reduction:?}, seed {seed}");
        }
    }
}

/// Different collective operations, or lengths, end with an error that names both.
pub fn different_operations_are_an_error_that_names_both(nodes: Nodes) {
    let mut team = Team::new(nodes);
    let Member { fabric, group } = team.member(0);
    let values = Values::I64(vec![1, 2]);
    group.start_all_reduce(&mut **fabric, &values, Reduction::Min).expect("begins");
    for rank in 1..team.size() {
        let Member { fabric, group } = team.member(rank);
        group.start_barrier(&mut **fabric).expect("begins");
    }
    let mut found = None;
    team.until("the mismatch", |team| {
        found = team.member(0).group.collected();
        found.is_some()
    });
    let error = found.expect("it is over").expect_err("it differs");
    let GroupError::Mismatch { own, theirs, .. } = &error else { panic!("{error}") };
    assert_eq!(own, "an all-reduce (min) of 2 integers");
    assert_eq!(theirs, "a barrier");
}

/// The death of a rank ends every call that depends on it, with its rank; others go on.
pub fn the_death_of_a_rank_ends_all_calls_that_depend_on_it(nodes: Nodes) {
    let mut team = Team::new(nodes);
    let dead = team.size() - 1;
    team.send(dead, 0, Sample { tag: 1, bytes: b"the last one" });
    team.until("arrival", |team| team.of(0).group.unexpected() == 1);
    let waits = team.receive(0, Source::Rank(dead), Some(2));
    let any = team.receive(0, Source::Any, Some(3));
    for rank in 0..dead {
        let Member { fabric, group } = team.member(rank);
        group.start_barrier(&mut **fabric).expect("begins");
    }
    team.turn();
    team.kill(dead);
    let names_it =
        |error: &GroupError| matches!(error, GroupError::RankGone { rank, .. } if *rank == dead);
    for request in [waits, any] {
        let error = team.end(0, request).expect_err("it is dead");
        assert!(names_it(&error), "{error}");
    }
    for ended in team.collect() {
        let error = ended.expect_err("nobody passes");
        assert!(names_it(&error), "{error}");
    }
    // Its last message is here, and the others still reach each other.
    let request = team.receive(0, Source::Rank(dead), Some(1));
    assert_eq!(team.received(0, request).bytes, b"the last one");
    let Member { fabric, group } = team.member(0);
    let sent = group.start_send(&mut **fabric, dead, 1, Local::Bytes(b"x"));
    assert!(names_it(&sent.expect_err("it is dead")));
    team.send(1, 0, Sample { tag: 1, bytes: b"alive" });
    let request = team.receive(0, Source::Rank(1), Some(1));
    assert_eq!(team.received(0, request).bytes, b"alive");
}

/// The end of a program that ended because of a dead rank does not hide that rank.
pub fn survivors_name_the_rank_that_died_first(nodes: Nodes) {
    let mut team = Team::new(nodes);
    let dead = team.size() - 1;
    for rank in 0..dead {
        let Member { fabric, group } = team.member(rank);
        group.start_barrier(&mut **fabric).expect("begins");
    }
    team.turn();
    team.kill(dead);
    // Rank 1 notices it, and its program ends; until then nobody else looks.
    let mut found = None;
    team.until_of(1, "the death", |member| {
        found = member.group.collected();
        found.is_some()
    });
    assert!(found.expect("it is over").is_err());
    team.until_sent(1);
    team.kill(1);
    let mut found = None;
    team.until_of(0, "the death", |member| {
        found = member.group.collected();
        found.is_some()
    });
    let error = found.expect("it is over").expect_err("nobody passes");
    let is_named = matches!(error, GroupError::RankGone { rank, .. } if rank == dead);
    assert!(is_named, "{error}");
}

/// A rank that comes late is waited for; one that never comes is named.
pub fn a_late_rank_joins_and_one_that_never_comes_is_named(nodes: Nodes) {
    let missing = nodes.names.len() - 1;
    let configs: Vec<GroupConfig> = (0..nodes.names.len())
        .map(|rank| GroupConfig { patience: Span::from_ms(300), ..nodes.config(rank) })
        .collect();
    let (mut fabrics, mut now) = (nodes.fabrics, nodes.now);
    let mut groups: Vec<Group> = Vec::new();
    for (rank, config) in configs.iter().enumerate().take(missing) {
        groups.push(Group::new(&mut *fabrics[rank], config.clone()).expect("right"));
        // The next one comes later.
        for _ in 0..5 {
            let moment = now();
            for (group, fabric) in groups.iter_mut().zip(&mut fabrics) {
                while group.poll(&mut **fabric, moment).is_some() {}
            }
        }
    }
    let began = now();
    loop {
        let moment = now();
        for (group, fabric) in groups.iter_mut().zip(&mut fabrics) {
            while group.poll(&mut **fabric, moment).is_some() {}
        }
        while fabrics[missing].poll(moment).is_some() {}
        let ended: Vec<Result<bool, GroupError>> = groups.iter().map(Group::has_joined).collect();
        if ended.iter().all(Result::is_err) {
            for end in ended {
                let error = end.expect_err("it never came");
                let GroupError::NotJoined { rank, .. } = error else { panic!("{error}") };
                assert_eq!(rank, missing);
            }
            return;
        }
        assert!(moment.since(began) < PATIENCE, "{ended:?}");
    }
}

/// Members with another key or other sizes do not join.
pub fn members_with_another_key_or_other_sizes_do_not_join(mut make: impl FnMut() -> Nodes) {
    for change in [
        |config: GroupConfig| GroupConfig { key: Key(1), ..config },
        |config: GroupConfig| GroupConfig { slots: SLOTS + 1, ..config },
        // The region has the same size, and the slots have not.
        |config: GroupConfig| GroupConfig { eager_bytes: EAGER_BYTES + 1, ..config },
    ] {
        let nodes = make();
        let last = nodes.names.len() - 1;
        let configs: Vec<GroupConfig> = (0..=last).map(|rank| nodes.config(rank)).collect();
        let mut now = nodes.now;
        let made = nodes.fabrics.into_iter().zip(configs).enumerate();
        let mut members: Vec<Member> = made
            .map(|(rank, (mut fabric, config))| {
                let config = if rank == last { change(config) } else { config };
                let config = GroupConfig { patience: Span::from_ms(2_000), ..config };
                let group = Group::new(&mut *fabric, config).expect("right");
                Member { fabric, group }
            })
            .collect();
        let began = now();
        while members[last].group.has_joined() == Ok(false) {
            let moment = now();
            for member in &mut members {
                while member.group.poll(&mut *member.fabric, moment).is_some() {}
            }
            assert!(moment.since(began) < PATIENCE, "it neither joins nor fails");
        }
        let error = members[last].group.has_joined().expect_err("it does not fit");
        assert!(
            matches!(error, GroupError::Protocol { .. } | GroupError::NotJoined { .. }),
            "{error}"
        );
    }
}

/// All leave, and each may drop its node at once: nothing that was sent is lost.
pub fn all_leave_and_nothing_that_was_sent_is_lost(nodes: Nodes) {
    let mut team = Team::new(nodes);
    let bytes = pattern(3, 7 * CHUNK_BYTES as usize);
    let last = team.size() - 1;
    let request = team.receive(last, Source::Rank(0), None);
    team.send(0, last, Sample { tag: 1, bytes: &bytes });
    for rank in 0..team.size() {
        team.member(rank).group.start_leave();
    }
    let mut left = vec![false; team.size()];
    team.until("leaving", |team| {
        for (rank, left) in left.iter_mut().enumerate() {
            let Member { fabric, group } = team.member(rank);
            *left = *left || group.has_left(&mut **fabric).expect("it leaves");
        }
        left.iter().all(|left| *left)
    });
    let ended = team.member(last).group.finished(request);
    match ended {
        Some(Ok(Outcome::Received(message))) => assert!(message.bytes == bytes),
        other => panic!("{other:?}"),
    }
}

/// A message of the model.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    tag: u64,
    bytes: Vec<u8>,
}

/// Random sends and receives of all ranks do what queues in memory do, from a printed seed.
pub fn random_schedules_are_as_in_queues(seed: u64, mut make: impl FnMut() -> Nodes) {
    const STEPS: usize = 300;
    for number in 0..3 {
        let mut draw = Draw::new(seed.wrapping_add(number));
        let mut team = Team::new(make());
        let size = team.size();
        // The messages from each rank to each rank that were not received.
        let mut model: Vec<VecDeque<Expected>> = vec![VecDeque::new(); size * size];
        let mut sends: Vec<(usize, Request)> = Vec::new();
        for _ in 0..STEPS {
            let (from, to) = (draw.below(size as u64) as usize, draw.below(size as u64) as usize);
            let queue = from * size + to;
            if from == to {
                team.turn();
            } else if draw.below(2) == 0 && model[queue].len() < SLOTS as usize {
                let longest = if draw.chance(0.2) { 6000 } else { 300 };
                let length = draw.below(longest) as usize;
                let message = Expected {
                    tag: draw.below(3),
                    bytes: pattern(draw.below(99) as usize, length),
                };
                let sample = Sample { tag: message.tag, bytes: &message.bytes };
                sends.push((from, team.send(from, to, sample)));
                model[queue].push_back(message);
            } else if !model[queue].is_empty() {
                let at = draw.below(model[queue].len() as u64) as usize;
                let tag = draw.chance(0.7).then(|| model[queue][at].tag);
                let fits = |of: &Expected| tag.is_none_or(|tag| of.tag == tag);
                let first = model[queue].iter().position(fits).expect("one fits");
                let expected = model[queue].remove(first).expect("it is there");
                let request = team.receive(to, Source::Rank(from), tag);
                let message = team.received(to, request);
                assert_eq!((message.from, message.tag), (from, expected.tag), "seed {seed}");
                assert!(
                    message.bytes == expected.bytes,
                    "seed {seed}: {} bytes",
                    expected.bytes.len()
                );
            }
        }
        for (index, queue) in model.into_iter().enumerate() {
            let (from, to) = (index / size, index % size);
            for expected in queue {
                let request = team.receive(to, Source::Rank(from), None);
                assert!(team.received(to, request).bytes == expected.bytes, "seed {seed}");
            }
        }
        for (rank, request) in sends {
            assert_eq!(team.end(rank, request), Ok(Outcome::Sent), "seed {seed}");
        }
    }
}
