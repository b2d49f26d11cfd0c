//! The worked cases of the event rule, on several machines: two readouts and three partitions give
//! the events of one process, although another builder takes over each partition.
//!
//! The boards of a case are dealt to the readouts. docs/kafka.md lists where events may differ; a
//! comment says so in the cases that meet it.

mod support;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use fluxline_core::random::{Draw, test_seed};
use fluxline_daq::event::EventStatus;
use support::worked::{
    Board, Case, Outcome, PARTITIONS, Sent, US, boards, distributed, one_process,
};
use support::world::{Event, MS, assert_same};

/// Builds a case by one process and by several builders. Compares all events: their packets with
/// late fragments, and status, words and late fragments unless `may_differ`. Returns both outcomes.
fn built(case: &Case, seed: u64, may_differ: impl Fn(&Event) -> bool) -> [Outcome; 2] {
    let (one, many) = (one_process(case), distributed(case, seed));
    let clear = |of: &Outcome| -> Vec<Event> {
        of.rows.iter().filter(|row| !may_differ(row)).cloned().collect()
    };
    assert_same(&clear(&many), &clear(&one), "rows");
    assert!(many.joined() == one.joined(), "with late fragments, events have other packets");
    assert_eq!(many.duplicates, one.duplicates);
    assert_eq!(many.silences, one.silences);
    [one, many]
}

/// Builds a case in which nothing may differ.
fn alike(case: &Case, seed: u64) -> Outcome {
    let [one, many] = built(case, seed, |_| false);
    assert!(one == many);
    many
}

#[test]
fn boards_that_join_make_events_before_incomplete() {
    let seed = test_seed!(301);
    // The board's first trigger, that of the end, and the late fragments.
    for (joins, end, late) in [(200, 2000, 0), (3000, 5000, 1)] {
        let mut sent = boards(7, MS, 0..end);
        sent.extend(Board { board: 7, period: MS, latency: 10 * US }.send(joins..end));
        let out = alike(&Case::of(sent), seed);
        assert_eq!((out.complete() as u64, out.late()), (end, late));
        assert_eq!(out.sizes(), [(7, joins as usize), (8, (end - joins) as usize)]);
    }
}

#[test]
fn board_that_lags_is_late_for_ever() {
    let seed = test_seed!(302);
    for (latency_ms, late) in [(200, 191), (700, 691)] {
        let mut sent = boards(7, MS, 0..2000);
        sent.extend(Board { board: 7, period: MS, latency: latency_ms * MS }.send(0..2000));
        let out = alike(&Case::of(sent), seed);
        assert_eq!((out.complete(), out.late()), (2000, late));
        assert_eq!(out.sizes(), [(8, 2000)]);
    }
}

/// A partition takes consecutive packets of others at the time of the last one. So the lagging
/// board joins there a few packets later, and the 10 ms of an event end a few packets later: the
/// exception of time-outs, which are checked every 50 ms.
#[test]
fn board_that_lags_by_any_time_loses_fragments_after_it_joined() {
    let seed = test_seed!(303);
    let mut draw = Draw::new(seed);
    for _ in 0..4 {
        let latency = 200 * MS + draw.below(500 * MS);
        let mut sent = boards(7, MS, 0..1500);
        sent.extend(Board { board: 7, period: MS, latency }.send(0..1500));
        let joined = latency / MS;
        let [one, many] = built(&Case::of(sent), seed, |row| joined.abs_diff(row.key) < 50);
        assert_eq!((one.complete(), many.complete()), (1500, 1500));
        assert!(one.late().abs_diff(many.late()) < 50, "{} and {}", one.late(), many.late());
        assert_eq!(many.sizes(), [(8, 1500)]);
    }
}

#[test]
fn board_that_dies_at_50_khz_costs_the_living_packets() {
    let seed = test_seed!(304);
    let (period, triggers) = (20 * US, 40_000);
    let mut sent = boards(2, period, 0..triggers);
    sent.extend(Board { board: 2, period, latency: 2 * US }.send(0..5000));
    let out = alike(&Case::of(sent), seed);
    assert_eq!(out.sizes(), [(2, 35_000), (3, 5000)]);
    // Boards end with their inputs, so the events of the last 10 ms do not lack the dead one.
    let last = (10 * MS / period) as usize;
    assert_eq!((out.complete(), out.incomplete()), (5000 + last, 35_000 - last));
    // The first event without the board closes by the time-out, before the board is found silent.
    let gone = |row: &&Event| row.missing == "crate-0/source_id=2: silent since key 4999";
    assert_eq!(out.rows.iter().filter(gone).count(), out.incomplete() - 1);
}

#[test]
fn board_that_was_off_is_missed_for_longer() {
    let seed = test_seed!(305);
    let mut sent = boards(3, MS, 0..5000);
    let board = Board { board: 3, period: MS, latency: 4 * US };
    sent.extend(board.send(0..1000));
    sent.extend(board.send(3000..5000));
    // The first event without the board closes by the time-out, before or after the board is found
    // silent: the exception of time-outs. The first packet of a counter that began anew is kept
    // until the second one: the exception of such packets.
    let [one, many] = built(&Case::of(sent), seed, |row| [1000, 3000, 3001].contains(&row.key));
    assert_eq!((one.complete(), one.incomplete(), one.late()), (2998, 2002, 2));
    assert!((1..=2).contains(&many.late()), "{} late", many.late());
    assert_eq!(many.complete() + many.late(), 3000);
    assert_eq!(many.complete() + many.incomplete(), 5000);
    assert_eq!(many.sizes(), [(3, 2000), (4, 3000)]);
}

#[test]
fn prescaled_board_is_missed_in_partitions_that_store_little_of_it() {
    let seed = test_seed!(306);
    let period = 100 * US;
    let mut sent = boards(1, period, 0..10_000);
    sent.extend(Board { board: 1, period, latency: US }.send((0..10_000).step_by(10)));
    let out = alike(&Case::of(sent), seed);
    assert_eq!((out.complete(), out.late()), (10_000, 0));
    assert_eq!(out.sizes(), [(1, 9000), (2, 1000)]);
}

/// Status and words differ here before amendment: a builder judges by the events of its partition
/// how usual a board is, and when its misses in a row exclude chance.
#[test]
fn prescaled_board_at_1_hz_is_missed_after_amendment() {
    let seed = test_seed!(307);
    let period = 1000 * MS;
    let mut sent = boards(1, period, 0..100);
    sent.extend(Board { board: 1, period, latency: 100 * US }.send((0..100).step_by(10)));
    let [one, many] = built(&Case::of(sent), seed, |_| true);
    for out in [&one, &many] {
        assert_eq!(out.complete() + out.incomplete(), 100);
        assert_eq!(out.lacking(), Vec::<&Event>::new());
        assert_eq!(out.sizes(), [(1, 90), (2, 10)]);
        // After its first return, it is never dead.
        let missed = out.rows.iter().filter(|row| row.status == EventStatus::Incomplete);
        let missed: BTreeSet<&str> = missed.map(|row| row.missing.as_str()).collect();
        assert!(missed.into_iter().eq(["crate-1/source_id=1: silent since key 0"]));
    }
    // One silence for each pair of its packets.
    assert_eq!(many.silences.len(), 9);
    assert_eq!((one.incomplete(), one.late()), (10, 1));
    assert!(many.incomplete() <= one.incomplete(), "{} incomplete", many.incomplete());
}

#[test]
fn spills_are_other_generations_in_other_partitions() {
    let seed = test_seed!(308);
    let mut sent = Vec::new();
    for (spill, board) in (0..3).flat_map(|spill| [(spill, 0_u16), (spill, 1)]) {
        sent.extend((0..1000).map(|key| {
            let at = spill * 3000 * MS + key * MS + u64::from(board) * US;
            Sent { at, board, number: spill * 1000 + key, key }
        }));
    }
    let out = alike(&Case::of(sent), seed);
    assert_eq!((out.complete(), out.late(), out.duplicates), (3000, 0, 0));
    assert_eq!(out.sizes(), [(2, 3000)]);
    let of_last = out.rows.iter().filter(|row| row.generation == 2);
    assert_eq!(of_last.count(), 1000);
}

#[test]
fn keys_of_16_bits_that_wrap_are_a_new_beginning() {
    let seed = test_seed!(309);
    let case = Case::of(boards(2, 100 * US, 0..70_000)).with_narrow_keys();
    let out = alike(&case, seed);
    assert_eq!((out.complete(), out.late()), (70_000, 0));
    assert_eq!(out.sizes(), [(2, 70_000)]);
    assert_eq!(out.rows.last().map(|row| (row.generation, row.key)), Some((0, 69_999)));
}

#[test]
fn trigger_number_that_is_off_by_one_shifts_other_boards() {
    let seed = test_seed!(310);
    let mut sent = boards(1, MS, 0..5000);
    let other = |key| Sent { at: key * MS + US, board: 1, number: key, key: key + 1 };
    sent.extend((0..5000).map(other));
    let out = alike(&Case::of(sent), seed);
    assert_eq!((out.rows.len(), out.complete()), (5001, 5001));
    assert_eq!(out.sizes(), [(1, 2), (2, 4999)]);
}

#[test]
fn packets_that_come_twice_are_late_fragments() {
    let seed = test_seed!(311);
    let mut sent = boards(2, MS, 0..1000);
    let twice: Vec<Sent> = sent.iter().filter(|its| its.key % 100 == 0).copied().collect();
    sent.extend(twice.into_iter().map(|its| Sent { at: its.at + 50 * US, ..its }));
    let out = alike(&Case::of(sent), seed);
    assert_eq!((out.complete(), out.late(), out.duplicates), (1000, 0, 20));
}

/// Boards of which 2 % of the packets come later.
fn out_of_order(delay: u64) -> Case {
    let mut sent = boards(2, MS, 0..3000);
    sent.iter_mut().filter(|its| is_late(its.key)).for_each(|its| its.at += delay);
    Case::of(sent)
}

fn is_late(key: u64) -> bool {
    (key * 7919 + 13).is_multiple_of(50)
}

#[test]
fn packets_out_of_order_are_lost() {
    let seed = test_seed!(312);
    let out = alike(&out_of_order(5 * MS), seed);
    assert_eq!((out.complete(), out.late()), (3000, 0));
    // Each builder learns how late packets are from those of its own partition.
    let [one, many] = built(&out_of_order(25 * MS), seed, |row| is_late(row.key));
    assert!((1..=3).contains(&one.late()), "{} late", one.late());
    let most = 3 * PARTITIONS as usize;
    assert!((1..=most).contains(&many.late()), "{} late", many.late());
    assert_eq!(many.lacking(), Vec::<&Event>::new());
    assert_eq!(many.sizes(), [(2, 3000)]);
}

#[test]
fn pause_of_all_boards_makes_one_silent() {
    let seed = test_seed!(313);
    let mut sent = boards(4, MS, 0..2000);
    sent.iter_mut().filter(|its| its.key >= 1000).for_each(|its| its.at += 10_000 * MS);
    let out = alike(&Case::of(sent.clone()), seed);
    assert_eq!((out.complete(), out.late()), (2000, 0));
    // The last event before the pause lacks a packet.
    sent.retain(|its| (its.key, its.board) != (999, 3));
    let out = alike(&Case::of(sent), seed);
    assert_eq!((out.complete(), out.incomplete()), (1999, 1));
}

/// The inputs of a run end before it does, in one process too. So nothing is awaited then, and the
/// last event is complete with the boards that came: it is not `stopped`.
#[test]
fn run_that_is_cut_in_an_event_loses_its_packets() {
    let seed = test_seed!(314);
    let board = |board| Board { board, period: MS, latency: u64::from(board) * 400 * US };
    let mut sent: Vec<Sent> = (0..4).flat_map(|of| board(of).send(0..1000)).collect();
    sent.retain(|its| its.at <= 500 * MS + 500 * US);
    let out = alike(&Case::of(sent), seed);
    assert_eq!((out.complete(), out.count(EventStatus::Stopped)), (501, 0));
    assert_eq!(out.sizes(), [(2, 1), (4, 500)]);
}

#[test]
fn files_of_different_begin_give_other_events_at_each_run() {
    let seed = test_seed!(315);
    let mut draw = Draw::new(seed);
    // The triggers of each file, and the time by which its clock is ahead.
    let files: [(RangeInclusive<u64>, u64); 2] = [(0..=1999, 0), (700..=2999, 60_000 * MS)];
    let mut sent = Vec::new();
    for (board, (keys, latency)) in (0..).zip(files.clone()) {
        sent.extend(Board { board, period: MS, latency }.send(keys));
    }
    let case = Case::of(sent).in_files();
    let first = alike(&case, draw.bits());
    assert_eq!((first.complete(), first.late()), (3000, 0));
    assert_eq!(first.sizes(), [(1, 1700), (2, 1300)]);
    for (key, boards) in first.joined() {
        let expected = files.iter().filter(|its| its.0.contains(&key.1)).count();
        assert_eq!(boards.len(), expected, "key {}", key.1);
    }
    for _ in 1..10 {
        assert!(distributed(&case, draw.bits()) == first, "a run is not repeated");
    }
}
