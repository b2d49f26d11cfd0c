//! Behaviours of sources: counters of several classes, keys out of order, packets without keys,
//! keys of their own.

use super::super::*;
use super::world::*;
use crate::event::{EventRow, EventStatus};
use crate::readout::Counted;
use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::{Parsed, Part, SourceKey};

/// A packet as the builder gets it.
#[derive(Clone, Copy, Debug)]
struct Given {
    at: u64,
    source: u32,
    class: u8,
    count: u64,
    missing: u64,
    key: Option<u64>,
    part: Part,
}

fn push(builder: &mut Builder, given: Given) -> Placement {
    let Given { at, source, class, count, missing, key, part } = given;
    let counted = Counted { class, count, missing, reordered: false, restarts: 0 };
    let accepted = Accepted {
        source,
        input: 0,
        epoch: 0,
        sequence: Some(count),
        counted: Some(counted),
        event_bits: 64,
        spill_bits: 64,
    };
    let parsed = Parsed {
        step: None,
        counts: None,
        packet: class,
        source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
        sequence: Some(count),
        event: key,
        spill: None,
        part,
        sensor_time_ns: None,
        payload_start: 0,
        payload_bytes: 1,
    };
    let time = Moment::from_ns(at);
    let bytes = [class, count as u8];
    let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 0, time };
    builder.push(time, &accepted, &datagram, &parsed)
}

fn given(at: u64, source: u32, count: u64, key: u64) -> Given {
    Given { at, source, class: 0, count, missing: 0, key: Some(key), part: Part::Whole }
}

fn builder() -> Builder {
    Builder::new(BuilderConfig { settling: Span::ZERO, ..shared() })
}

fn events(builder: &mut Builder, at: u64) -> Vec<EventRow> {
    builder.finish(Moment::from_ns(at));
    builder.take_batch(EventBatch::default()).events
}

#[test]
fn a_source_of_two_counters_has_passed_an_event_when_both_have() {
    let mut builder = builder();
    for key in 0..100_u64 {
        let at = key * MS;
        push(&mut builder, given(at, 0, key, key));
        // The other source sends each event in two parts, of two packet types with own counters;
        // the second part of every event is one trigger behind.
        let part = |index| Part::Index { index, count: 2 };
        push(&mut builder, Given { part: part(0), ..given(at, 1, key, key) });
        if key > 0 {
            let second = Given { class: 1, part: part(1), ..given(at, 1, key - 1, key - 1) };
            // Of the second counter nothing is known before its first packet.
            let wanted = if key == 1 { Placement::Late } else { Placement::Stored };
            assert_eq!(push(&mut builder, second), wanted, "{key}");
        }
    }
    let events = events(&mut builder, 100 * MS);
    let complete = events.iter().filter(|its| its.status == EventStatus::Complete);
    // The first event closed before the second source had joined.
    assert_eq!((complete.count(), events.len()), (99, 102));
}

#[test]
fn a_source_that_interleaves_its_events_is_understood_after_the_first() {
    let mut builder = builder();
    let mut late = 0;
    let mut count = 0;
    let part = |index| Part::Index { index, count: 2 };
    for key in (0..200_u64).step_by(2) {
        let at = key * MS;
        // Part 0 of two events, then part 1 of both: the counter goes on and keys fall.
        for (key, index) in [(key, 0), (key + 1, 0), (key, 1), (key + 1, 1)] {
            let at = at + count % 4 * 100 * US;
            let packet = Given { part: part(index), ..given(at, 0, count, key) };
            late += u64::from(push(&mut builder, packet) == Placement::Late);
            count += 1;
            if index == 0 {
                push(&mut builder, given(at, 1, key, key));
            }
        }
    }
    let events = events(&mut builder, 200 * MS);
    let complete = events.iter().filter(|its| its.status == EventStatus::Complete).count();
    assert!(late <= 1 && complete >= 198, "{late} late, {complete} complete");
    assert!(events.iter().all(|its| its.generation == 0));
}

#[test]
fn a_loss_that_a_packet_without_a_key_shows_is_no_proof_of_absence() {
    let mut builder = builder();
    let mut count = 0;
    for key in 0..400_u64 {
        let at = key * MS;
        push(&mut builder, given(at, 0, key, key));
        // Source 1 loses its packet of event 200; a packet without a key comes next.
        if key != 200 {
            push(&mut builder, given(at + US, 1, count, key));
        }
        count += 1;
        if key == 200 {
            let status = Given { key: None, missing: 1, ..given(at + US, 1, count, 0) };
            assert_eq!(push(&mut builder, status), Placement::Stored);
            count += 1;
        }
    }
    builder.finish(Moment::from_ns(400 * MS));
    let batch = builder.take_batch(EventBatch::default());
    let incomplete: Vec<_> =
        batch.events.iter().filter(|its| its.status == EventStatus::Incomplete).collect();
    assert_eq!(incomplete.len(), 1);
    assert_eq!(incomplete[0].key, Some(200));
    assert_eq!(batch.missing, "source 1: lost");
}

#[test]
fn lost_packets_close_an_event_of_one_source_when_the_counter_shows_it() {
    let config = BuilderConfig { mode: Mode::Key(Scope::PerSource), ..BuilderConfig::default() };
    let mut builder = Builder::new(config);
    let part = |index| Part::Index { index, count: 4 };
    let mut count = 0;
    for key in 0..10_u64 {
        for index in 0..4 {
            let lost = key == 3 && index == 2;
            let missing = u64::from(key == 3 && index == 3);
            let at = key * 20 * MS + u64::from(index) * US;
            if !lost {
                push(
                    &mut builder,
                    Given { part: part(index), missing, ..given(at, 7, count, key) },
                );
            }
            count += 1;
        }
    }
    // Not at the time-out, but when the next frame and the lateness are over.
    let batch = builder.take_batch(EventBatch::default());
    assert_eq!(batch.events.len(), 10);
    let incomplete: Vec<_> =
        batch.events.iter().filter(|its| its.status == EventStatus::Incomplete).collect();
    assert_eq!(incomplete.len(), 1);
    assert_eq!((incomplete[0].key, incomplete[0].source), (Some(3), Some(7)));
    assert_eq!(incomplete[0].built, Moment::from_ns(80 * MS));
    assert_eq!(batch.missing, "source 7: packets 2 of 4 missing");
}

#[test]
fn keys_of_one_source_that_count_anew_are_another_generation() {
    let config = BuilderConfig { mode: Mode::Key(Scope::PerSource), ..BuilderConfig::default() };
    let mut builder = Builder::new(config);
    for spill in 0..3_u64 {
        for key in 0..500 {
            let at = spill * 5000 * MS + key * MS;
            assert_eq!(push(&mut builder, given(at, 0, spill * 500 + key, key)), Placement::Stored);
        }
    }
    let events = builder.take_batch(EventBatch::default()).events;
    let last = events.last().map(|its| (its.generation, its.key));
    assert_eq!((events.len(), last), (1500, Some((2, Some(499)))));
}

#[test]
fn a_restarted_board_whose_keys_begin_anew_alone_loses_nothing() {
    // One board of three is switched off and on: its counter and its trigger number begin at 0.
    let mut packets = Vec::new();
    for source in 0..2_u32 {
        let board = Board { source, period: MS, latency: u64::from(source) * US };
        packets.extend(board.send(0..9000));
    }
    let board = Board { source: 2, period: MS, latency: 2 * US };
    packets.extend(board.send(0..5500));
    packets
        .extend(board.send(0..2000).into_iter().map(|its| Sent { at: its.at + 7000 * MS, ..its }));
    let out = run(packets);
    assert_eq!(out.total("recorded"), out.pushed);
    assert_eq!((out.total("duplicate"), out.total("event_duplicate")), (0, 0));
    let alone = out.rows.iter().filter(|its| its.generation == 1).count();
    assert_eq!(alone, 2000);
    assert!(out.summary[2].alone, "its generation is not the others'");
}

#[test]
fn a_source_of_random_keys_does_not_take_the_place_of_the_events_of_others() {
    let config = BuilderConfig { settling: Span::ZERO, events_open_max: 64, ..shared() };
    let mut builder = Builder::new(config);
    let mut random = 1_u64;
    for key in 0..20_000_u64 {
        let at = key * 50 * US;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        push(&mut builder, given(at, 2, key, random));
        for source in 0..2 {
            push(&mut builder, given(at + US, source, key, key));
        }
    }
    let events = events(&mut builder, 1000 * MS);
    let both = events.iter().filter(|its| its.packets == 2).count();
    assert!(both >= 19_990, "{both}");
}
