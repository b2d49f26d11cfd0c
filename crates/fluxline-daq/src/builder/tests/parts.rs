//! Parts of fragments, bounds of memory and windows: known failures of other event builders, by
//! name.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_packet::{Parsed, Part, SourceKey};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

use super::super::*;
use crate::event::{EventRow, EventStatus};
use crate::ledger::Ledger;
use crate::readout::{Accepted, Counted, FormatRules, PacketRule, Readout, ReadoutLimits};

/// One packet in short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) source: u32,
    /// Its place in the count of packets, and how often the counter restarted before.
    pub(super) count: Option<(u64, u32)>,
    pub(super) key: Option<u64>,
    pub(super) bits: u8,
    pub(super) part: Part,
    pub(super) payload: &'static [u8],
    pub(super) at_ms: u64,
    pub(super) sensor_ns: Option<u64>,
}

pub(super) const PACKET: Packet = Packet {
    source: 0,
    count: None,
    key: Some(1),
    bits: 64,
    part: Part::Whole,
    payload: b"payload",
    at_ms: 0,
    sensor_ns: None,
};

fn index(index: u32, count: u32) -> Part {
    Part::Index { index, count }
}

fn bytes(offset: u64, total: u64) -> Part {
    Part::Bytes { offset, total }
}

pub(super) fn at(ms: u64) -> Moment {
    Moment::from_ns(ms * 1_000_000)
}

pub(super) fn push(builder: &mut Builder, packet: Packet) -> Placement {
    let mut buffer = vec![0xAA; 4];
    buffer.extend_from_slice(packet.payload);
    let accepted = Accepted {
        source: packet.source,
        input: 0,
        epoch: 0,
        sequence: None,
        counted: packet.count.map(|(count, restarts)| Counted {
            class: 0,
            count,
            missing: 0,
            reordered: false,
            restarts,
        }),
        event_bits: packet.bits,
        spill_bits: 32,
    };
    let parsed = Parsed {
        step: None,
        counts: None,
        packet: 0,
        source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
        sequence: None,
        event: packet.key,
        spill: None,
        part: packet.part,
        sensor_time_ns: packet.sensor_ns,
        payload_start: 4,
        payload_bytes: packet.payload.len() as u32,
    };
    let time = at(packet.at_ms);
    let datagram = Datagram { bytes: &buffer, sender: SenderAddress::NONE, port: 0, time };
    builder.push(time, &accepted, &datagram, &parsed)
}

pub(super) fn config(mode: Mode, expectation: Expectation) -> BuilderConfig {
    let time_out = Span::from_ms(100);
    BuilderConfig { mode, expectation, time_out, ..BuilderConfig::default() }
}

fn per_source() -> Builder {
    Builder::new(config(Mode::Key(Scope::PerSource), Expectation::Count(1)))
}

fn global(count: u32) -> Builder {
    Builder::new(config(Mode::Key(Scope::Global), Expectation::Count(count)))
}

pub(super) fn take(builder: &mut Builder) -> EventBatch {
    builder.take_batch(EventBatch::default())
}

pub(super) fn finish(builder: &mut Builder) -> EventBatch {
    builder.finish(Moment::default());
    assert_eq!((builder.events_open(), builder.open.bytes), (0, 0));
    take(builder)
}

pub(super) fn statuses(batch: &EventBatch) -> Vec<(Option<u64>, EventStatus, u32)> {
    batch.events.iter().map(|event| (event.key, event.status, event.packets)).collect()
}

#[test]
fn an_event_whose_packets_were_on_the_way_is_complete_after_the_builder_was_cut_off() {
    let mut builder = global(1);
    push(&mut builder, PACKET);
    builder.cut();
    // Nobody knows if a second source would have come.
    assert_eq!(statuses(&finish(&mut builder)), [(Some(1), EventStatus::Stopped, 1)]);

    let mut builder = per_source();
    push(&mut builder, PACKET);
    push(&mut builder, Packet { key: Some(2), part: index(0, 2), ..PACKET });
    builder.cut();
    // A whole event of one source needs no other.
    let wanted = [(Some(1), EventStatus::Complete, 1), (Some(2), EventStatus::Stopped, 1)];
    assert_eq!(statuses(&finish(&mut builder)), wanted);
}

#[test]
fn one_duplicate_and_one_loss_is_not_complete() {
    let mut builder = per_source();
    for (number, wanted) in
        [(0, Placement::Stored), (1, Placement::Stored), (1, Placement::EventDuplicate)]
    {
        assert_eq!(push(&mut builder, Packet { part: index(number, 3), ..PACKET }), wanted);
    }
    let batch = finish(&mut builder);
    assert_eq!(statuses(&batch), [(Some(1), EventStatus::Stopped, 2)]);
    assert_eq!(batch.missing, "source 0: packets 2 of 3 missing");

    let mut builder = per_source();
    for offset in [0, 7, 7] {
        push(&mut builder, Packet { part: bytes(offset, 21), ..PACKET });
    }
    let batch = finish(&mut builder);
    assert_eq!(statuses(&batch), [(Some(1), EventStatus::Stopped, 2)]);
    assert_eq!(batch.missing, "source 0: bytes 14-20 of 21 missing");
}

#[test]
fn late_first_segment_does_not_restart_its_event() {
    let mut builder = per_source();
    for number in [1, 2, 0] {
        push(&mut builder, Packet { part: index(number, 3), ..PACKET });
    }
    assert_eq!(
        push(&mut builder, Packet { part: index(0, 3), ..PACKET }),
        Placement::EventDuplicate
    );
    let batch = finish(&mut builder);
    assert_eq!(statuses(&batch), [(Some(1), EventStatus::Complete, 3)]);

    push(&mut builder, Packet { key: Some(2), part: index(1, 2), ..PACKET });
    builder.poll(at(100));
    let late = Packet { key: Some(2), part: index(0, 2), at_ms: 101, ..PACKET };
    assert_eq!(push(&mut builder, late), Placement::Late);
    let batch = finish(&mut builder);
    let wanted = [(Some(2), EventStatus::Incomplete, 1), (Some(2), EventStatus::Late, 1)];
    assert_eq!(statuses(&batch), wanted);
}

#[test]
fn offset_plus_length_beyond_the_total_is_not_stored() {
    let mut builder = per_source();
    for part in [bytes(95, 100), bytes(u64::MAX, 100), index(5, 5), index(0, 0)] {
        assert_eq!(push(&mut builder, Packet { part, ..PACKET }), Placement::Inconsistent);
    }
    assert!(finish(&mut builder).is_empty());
}

#[test]
fn late_packet_does_not_close_the_wrong_frame() {
    let mut builder = per_source();
    push(&mut builder, Packet { key: Some(1), part: index(0, 2), ..PACKET });
    push(&mut builder, Packet { key: Some(2), part: index(0, 2), ..PACKET });
    push(&mut builder, Packet { key: Some(1), part: index(1, 2), ..PACKET });
    assert_eq!(statuses(&take(&mut builder)), [(Some(1), EventStatus::Complete, 2)]);
    assert_eq!(builder.events_open(), 1);
    push(&mut builder, Packet { key: Some(1), part: index(1, 2), ..PACKET });
    assert_eq!(builder.events_open(), 1);
}

#[test]
fn overload_closes_the_oldest_event_and_refuses_nothing() {
    let limits = BuilderConfig {
        events_open_max: 4,
        ..config(Mode::Key(Scope::PerSource), Expectation::Count(1))
    };
    let mut builder = Builder::new(limits);
    let placed = |builder: &mut Builder, key, number| {
        push(builder, Packet { key: Some(key), part: index(number, 2), ..PACKET })
    };
    for key in 1..=3 {
        assert_eq!(placed(&mut builder, key, 0), Placement::Stored);
    }
    assert_eq!(statuses(&take(&mut builder)), [(Some(1), EventStatus::Incomplete, 1)]);
    assert_eq!(placed(&mut builder, 2, 1), Placement::Stored);
    assert_eq!(placed(&mut builder, 1, 1), Placement::Late);
    let wanted = [(Some(2), EventStatus::Complete, 2), (Some(1), EventStatus::Late, 1)];
    assert_eq!(statuses(&take(&mut builder)), wanted);
    assert_eq!(builder.source_counters()[0].builder_full, 0);
}

#[test]
fn memory_is_bounded_when_nobody_takes_batches() {
    for mode in [Mode::Packet, Mode::Key(Scope::PerSource)] {
        let limits =
            BuilderConfig { bytes_open_max: 10_000, ..config(mode, Expectation::Count(1)) };
        let mut builder = Builder::new(limits);
        let mut full = 0;
        for key in 0..10_000 {
            let packet = Packet { key: Some(key), part: index(0, 2), at_ms: key, ..PACKET };
            full += u64::from(push(&mut builder, packet) == Placement::BuilderFull);
            builder.poll(at(key));
        }
        assert!(full > 9000, "{mode:?}: {full}");
        assert!(builder.bytes_open() < 40_000, "{mode:?}: {}", builder.bytes_open());
        let _ = take(&mut builder);
        builder.poll(at(20_000));
        let _ = take(&mut builder);
        let packet = Packet { key: Some(20_000), at_ms: 20_000, ..PACKET };
        assert_eq!(push(&mut builder, packet), Placement::Stored);
    }
}

#[test]
fn one_silent_source_does_not_stop_the_run() {
    let labels = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let sources = Expectation::Sources(labels);
    let mut builder = Builder::new(config(Mode::Key(Scope::Global), sources));
    builder.name_source(0, "a");
    builder.name_source(1, "b");
    for key in 0..5 {
        for source in [0, 1] {
            let packet = Packet { source, key: Some(key), at_ms: key, ..PACKET };
            assert_eq!(push(&mut builder, packet), Placement::Stored);
        }
    }
    assert_eq!(builder.next_deadline(), Some(at(10)));
    builder.poll(at(99));
    assert!(take(&mut builder).is_empty());
    builder.poll(at(100));
    let batch = take(&mut builder);
    assert_eq!(batch.events.len(), 5);
    assert!(batch.events.iter().all(|event| event.status == EventStatus::Incomplete));
    assert_eq!(batch.missing, "c: sent nothing".repeat(5));
    assert_eq!(batch.events[0].missing_bytes, 15);
    // Later events do not wait as long for one that has never sent.
    for source in [0, 1] {
        push(&mut builder, Packet { source, key: Some(5), at_ms: 2100, ..PACKET });
    }
    assert_eq!(take(&mut builder).events.len(), 1);
}

#[test]
fn mismatched_events_are_not_joined() {
    let mut builder = global(2);
    push(&mut builder, Packet { source: 0, key: Some(7), ..PACKET });
    push(&mut builder, Packet { source: 1, key: Some(8), ..PACKET });
    let batch = finish(&mut builder);
    let stopped = EventStatus::Stopped;
    assert_eq!(statuses(&batch), [(Some(7), stopped, 1), (Some(8), stopped, 1)]);
}

#[test]
fn contradicting_parts_are_not_stored() {
    let mut builder = per_source();
    push(&mut builder, Packet { part: index(0, 3), ..PACKET });
    for packet in [
        Packet { part: index(1, 4), ..PACKET },
        Packet { part: Part::Whole, ..PACKET },
        Packet { part: bytes(0, 7), ..PACKET },
        Packet { part: index(0, 3), payload: b"another", ..PACKET },
        Packet { part: index(0, 3), payload: b"longer payload", ..PACKET },
    ] {
        assert_eq!(push(&mut builder, packet), Placement::Inconsistent, "{packet:?}");
    }
    assert_eq!(finish(&mut builder).packets.len(), 1);
}

#[test]
fn overlapping_bytes_must_agree() {
    let mut builder = per_source();
    let placed = |builder: &mut Builder, offset, payload| {
        push(builder, Packet { part: bytes(offset, 10), payload, ..PACKET })
    };
    assert_eq!(placed(&mut builder, 0, b"01234"), Placement::Stored);
    assert_eq!(placed(&mut builder, 1, b"123"), Placement::EventDuplicate);
    assert_eq!(placed(&mut builder, 1, b"1x3"), Placement::Inconsistent);
    assert_eq!(placed(&mut builder, 3, b"3x56"), Placement::Inconsistent);
    assert_eq!(placed(&mut builder, 3, b"3456"), Placement::Stored);
    assert_eq!(placed(&mut builder, 7, b"789"), Placement::Stored);
    assert_eq!(statuses(&take(&mut builder)), [(Some(1), EventStatus::Complete, 3)]);
}

#[test]
fn empty_packets_of_a_byte_range_differ_from_their_duplicates() {
    let mut builder = per_source();
    let empty = Packet { part: bytes(0, 7), payload: b"", ..PACKET };
    assert_eq!(push(&mut builder, empty), Placement::Stored);
    assert_eq!(push(&mut builder, empty), Placement::EventDuplicate);
    assert_eq!(push(&mut builder, Packet { part: bytes(0, 7), ..PACKET }), Placement::Stored);
    assert_eq!(statuses(&take(&mut builder)), [(Some(1), EventStatus::Complete, 2)]);
    let empty = Packet { key: Some(2), part: bytes(0, 0), payload: b"", ..PACKET };
    assert_eq!(push(&mut builder, empty), Placement::Stored);
    assert_eq!(take(&mut builder).events[0].status, EventStatus::Complete);
}

#[test]
fn wrapping_key_goes_on_after_the_wrap() {
    let mut builder = per_source();
    for key in [65_534, 65_535, 0, 1, 65_535] {
        push(&mut builder, Packet { key: Some(key), bits: 16, ..PACKET });
    }
    let keys: Vec<_> = take(&mut builder).events.iter().map(|event| event.key).collect();
    assert_eq!(keys, [65_534, 65_535, 65_536, 65_537].map(Some));
}

#[test]
fn a_restart_begins_keys_anew_for_that_source_only() {
    let mut builder = per_source();
    let part = index(0, 2);
    push(&mut builder, Packet { source: 0, key: Some(50), part, count: Some((9, 0)), ..PACKET });
    push(&mut builder, Packet { source: 1, key: Some(50), part, count: Some((9, 0)), ..PACKET });
    push(&mut builder, Packet { source: 0, key: Some(50), count: Some((0, 1)), ..PACKET });
    let batch = take(&mut builder);
    let wanted = [(Some(50), EventStatus::Complete, 1), (Some(50), EventStatus::Incomplete, 1)];
    assert_eq!(statuses(&batch), wanted);
    let generations: Vec<_> = batch.events.iter().map(|its| (its.source, its.generation)).collect();
    assert_eq!(generations, [(Some(0), 1), (Some(0), 0)]);
    assert_eq!(builder.events_open(), 1);
}

#[test]
fn one_wrong_key_neither_closes_what_follows_nor_makes_it_late() {
    for wrong in [1 << 40, 0] {
        let limits = BuilderConfig {
            closed_keys_max: 16,
            ..config(Mode::Key(Scope::Global), Expectation::Joined)
        };
        let mut builder = Builder::new(limits);
        let placed = |builder: &mut Builder, source, key, at_ms: u64| {
            let count = Some((at_ms, 0));
            push(builder, Packet { source, key: Some(key), count, at_ms, ..PACKET })
        };
        for key in 1000..5000 {
            let spoilt = if key % 1000 == 500 { wrong + key / 1000 } else { key };
            assert_eq!(placed(&mut builder, 0, key, key), Placement::Stored, "{key}");
            let placement = placed(&mut builder, 1, spoilt, key);
            assert!(spoilt != key || placement == Placement::Stored, "{key}");
        }
        let batch = finish(&mut builder);
        let both = batch.events.iter().filter(|its| its.packets == 2).count();
        assert_eq!(both, 3996);
        assert_eq!(batch.packets.len(), 8000);
    }
}

#[test]
fn keys_below_all_that_are_remembered_are_late_and_open_nothing() {
    let limits = BuilderConfig {
        closed_keys_max: 16,
        ..config(Mode::Key(Scope::Global), Expectation::Joined)
    };
    let mut builder = Builder::new(limits);
    for key in 1000..5000 {
        push(&mut builder, Packet { key: Some(key), at_ms: key, ..PACKET });
    }
    let straggler = Packet { source: 1, key: Some(1005), at_ms: 5000, ..PACKET };
    assert_eq!(push(&mut builder, straggler), Placement::Late);
    let last = Packet { key: Some(4999), at_ms: 5000, ..PACKET };
    assert_eq!(push(&mut builder, last), Placement::EventDuplicate);
}

#[test]
fn shared_keys_that_count_anew_after_a_restart_do_not_silence_the_run() {
    for restarts in [1, 0] {
        let mut builder = global(1);
        for key in 0..5000 {
            let count = Some((key, 0));
            push(&mut builder, Packet { key: Some(key), count, at_ms: key, ..PACKET });
        }
        for key in 0..5000 {
            let count = Some((key + if restarts == 0 { 5000 } else { 0 }, restarts));
            let packet = Packet { key: Some(key), count, at_ms: 5000 + key, ..PACKET };
            assert_eq!(push(&mut builder, packet), Placement::Stored, "{key}");
        }
        assert_eq!(builder.counters().key_restarts, 1);
        let generations = finish(&mut builder).events.into_iter().map(|event| event.generation);
        assert_eq!(generations.sum::<u32>(), 5000);
    }
}

#[test]
fn a_source_that_is_not_required_is_waited_for_while_it_sends_and_not_missed() {
    let expectation = Expectation::Sources(vec!["a".to_owned()]);
    let mut limits = config(Mode::Key(Scope::Global), expectation);
    limits.settling = Span::ZERO;
    let mut builder = Builder::new(limits);
    builder.name_source(0, "a");
    builder.name_source(1, "b");
    for source in [0, 1] {
        push(&mut builder, Packet { source, key: Some(1), ..PACKET });
    }
    for key in 2..200 {
        push(&mut builder, Packet { key: Some(key), at_ms: key, ..PACKET });
    }
    // It is waited for until it has been silent for the time-out; then events go on without it.
    builder.poll(at(210));
    let batch = take(&mut builder);
    let complete = |event: &&EventRow| event.status == EventStatus::Complete;
    assert_eq!(batch.events.iter().filter(complete).count(), 199);
    let late = Packet { source: 1, key: Some(2), at_ms: 210, ..PACKET };
    assert_eq!(push(&mut builder, late), Placement::Late);
}

#[test]
fn what_comes_twice_is_a_duplicate_be_its_event_closed_or_not() {
    let mut builder = Builder::new(config(Mode::Key(Scope::Global), Expectation::Joined));
    push(&mut builder, PACKET);
    assert_eq!(push(&mut builder, PACKET), Placement::EventDuplicate);
    builder.poll(at(50));
    assert_eq!(take(&mut builder).events.len(), 1);
    assert_eq!(push(&mut builder, PACKET), Placement::EventDuplicate);
    let other = Packet { source: 1, at_ms: 50, ..PACKET };
    assert_eq!(push(&mut builder, other), Placement::Late);
    assert_eq!(push(&mut builder, other), Placement::EventDuplicate);
}

#[test]
fn late_packets_are_dropped_and_counted_where_that_is_asked_for() {
    let mut limits = config(Mode::Key(Scope::Global), Expectation::Joined);
    limits.late = Late::Drop;
    let mut builder = Builder::new(limits);
    push(&mut builder, PACKET);
    builder.poll(at(50));
    let late = Packet { source: 1, at_ms: 50, ..PACKET };
    assert_eq!(push(&mut builder, late), Placement::LateDropped);
    assert_eq!(builder.source_counters()[1].late_dropped, 1);
    assert_eq!(finish(&mut builder).packets.len(), 1);
}

#[test]
fn windows_close_by_time_and_name_the_silent_source() {
    let mode = |clock| Mode::Window { width: Span::from_ms(10), lateness: Span::from_ms(5), clock };
    let mut builder = Builder::new(config(mode(WindowClock::Arrival), Expectation::Count(2)));
    for (source, at_ms) in [(0, 21), (1, 22), (0, 29), (0, 31)] {
        assert_eq!(push(&mut builder, Packet { source, at_ms, ..PACKET }), Placement::Stored);
    }
    builder.poll(at(35));
    let wanted = [(Some(20_000_000), EventStatus::Complete, 3)];
    assert_eq!(statuses(&take(&mut builder)), wanted);
    builder.poll(at(45));
    let batch = take(&mut builder);
    assert_eq!(statuses(&batch), [(Some(30_000_000), EventStatus::Incomplete, 1)]);
    assert_eq!(batch.missing, "1 of 2 sources came; source 1: sent nothing");
    assert_eq!(push(&mut builder, Packet { at_ms: 29, ..PACKET }), Placement::Late);
    assert_eq!(push(&mut builder, Packet { at_ms: 10, ..PACKET }), Placement::Late);

    let mut builder = Builder::new(config(mode(WindowClock::Sensor), Expectation::Count(1)));
    let packet = Packet { sensor_ns: Some(77_000_000), ..PACKET };
    assert_eq!(push(&mut builder, packet), Placement::Stored);
    assert_eq!(push(&mut builder, PACKET), Placement::Stored);
    let batch = finish(&mut builder);
    let wanted = [(None, EventStatus::Complete, 1), (Some(70_000_000), EventStatus::Stopped, 1)];
    assert_eq!(statuses(&batch), wanted);
}

#[test]
fn text_about_what_lacks_is_bounded() {
    let mut builder = per_source();
    for number in (0..60_000).step_by(2) {
        push(&mut builder, Packet { part: index(number, 60_000), ..PACKET });
    }
    let batch = finish(&mut builder);
    assert!(batch.missing.len() < 530, "{}", batch.missing.len());
    assert!(batch.missing.starts_with("source 0: packets 1, 3, 5, "));
    assert!(batch.missing.ends_with('…'));
    assert_eq!(batch.events[0].missing_bytes as usize, batch.missing.len());
}

#[test]
fn rows_and_bytes_of_a_batch_belong_together() {
    let mut builder = per_source();
    push(&mut builder, Packet { key: Some(1), part: index(1, 2), payload: b"bb", ..PACKET });
    push(&mut builder, Packet { key: Some(2), payload: b"other", at_ms: 3, ..PACKET });
    push(&mut builder, Packet { key: None, payload: b"alone", at_ms: 3, ..PACKET });
    push(
        &mut builder,
        Packet { key: Some(1), part: index(0, 2), payload: b"a", at_ms: 4, ..PACKET },
    );
    let batch = take(&mut builder);
    let head = b"\xAA\xAA\xAA\xAA";
    let wanted = [&head[..], b"other", head, b"alone", head, b"bb", head, b"a"].concat();
    assert_eq!(batch.bytes, wanted);
    let event: EventRow = batch.events[2];
    assert_eq!((event.key, event.packets), (Some(1), 2));
    assert_eq!((event.first, event.last, event.built), (at(0), at(4), at(4)));
    let sizes: Vec<_> = batch.packets.iter().map(|row| (row.part, row.bytes)).collect();
    assert_eq!(sizes, [(0, 9), (0, 9), (1, 6), (0, 5)]);
}

/// Without time-outs, an event is complete exactly when the set of its parts is.
#[test]
fn random_arrivals_agree_with_sets_of_parts() {
    for seed in 0..150_u64 {
        println!("seed {seed}");
        let mut random = Xoshiro256StarStar::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound;
        let sources = 1 + below(5) as u32;
        let count = 1 + below(70) as u32;
        let mut arrivals = Vec::new();
        for key in 0..20 {
            for source in 0..sources {
                for number in 0..count {
                    let copies = match below(50) {
                        0 => 0,
                        1 => 2,
                        _ => 1,
                    };
                    for _ in 0..copies {
                        arrivals.push((key * 100 + below(300), key, source, number));
                    }
                }
            }
        }
        arrivals.sort_unstable();
        let mut builder = global(sources);
        let mut model: BTreeMap<u64, BTreeSet<(u32, u32)>> = BTreeMap::new();
        for (_, key, source, number) in arrivals {
            let part = index(number, count);
            let placement = push(&mut builder, Packet { source, key: Some(key), part, ..PACKET });
            let new = model.entry(key).or_default().insert((source, number));
            assert_eq!(placement == Placement::Stored, new);
            assert_eq!(placement == Placement::EventDuplicate, !new);
        }
        let batch = finish(&mut builder);
        let mut packets = batch.packets.iter();
        for event in &batch.events {
            let rows = packets.by_ref().take(event.packets as usize);
            let parts: BTreeSet<_> = rows.map(|row| (row.source, row.part as u32)).collect();
            let wanted = model.remove(&event.key.unwrap()).unwrap();
            assert_eq!(parts, wanted);
            let whole = wanted.len() == (sources * count) as usize;
            assert_eq!(event.status == EventStatus::Complete, whole);
            assert_eq!(event.missing_bytes > 0, !whole);
        }
        assert!(model.is_empty());
    }
}

/// A mode by `seed`, and little room and time.
fn random_config(seed: u64, below: &mut impl FnMut(u64) -> u64) -> BuilderConfig {
    let width = Span::from_ms(20);
    let lateness = Span::from_ms(5);
    let mode = match seed % 5 {
        0 => Mode::Packet,
        1 => Mode::Key(Scope::Global),
        2 => Mode::Key(Scope::PerSource),
        3 => Mode::Window { width, lateness, clock: WindowClock::Arrival },
        _ => Mode::Window { width, lateness, clock: WindowClock::Sensor },
    };
    let expectation = match below(3) {
        0 => Expectation::Count(3),
        1 => Expectation::Sources(vec!["0x0".to_owned(), "0x1".to_owned()]),
        _ => Expectation::Joined,
    };
    BuilderConfig {
        time_out: Span::from_ms(1 + below(60)),
        events_open_max: 1 + below(20) as u32,
        bytes_open_max: 2000 + below(20_000),
        closed_keys_max: 1 + below(50) as u32,
        packets_per_event_max: 20,
        ..config(mode, expectation)
    }
}

/// Random arrivals in any mode, with little room and time: each packet is in exactly one place.
#[test]
fn random_arrivals_are_each_in_exactly_one_place_and_laws_hold() {
    for seed in 0..200_u64 {
        println!("seed {seed}");
        let mut random = Xoshiro256StarStar::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound;
        let limits = random_config(seed, &mut below);
        let rule = PacketRule {
            sequence: None,
            sequence_class: 0,
            event_bits: if below(2) == 0 { 6 } else { 64 },
            ..PacketRule::default()
        };
        let formats = vec![FormatRules { packets: vec![rule] }];
        let mut readout = Readout::new(formats, ReadoutLimits::default());
        let mut builder = Builder::new(limits);
        let mut ledger = Ledger::default();
        let mut placed = BTreeMap::new();
        let mut stored_in = BTreeMap::new();
        let (mut pushed, mut now_ms) = (0_u64, 1000);
        for step in 0..3000_u64 {
            now_ms += below(3);
            if below(20) == 0 {
                builder.poll(at(now_ms));
            }
            if below(50) == 0 {
                note(&take(&mut builder), &mut ledger, &mut stored_in);
            }
            let key = (step / 12).saturating_sub(below(6)) + below(2);
            let part = match below(6) {
                0 => Part::Whole,
                1 => bytes(below(20), 24),
                2 => index(below(25) as u32, 25),
                _ => index(below(4) as u32, 4),
            };
            let payload = [step.to_le_bytes().as_slice(), &[0; 8]].concat();
            let parsed = Parsed {
                step: None,
                counts: None,
                packet: 0,
                source: SourceKey { sender: SenderAddress::NONE, terms: below(4) },
                sequence: None,
                event: (below(30) > 0).then_some(if rule.event_bits == 6 { key % 64 } else { key }),
                spill: None,
                part,
                sensor_time_ns: (below(30) > 0).then_some((now_ms + below(9)) * 1_000_000),
                payload_start: 8,
                payload_bytes: 8,
            };
            let time = at(now_ms - below(30));
            let datagram = Datagram { bytes: &payload, sender: SenderAddress::NONE, port: 1, time };
            pushed += 1;
            readout.accept(0, &datagram, &parsed, |accepted, datagram, parsed| {
                let label = format!("{:#x}", parsed.source.terms);
                builder.name_source(accepted.source, &label);
                let placement = builder.push(at(now_ms), accepted, datagram, parsed);
                *placed.entry(placement).or_insert(0_u64) += 1;
            });
            assert!(builder.bytes_open() < 80_000);
        }
        readout.finish(|_, _, _| {});
        builder.finish(at(now_ms));
        note(&take(&mut builder), &mut ledger, &mut stored_in);
        assert_eq!((builder.events_open(), builder.bytes_open()), (0, 0));
        assert_eq!(placed.values().sum::<u64>(), pushed);
        let kept = placed[&Placement::Stored] + placed.get(&Placement::Late).unwrap_or(&0);
        assert_eq!(stored_in.len() as u64, kept);
        let mut whole = ledger.with(&readout, &builder);
        whole.inputs.push(crate::ledger::InputEntry::default());
        whole.inputs[0].counters.datagrams = pushed;
        assert!(whole.closes(), "{}", whole.table());
    }
}

/// Checks a batch and notes each packet's step number; none may come twice.
fn note(batch: &EventBatch, ledger: &mut Ledger, stored_in: &mut BTreeMap<u64, Option<u64>>) {
    let (mut packet, mut byte, mut missing) = (0, 0, 0);
    for event in &batch.events {
        assert!(event.packets > 0);
        let rows = &batch.packets[packet..packet + event.packets as usize];
        packet += rows.len();
        missing += event.missing_bytes as usize;
        assert!(batch.missing.is_char_boundary(missing));
        let mut first = rows[0].time;
        for row in rows {
            let step = u64::from_le_bytes(batch.bytes[byte..byte + 8].try_into().unwrap());
            byte += row.bytes as usize;
            first = first.min(row.time);
            assert!(stored_in.insert(step, event.key).is_none(), "packet {step} came out twice");
        }
        assert_eq!(event.first, first);
    }
    assert_eq!((packet, byte), (batch.packets.len(), batch.bytes.len()));
    assert_eq!(missing, batch.missing.len());
    ledger.note_batch(batch, crate::ledger::BatchFate::Recorded);
}

#[test]
fn out_of_order_packets_are_kept_and_counted() {
    let sequence = crate::readout::sequence::SequenceRule::of_bits(32);
    let rule = PacketRule { sequence: Some(sequence), ..PacketRule::default() };
    let formats = vec![FormatRules { packets: vec![rule] }];
    let mut readout = Readout::new(formats, ReadoutLimits::default());
    let mut builder = per_source();
    for number in [0_u64, 2, 1, 3] {
        let parsed = Parsed {
            step: None,
            counts: None,
            packet: 0,
            source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
            sequence: Some(number),
            event: Some(9),
            spill: None,
            part: index(number as u32, 4),
            sensor_time_ns: None,
            payload_start: 0,
            payload_bytes: 1,
        };
        let (sender, time) = (SenderAddress::NONE, at(number));
        let datagram = Datagram { bytes: b"x", sender, port: 0, time };
        readout.accept(0, &datagram, &parsed, |accepted, datagram, parsed| {
            assert_eq!(builder.push(time, accepted, datagram, parsed), Placement::Stored);
        });
    }
    let batch = take(&mut builder);
    assert_eq!(statuses(&batch), [(Some(9), EventStatus::Complete, 4)]);
    let arrived: Vec<_> = batch.packets.iter().map(|row| row.part).collect();
    assert_eq!(arrived, [0, 2, 1, 3]);
    assert_eq!(readout.sources()[0].counters().reordered, 1);
}
