//! Packet counters and the table of sources compared with simple models.

use std::net::SocketAddr;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::{Parsed, Part, Reject, RejectReason, SourceKey};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

use super::sequence::{Evidence, HeldFate, Order, SequenceLimits, SequenceRule, SequenceTracker};
use super::{Accepted, FormatRules, PacketRule, Readout, ReadoutLimits, Verdict};
use crate::missing_range::MissingRange;

const fn rule(bits: u8) -> SequenceRule {
    SequenceRule::of_bits(bits)
}

fn tracker(bits: u8) -> SequenceTracker {
    SequenceTracker::new(rule(bits), SequenceLimits::default())
}

fn orders(tracker: &mut SequenceTracker, values: &[u64]) -> Vec<Order> {
    values.iter().map(|&value| tracker.observe(value, None).order).collect()
}

fn ranges(tracker: &SequenceTracker) -> Vec<(u64, u64)> {
    tracker.missing().map(|MissingRange { first, last, .. }| (first, last)).collect()
}

#[test]
fn swapped_pair_counts_0_lost_1_reordered() {
    let mut tracker = tracker(32);
    assert_eq!(
        orders(&mut tracker, &[1, 2, 4, 3, 5]),
        [
            Order::InOrder,
            Order::InOrder,
            Order::Gap { missing: 1 },
            Order::Reordered,
            Order::InOrder
        ]
    );
    assert_eq!((tracker.expected(), tracker.lost()), (5, 0));
    assert!(ranges(&tracker).is_empty());
}

#[test]
fn burst_of_1000_lost_counts_1000() {
    let mut tracker = tracker(32);
    let burst = orders(&mut tracker, &[10, 1011]);
    assert_eq!(burst[1], Order::Gap { missing: 1000 });
    assert_eq!((tracker.expected(), tracker.lost()), (1002, 1000));
    assert_eq!(ranges(&tracker), [(11, 1010)]);
}

#[test]
fn duplicate_is_not_received_again() {
    let mut tracker = tracker(16);
    let seen = orders(&mut tracker, &[7, 8, 8, 7, 10, 8]);
    assert_eq!(seen.iter().filter(|&&order| order == Order::Duplicate).count(), 3);
    assert_eq!((tracker.expected(), tracker.lost()), (4, 1));
}

#[test]
fn swapped_first_packets_are_kept() {
    let mut tracker = tracker(16);
    assert_eq!(orders(&mut tracker, &[3, 0, 1])[1..], [Order::Reordered, Order::Reordered]);
    assert_eq!((tracker.expected(), tracker.lost()), (4, 1));
    assert_eq!(ranges(&tracker), [(2, 2)]);
}

#[test]
fn wrap_is_neither_loss_nor_restart() {
    for bits in [4, 8, 12, 16, 32, 64] {
        let mut tracker = tracker(bits);
        let top = u64::MAX >> (64 - bits);
        let seen = orders(&mut tracker, &[top - 1, top, 0, 1]);
        assert!(seen.iter().all(|&order| order == Order::InOrder), "{bits} bits: {seen:?}");
        assert_eq!((tracker.expected(), tracker.lost()), (4, 0), "{bits} bits");
    }
}

#[test]
fn restart_is_confirmed_by_the_next_packet_and_loses_none() {
    let mut tracker = tracker(32);
    orders(&mut tracker, &[100_000, 100_002]);
    assert_eq!(tracker.observe(0, None).order, Order::Doubtful);
    let next = tracker.observe(1, None);
    assert_eq!(next.held, Some(HeldFate::Restart { sequence: 0 }));
    assert_eq!(next.order, Order::InOrder);
    assert_eq!((tracker.expected(), tracker.lost(), tracker.restarts()), (5, 1, 1));
    let missing: Vec<_> = tracker.missing().collect();
    assert_eq!(missing, [MissingRange { epoch: 0, first: 100_001, last: 100_001 }]);
}

#[test]
fn straggler_is_late_and_not_a_restart() {
    let mut tracker = tracker(32);
    orders(&mut tracker, &[100_000]);
    assert_eq!(tracker.observe(5, None).order, Order::Doubtful);
    let next = tracker.observe(100_001, None);
    assert_eq!((next.held, next.order), (Some(HeldFate::Late), Order::InOrder));
    assert_eq!((tracker.expected(), tracker.restarts()), (2, 0));
}

fn with_content(content: u16) -> Evidence {
    Evidence { content: Some(content), ..Evidence::default() }
}

#[test]
fn restart_within_the_window_shows_by_other_content() {
    let mut tracker = tracker(32);
    for number in 0..700 {
        tracker.observe(number, with_content(number as u16));
    }
    assert_eq!(tracker.observe(0, with_content(5000)).order, Order::Doubtful);
    let next = tracker.observe(1, with_content(5001));
    assert_eq!(next.held, Some(HeldFate::Restart { sequence: 0 }));
    assert_eq!(next.order, Order::InOrder);
    let rest = (2..700).map(|number| tracker.observe(number, with_content(7000)).order);
    assert!(rest.into_iter().all(|order| order == Order::InOrder));
    assert_eq!((tracker.expected(), tracker.lost(), tracker.restarts()), (1400, 0, 1));
}

#[test]
fn copies_are_duplicates_and_other_packets_of_the_same_number_are_not() {
    let mut tracker = tracker(32);
    let mut counts = (0, 0, 0);
    for number in 0..100 {
        // Two senders with one source key, packet by packet, and every tenth packet twice.
        for content in [number as u16, number as u16, 1000 + number as u16] {
            if content == number as u16 && number % 10 != 0 && counts.0 > number {
                continue;
            }
            let observed = tracker.observe(number, with_content(content));
            counts.0 += u64::from(observed.order == Order::InOrder);
            counts.1 += u64::from(observed.order == Order::Duplicate);
            counts.2 += u64::from(observed.held == Some(HeldFate::Late));
        }
    }
    assert_eq!(counts, (100, 10, 99), "in order, copies, of the other sender");
    assert!(tracker.finish().is_some(), "the last one is kept aside until the end");
}

#[test]
fn restart_after_a_single_packet_loses_none() {
    let mut tracker = tracker(32);
    let packet = |key, content| Evidence { key: Some(key), ..with_content(content) };
    tracker.observe(5, packet(100, 1));
    // The numbers from before its first one seem to have been overtaken.
    assert_eq!(tracker.observe(4, packet(200, 2)).order, Order::Reordered);
    assert_eq!(tracker.observe(5, packet(201, 3)).order, Order::Doubtful);
    let next = tracker.observe(6, packet(202, 4));
    assert_eq!(next.held, Some(HeldFate::Restart { sequence: 5 }));
    assert_eq!((next.order, tracker.lost(), tracker.restarts()), (Order::InOrder, 0, 1));
    // An equal key shows no restart: another sender has the same source key.
    assert_eq!(tracker.observe(6, packet(202, 5)).order, Order::Doubtful);
    assert_eq!(tracker.observe(7, packet(203, 6)).held, Some(HeldFate::Late));
}

#[test]
fn restart_within_the_window_shows_by_a_later_time() {
    let mut tracker = tracker(32);
    for number in 0..10 {
        tracker.observe(number, Some(1000 + number));
    }
    assert_eq!(tracker.observe(9, Some(1009)).order, Order::Duplicate);
    assert_eq!(tracker.observe(0, Some(2000)).order, Order::Doubtful);
    let next = tracker.observe(1, Some(2001));
    assert_eq!(next.held, Some(HeldFate::Restart { sequence: 0 }));
    assert_eq!((tracker.expected(), tracker.lost()), (12, 0));
}

#[test]
fn restart_over_a_number_lost_before_does_not_fill_the_old_gap() {
    let mut tracker = tracker(32);
    for number in [0, 2, 3, 4] {
        tracker.observe(number, Some(1000 + number));
    }
    assert_eq!(tracker.observe(0, Some(2000)).order, Order::Doubtful);
    let next = tracker.observe(1, Some(2001));
    assert_eq!((next.held, next.order), (Some(HeldFate::Restart { sequence: 0 }), Order::InOrder));
    assert_eq!((tracker.expected(), tracker.lost(), tracker.restarts()), (7, 1, 1));
}

#[test]
fn repeat_of_the_packet_kept_aside_has_its_own_number() {
    let mut tracker = tracker(32);
    orders(&mut tracker, &[100_000, 5]);
    let repeat = tracker.observe(5, None);
    assert_eq!((repeat.held, repeat.order, repeat.sequence), (None, Order::Duplicate, 5));
    let next = tracker.observe(6, None);
    assert_eq!(next.held, Some(HeldFate::Restart { sequence: 5 }));
}

#[test]
fn whole_wraps_of_a_narrow_counter_are_found_by_time() {
    let rule = SequenceRule { timestamp_step_ns: Some(100), ..rule(4) };
    let mut tracker = SequenceTracker::new(rule, SequenceLimits::default());
    tracker.observe(3, Some(300));
    assert_eq!(tracker.observe(4, Some(400)).order, Order::InOrder);
    // 16 packets were lost: the counter alone shows nothing.
    assert_eq!(tracker.observe(5, Some(2100)).order, Order::Gap { missing: 16 });
    assert_eq!(tracker.lost(), 16);
    assert_eq!(tracker.observe(4, Some(2000)).order, Order::Reordered);
    assert_eq!(tracker.observe(4, Some(2010)).order, Order::Duplicate);
}

#[test]
fn steps_other_than_one_wrap_right() {
    for step in [2, 3, 7, 1000] {
        let rule = SequenceRule { step, ..rule(16) };
        let mut tracker = SequenceTracker::new(rule, SequenceLimits::default());
        for packet in 0..200_000_u64 {
            let order = tracker.observe((packet * step) & 0xFFFF, None).order;
            assert_eq!(order, Order::InOrder, "step {step}, packet {packet}");
        }
        assert_eq!(tracker.expected(), 200_000);
    }
}

#[test]
fn full_list_of_ranges_still_counts() {
    let limits = SequenceLimits { ranges_max: 3, ..SequenceLimits::default() };
    let mut tracker = SequenceTracker::new(rule(32), limits);
    for number in 0..10 {
        tracker.observe(number * 10, None);
    }
    assert_eq!(tracker.lost(), 81);
    assert_eq!(ranges(&tracker), [(1, 9), (11, 19), (21, 29)]);
    assert_eq!(tracker.missing_not_listed(), 54);
    orders(&mut tracker, &[55, 15]);
    assert_eq!(tracker.lost(), 79);
    assert_eq!(ranges(&tracker), [(1, 9), (11, 14), (21, 29)]);
    assert_eq!(tracker.missing_not_listed(), 57);
}

/// Arbitrary numbers: nothing panics, and each packet is counted once.
#[test]
fn random_numbers_are_each_counted_once() {
    for seed in 0..40_u64 {
        println!("seed {seed}");
        let mut random = Xoshiro256StarStar::seed_from_u64(seed);
        let bits = 4 + (random.next_u64() % 61) as u8;
        let step = 1 + random.next_u64() % 5;
        let sequence =
            SequenceRule { step, timestamp_step_ns: (seed % 2 == 0).then_some(10), ..rule(bits) };
        let mut readout = readout(Some(sequence), 64);
        let mut delivered = 0_u64;
        let mut value = 0_u64;
        for _ in 0..5000 {
            value = match random.next_u64() % 10 {
                0 => random.next_u64(),
                1 => random.next_u64() % 20,
                2 => value.wrapping_sub(random.next_u64() % 6000),
                _ => value.wrapping_add(step),
            };
            let parsed = parsed(value, Some(random.next_u64() % 100_000));
            readout.accept(0, &datagram(&[1, 2, 3]), &parsed, |_, _, _| delivered += 1);
        }
        readout.finish(|_, _, _| delivered += 1);
        let counters = readout.sources()[0].counters();
        assert_eq!(counters.parsed, 5000);
        assert_eq!(counters.held, 0);
        assert_eq!(counters.to_builder, delivered);
        assert_eq!(counters.parsed, counters.duplicate + counters.late + counters.to_builder);
        assert_eq!(counters.to_builder, counters.in_order + counters.reordered);
        assert_eq!(counters.expected, counters.to_builder + counters.lost);
    }
}

fn readout(sequence: Option<SequenceRule>, sources_max: usize) -> Readout {
    let packet = PacketRule { sequence, ..PacketRule::default() };
    let limits = ReadoutLimits { sources_max, ..ReadoutLimits::default() };
    Readout::new(vec![FormatRules { packets: vec![packet] }], limits)
}

fn datagram(bytes: &[u8]) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 6006, time: Moment::from_ns(5) }
}

fn parsed(sequence: u64, sensor_time_ns: Option<u64>) -> Parsed {
    Parsed {
        step: None,
        counts: None,
        packet: 0,
        source: SourceKey { sender: SenderAddress::NONE, terms: 1 },
        sequence: Some(sequence),
        event: None,
        spill: None,
        part: Part::Whole,
        sensor_time_ns,
        payload_start: 0,
        payload_bytes: 0,
    }
}

#[test]
fn first_packet_after_a_restart_is_delivered_before_the_next() {
    let mut readout = readout(Some(rule(32)), 4);
    let mut delivered = Vec::new();
    for (value, bytes) in [(900_000, b"old"), (0, b"one"), (1, b"two")] {
        let verdict =
            readout.accept(0, &datagram(bytes), &parsed(value, None), |accepted, packet, _| {
                delivered.push((accepted.epoch, accepted.sequence, packet.bytes.to_vec()));
            });
        assert_eq!(verdict == Verdict::Held, value == 0);
    }
    assert_eq!(
        delivered,
        [
            (0, Some(900_000), b"old".to_vec()),
            (1, Some(0), b"one".to_vec()),
            (1, Some(1), b"two".to_vec()),
        ]
    );
}

#[test]
fn doubtful_packet_at_the_end_is_not_lost() {
    let mut readout = readout(Some(rule(32)), 4);
    let mut delivered = 0;
    for value in [900_000, 0] {
        readout.accept(0, &datagram(b"x"), &parsed(value, None), |_, _, _| delivered += 1);
    }
    assert_eq!((delivered, readout.sources()[0].counters().held), (1, 1));
    readout.finish(|_, _, _| delivered += 1);
    assert_eq!((delivered, readout.sources()[0].counters().restarts), (2, 1));
}

#[test]
fn forged_senders_do_not_grow_the_table() {
    let mut readout = readout(None, 3);
    for terms in 0..1000 {
        let mut parsed = parsed(0, None);
        parsed.source.terms = terms;
        readout.accept(0, &datagram(b"x"), &parsed, |_: &Accepted, _, _| {});
    }
    assert_eq!((readout.sources().len(), readout.refused()), (3, 997));
}

#[test]
fn first_rejected_packet_of_each_reason_is_kept() {
    let mut readout = readout(None, 3);
    let reject = |field| Reject { reason: RejectReason::Value, packet: 0, field };
    readout.reject(0, reject(1), &datagram(b"first"));
    readout.reject(0, reject(2), &datagram(b"other"));
    readout.reject(0, reject(1), &datagram(b"second"));
    let rows = readout.rejects();
    assert_eq!((rows[0].packets, rows[0].first_bytes.as_slice()), (2, b"first".as_slice()));
    assert_eq!((rows[1].packets, readout.rejected()), (1, 3));
    for field in 10..1000 {
        readout.reject(0, reject(field), &datagram(b"flood"));
    }
    assert_eq!(readout.rejects().len(), 256);
    assert_eq!((readout.rejects_other(), readout.rejected()), (736, 993));
}

#[test]
fn labels_name_sender_and_key() {
    let sender = SenderAddress::from("10.0.0.2:6006".parse::<SocketAddr>().unwrap());
    let label = |sender, terms| super::default_label(SourceKey { sender, terms });
    assert_eq!(label(sender, 0), "10.0.0.2:6006");
    assert_eq!(label(sender, 5), "10.0.0.2:6006 0x5");
    assert_eq!(label(SenderAddress::NONE, 17), "0x11");
}
