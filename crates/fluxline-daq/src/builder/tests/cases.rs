//! The worked cases of docs/events.md with their numbers, and data that older rules lost.

use std::collections::BTreeMap;

use super::super::*;
use super::world::*;
use crate::event::EventStatus;

fn boards(count: u32, period: u64, keys: std::ops::Range<u64>) -> Vec<Sent> {
    let board = |source| Board { source, period, latency: u64::from(source) * US };
    (0..count).flat_map(|source| board(source).send(keys.clone())).collect()
}

fn sizes<const N: usize>(pairs: [(usize, usize); N]) -> BTreeMap<usize, usize> {
    BTreeMap::from(pairs)
}

#[test]
fn a_board_that_misses_the_first_triggers_makes_nothing_incomplete() {
    let mut packets = boards(7, MS, 0..2000);
    packets.extend(Board { source: 7, period: MS, latency: 10 * US }.send(200..2000));
    let out = run(packets);
    assert_eq!((out.complete(), out.late()), (2000, 0));
    assert_eq!(out.sizes(), sizes([(7, 200), (8, 1800)]));
    assert_eq!(out.reports, ["board=7 joined at key 200, 0.2 s after the others"]);
}

#[test]
fn a_board_that_joins_after_three_seconds_is_late_once() {
    let mut packets = boards(7, MS, 0..5000);
    packets.extend(Board { source: 7, period: MS, latency: 10 * US }.send(3000..5000));
    let out = run(packets);
    assert_eq!((out.complete(), out.late()), (5000, 1));
    assert_eq!(out.sizes(), sizes([(7, 3000), (8, 2000)]));
}

#[test]
fn a_board_that_lags_is_late_at_the_start_only() {
    for (latency, late, open) in [(200, 191, 201), (700, 691, 701)] {
        let mut packets = boards(7, MS, 0..2000);
        packets.extend(Board { source: 7, period: MS, latency: latency * MS }.send(0..2000));
        let out = run(packets);
        assert_eq!((out.complete(), out.late(), out.open_most), (2000, late, open));
        assert_eq!(out.sizes(), sizes([(8, 2000)]));
        let behind = format!("board=7 is {latency} ms behind board=0: events wait for it");
        let behind = if latency == 200 {
            behind.replace("200 ms", "0.2 s")
        } else {
            behind.replace("700 ms", "0.7 s")
        };
        assert!(out.reports.contains(&behind), "{:?}", out.reports);
    }
}

#[test]
fn a_board_that_dies_at_50_khz_costs_the_living_nothing() {
    let mut packets = boards(2, 20 * US, 0..100_000);
    packets.extend(Board { source: 2, period: 20 * US, latency: 2 * US }.send(0..5000));
    let out = run(packets);
    assert_eq!((out.complete(), out.count(EventStatus::Incomplete)), (5000, 95_000));
    assert_eq!((out.total("builder_full"), out.late()), (0, 0));
    assert_eq!(out.reports, ["board=2 silent since key 4999: events go on without it"]);
    assert_eq!(out.summary[2].state, SourceState::Dead);
    let gone = out.rows.iter().filter(|row| row.missing == "board=2: silent since key 4999");
    assert_eq!(gone.count(), 95_000);
}

#[test]
fn a_board_that_is_off_for_two_seconds_is_missed_only_then() {
    let mut packets = boards(3, MS, 0..5000);
    let board = Board { source: 3, period: MS, latency: 4 * US };
    packets.extend(board.send(0..1000));
    packets.extend(board.send(3000..5000));
    let out = run(packets);
    // The first packet of a counter that began anew is kept until the second confirms it.
    assert_eq!((out.rows.len() - out.late(), out.late()), (5000, 2));
    assert_eq!((out.complete(), out.count(EventStatus::Incomplete)), (2998, 2002));
    assert_eq!(out.sizes(), sizes([(3, 2000), (4, 3000)]));
    let said = [
        "board=3 silent since key 999: events go on without it",
        "board=3 sends again from key 3000 on: events wait for it",
    ];
    assert_eq!(out.reports, said);
}

#[test]
fn a_prescaled_board_is_not_missed() {
    let mut packets = Board { source: 0, period: 100 * US, latency: 0 }.send(0..10_000);
    let keys = (0..10_000).step_by(10);
    packets.extend(Board { source: 1, period: 100 * US, latency: US }.send(keys));
    let out = run(packets);
    assert_eq!((out.complete(), out.late()), (10_000, 0));
    assert_eq!(out.sizes(), sizes([(1, 9000), (2, 1000)]));
    assert_eq!(out.reports, Vec::<String>::new());
}

#[test]
fn a_prescaled_board_at_1_hz_is_amended_and_never_dead() {
    let mut packets = Board { source: 0, period: 1000 * MS, latency: 0 }.send(0..100);
    let keys = (0..100).step_by(10);
    packets.extend(Board { source: 1, period: 1000 * MS, latency: 100 * US }.send(keys));
    let out = run(packets);
    assert_eq!(out.sizes(), sizes([(1, 90), (2, 10)]));
    let silent = out.reports.iter().filter(|text| text.contains("silent")).count();
    assert_eq!(silent, 0, "{:?}", out.reports);
    // An amendment explains the incomplete events: the board had sent nothing for them.
    let amended = |key: u64| {
        out.amendments
            .iter()
            .any(|its| its.source == 1 && its.after.key < key && key < its.before.key)
    };
    for row in out.rows.iter().filter(|row| row.status == EventStatus::Incomplete) {
        let filled =
            out.rows.iter().any(|its| its.key == row.key && its.status == EventStatus::Late);
        assert!(amended(row.key) || filled, "{row:?}");
    }
}

fn spills(counters: fn(u64, u64) -> u64) -> Vec<Sent> {
    let mut packets = Vec::new();
    for board in 0..2 {
        for spill in 0..3 {
            for key in 0..1000 {
                let at = spill * 3000 * MS + key * MS + board * US;
                packets.push(sent(at, board as u32, counters(spill, key), key));
            }
        }
    }
    packets
}

#[test]
fn three_spills_of_the_same_keys_are_three_times_as_many_events() {
    let out = run(spills(|spill, key| spill * 1000 + key));
    assert_eq!((out.complete(), out.late(), out.total("event_duplicate")), (3000, 0, 0));
    assert_eq!(out.sizes(), sizes([(2, 3000)]));
    assert_eq!(out.reports, ["keys count anew (spill 1)", "keys count anew (spill 2)"]);
    assert_eq!(out.joined().keys().filter(|key| key.0 == 2).count(), 1000);
}

#[test]
fn spills_in_which_counters_begin_anew_too_lose_nothing() {
    let out = run(spills(|_, key| key));
    assert_eq!((out.total("duplicate"), out.total("event_duplicate")), (0, 0));
    assert_eq!(out.sizes(), sizes([(2, 3000)]));
    assert_eq!(out.complete(), 3000);
}

#[test]
fn a_spill_number_in_the_packet_is_the_generation() {
    let mut packets = spills(|spill, key| spill * 1000 + key);
    // Without a pause, and overlapping: only the number in the packet distinguishes them.
    for packet in &mut packets {
        let spill = packet.count.unwrap() / 1000;
        packet.spill = Some((spill + 255) % 256);
        packet.at = packet.count.unwrap() * 10 * US + u64::from(packet.source) * 15 * MS;
    }
    let out = run_with(shared(), Widths { spill: 8, ..WIDE }, packets);
    assert_eq!(out.sizes(), sizes([(2, 3000)]));
    let generations: Vec<u32> = out.joined().keys().map(|key| key.0).collect();
    assert_eq!((generations[0], generations[2999]), (255, 257));
}

#[test]
fn keys_of_16_bits_that_wrap_are_no_new_beginning() {
    let mut packets = boards(2, 100 * US, 0..70_000);
    packets.iter_mut().for_each(|packet| packet.key %= 1 << 16);
    let out = run_with(shared(), Widths { key: 16, ..WIDE }, packets);
    assert_eq!((out.complete(), out.late()), (70_000, 0));
    assert_eq!(out.sizes(), sizes([(2, 70_000)]));
    assert_eq!(out.joined().keys().next_back(), Some(&(0, 69_999)));
    assert_eq!(out.reports, Vec::<String>::new());
}

#[test]
fn a_board_that_begins_just_before_a_wrap_and_one_just_after_are_together() {
    let mut packets = Vec::new();
    for key in 0..1000_u64 {
        packets.push(sent(key * MS, 0, key, key % 256));
        // One trigger behind, from the last key before the wrap on.
        packets.push(sent(key * MS + US, 1, key, (key + 255) % 256));
    }
    let out = run_with(shared(), Widths { key: 8, ..WIDE }, packets);
    assert_eq!(out.sizes(), sizes([(1, 2), (2, 999)]));
    let first = out.joined().into_iter().find(|its| its.1.len() == 1 && its.1.contains(&1));
    assert_eq!(first.map(|its| its.0), Some((0, u64::MAX)), "just before key 0");
}

/// Two boards send keys 0 to 999; a third begins at key 0, `pause_ms` after their last packet.
fn third_board_begins_after(pause_ms: u64) -> Outcome {
    let mut packets = boards(2, MS, 0..1000);
    let third = Board { source: 2, period: MS, latency: (999 + pause_ms) * MS };
    packets.extend(third.send(0..1000));
    run(packets)
}

/// The limit that docs/events.md states under "The limits".
#[test]
fn a_source_that_begins_after_all_others_were_silent_has_a_generation_of_its_own() {
    let out = third_board_begins_after(501);
    assert_eq!((out.total("recorded"), out.total("event_duplicate")), (out.pushed, 0));
    assert_eq!(out.sizes(), sizes([(2, 1000), (1, 1000)]));
    for ((generation, key), sources) in out.joined() {
        let is_third = sources.contains(&2);
        assert_eq!((generation, sources.len()), if is_third { (1, 1) } else { (0, 2) }, "{key}");
    }
    // Within the time-out its packets are late, and joined.
    let out = third_board_begins_after(499);
    assert_eq!(out.total("recorded"), out.pushed);
    assert_eq!(out.sizes(), sizes([(3, 1000)]));
    assert!(out.joined().keys().all(|key| key.0 == 0));
}

#[test]
fn a_trigger_number_that_is_off_by_one_is_said() {
    let mut packets = Board { source: 0, period: MS, latency: 0 }.send(0..5000);
    packets.extend((0..5000).map(|key| sent(key * MS + US, 1, key, key + 1)));
    let out = run(packets);
    assert_eq!(out.sizes(), sizes([(1, 2), (2, 4999)]));
    let said = "board=1 began at key 1 and board=0 at key 0, 1 us apart: its trigger number may \
                be off by 1";
    assert_eq!(out.reports, [said]);
}

#[test]
fn packets_that_come_twice_are_duplicates_and_nothing_else() {
    let mut packets = boards(2, MS, 0..1000);
    let twice: Vec<Sent> = packets.iter().filter(|its| its.key % 100 == 0).copied().collect();
    packets.extend(twice.into_iter().map(|its| Sent { at: its.at + 50 * US, ..its }));
    let out = run(packets);
    assert_eq!((out.complete(), out.late(), out.total("duplicate")), (1000, 0, 20));
}

#[test]
fn packets_out_of_order_are_waited_for_as_long_as_they_were_late_before() {
    for (delay, late_most) in [(5, 0), (25, 3)] {
        let mut packets = boards(2, MS, 0..3000);
        for packet in packets.iter_mut().filter(|its| (its.key * 7919 + 13) % 50 == 0) {
            packet.at += delay * MS;
        }
        let out = run(packets);
        assert!(out.late() <= late_most, "{delay} ms: {} late", out.late());
        assert_eq!(out.sizes(), sizes([(2, 3000)]));
    }
}

#[test]
fn a_pause_of_all_makes_nobody_silent() {
    let mut packets = Vec::new();
    for board in 0..4_u32 {
        for key in 0..2000 {
            let pause = if key < 1000 { 0 } else { 10_000 * MS };
            packets.push(sent(key * MS + pause + u64::from(board) * US, board, key, key));
        }
    }
    // The last event before the pause lacks a packet.
    packets.retain(|its| its.key != 999 || its.source != 3);
    let out = run(packets);
    assert_eq!((out.complete(), out.count(EventStatus::Incomplete)), (1999, 1));
    assert_eq!(out.reports, Vec::<String>::new());
    assert!(out.summary.iter().all(|its| its.state == SourceState::Live));
}

#[test]
fn a_run_that_is_stopped_in_the_middle_of_an_event_says_so() {
    let board = |source| Board { source, period: MS, latency: u64::from(source) * 400 * US };
    let mut packets: Vec<Sent> = (0..4).flat_map(|source| board(source).send(0..1000)).collect();
    packets.retain(|its| its.at <= 500 * MS + 500 * US);
    let out = run(packets);
    assert_eq!((out.complete(), out.count(EventStatus::Stopped)), (500, 1));
}

#[test]
fn six_boards_that_begin_200_ms_apart_lose_nothing() {
    let mut packets = Vec::new();
    for board in 0..6 {
        let all = Board { source: board, period: MS, latency: u64::from(board) * US };
        packets.extend(all.send(u64::from(board) * 200..4000));
    }
    let out = run(packets);
    assert_eq!(out.pushed, 21_000);
    assert_eq!(out.total("recorded"), 21_000);
    assert_eq!((out.complete(), out.total("event_duplicate")), (4000, 0));
}

#[test]
fn a_board_that_comes_a_second_late_is_recorded() {
    let mut packets = boards(3, MS, 0..4000);
    packets.extend(Board { source: 3, period: MS, latency: 1000 * MS }.send(0..4000));
    let out = run(packets);
    assert_eq!(out.total("recorded"), 16_000);
    assert_eq!(out.sizes(), sizes([(4, 4000)]));
    assert!(out.late() < 1000, "{}", out.late());
}

#[test]
fn one_board_of_ten_times_the_rate_makes_no_event_incomplete() {
    let mut packets = Board { source: 0, period: 100 * US, latency: 0 }.send(0..10_000);
    packets
        .extend(Board { source: 1, period: 100 * US, latency: US }.send((0..10_000).step_by(10)));
    let out = run(packets);
    assert_eq!((out.count(EventStatus::Incomplete), out.complete()), (0, 10_000));
}

/// Boards without a counter, the second one in every `prescale`-th event and `latency` behind.
fn uncounted(prescale: usize, latency: u64) -> Vec<Sent> {
    let mut packets = Vec::new();
    for key in 0..400_u64 {
        for (board, latency) in [(0, 0), (1, latency)] {
            if board == 0 || key.is_multiple_of(prescale as u64) {
                let (at, mark) = (key * 16 * MS + latency, key * 2 + u64::from(board));
                packets.push(Sent { count: None, mark, ..sent(at, board, 0, key) });
            }
        }
    }
    packets
}

#[test]
fn a_rare_board_without_a_counter_makes_no_event_incomplete() {
    for prescale in [2, 7, 50] {
        let out = run(uncounted(prescale, 100 * US));
        assert_eq!(out.count(EventStatus::Incomplete), 0, "one of {prescale}");
    }
}

#[test]
fn late_copies_without_a_counter_are_duplicates_and_begin_no_generation() {
    for latency in [0, 300 * MS] {
        let mut packets = uncounted(1, latency);
        let is_copied = |its: &&Sent| its.source == 1 && its.key % 20 == 7;
        let copies = packets.iter().filter(is_copied).copied();
        let copies: Vec<_> = copies.map(|its| Sent { at: its.at + 20 * MS, ..its }).collect();
        packets.extend(&copies);
        let out = run(packets);
        assert!(out.rows.iter().all(|row| row.generation == 0), "{:?}", out.reports);
        assert_eq!(out.total("event_duplicate"), copies.len() as u64);
        assert_eq!(out.count(EventStatus::Incomplete), 0);
    }
}

#[test]
fn a_packet_that_was_overtaken_without_a_counter_begins_no_generation() {
    let mut packets = uncounted(1, 0);
    packets
        .iter_mut()
        .filter(|its| its.source == 1 && its.key == 200)
        .for_each(|its| its.at += 60 * MS);
    let out = run(packets);
    assert!(out.rows.iter().all(|row| row.generation == 0), "{:?}", out.reports);
    assert_eq!(out.sizes(), sizes([(2, 400)]));
}
