//! Packets that find no room in the memory of events: the events lack them, and say so.

use fluxline_core::Span;

use super::super::*;
use super::parts::{PACKET, Packet, at, config, push, statuses, take};
use crate::event::EventStatus;

/// All events of a run in which one packet found no room.
struct Run {
    refused: (u32, u64),
    events: Vec<(Option<u64>, EventStatus, u32)>,
    missing: String,
}

/// Three boards send `each` packets for each key. Nobody takes batches, until a packet is refused.
fn run(mode: Mode, expectation: Expectation, each: u64, room: u64) -> Run {
    let mut probe = Builder::new(config(mode, expectation.clone()));
    push(&mut probe, PACKET);
    let bytes_open_max = room * probe.bytes_open() / 4;
    let limits = BuilderConfig { bytes_open_max, ..config(mode, expectation) };
    let (mut builder, mut refused) = (Builder::new(limits), None);
    let (mut events, mut missing) = (Vec::new(), String::new());
    let mut gather = |builder: &mut Builder| {
        let batch = take(builder);
        events.extend(statuses(&batch));
        missing.push_str(&batch.missing);
    };
    for key in 1..1000 {
        for source in (0..3).flat_map(|source| (0..each).map(move |_| source)) {
            // A closed event takes less memory: only a long first packet can be refused.
            let payload = if source == 0 { &[7; 300] } else { PACKET.payload };
            let packet = Packet { source, key: Some(key), at_ms: 200 * key, payload, ..PACKET };
            match push(&mut builder, packet) {
                Placement::Stored => {}
                Placement::BuilderFull if refused.is_none() => {
                    refused = Some((source, key));
                    gather(&mut builder);
                }
                other => panic!("{other:?} for {key}"),
            }
        }
        builder.poll(at(200 * key + 199));
        if refused.is_some() {
            break;
        }
    }
    builder.poll(at(1_000_000));
    builder.finish(at(1_000_000));
    gather(&mut builder);
    Run { refused: refused.expect("the memory has a limit"), events, missing }
}

/// Memory for some events, so that the refused packet is the first, second or last of its
/// event \[quarters of a packet\].
fn rooms(each: u64) -> impl Iterator<Item = u64> {
    80 * each..150 * each
}

#[test]
fn an_event_without_the_packet_that_found_no_room_is_complete() {
    let mut sources = [false; 3];
    for room in rooms(1) {
        let run = run(Mode::Key(Scope::Global), Expectation::Joined, 1, room);
        let (source, key) = run.refused;
        sources[source as usize] = true;
        for (of, status, packets) in run.events {
            let wanted = match of == Some(key) {
                true => (EventStatus::Incomplete, 2),
                false => (EventStatus::Complete, 3),
            };
            assert_eq!((status, packets), wanted, "{of:?} of room {room}, refused {key}");
        }
        assert!(run.missing.contains("found no room"), "{}", run.missing);
    }
    assert_eq!(sources, [true; 3], "each place in an event was tried");
}

#[test]
fn an_event_with_as_many_sources_as_required_lacks_a_further_one() {
    for room in rooms(1) {
        let run = run(Mode::Key(Scope::Global), Expectation::Count(2), 1, room);
        assert!(run.events.iter().all(|of| of.1 == EventStatus::Complete), "{:?}", run.events);
    }
}

#[test]
fn a_window_that_refused_a_packet_of_a_source_in_it_is_complete() {
    let (width, lateness) = (Span::from_ms(10), Span::from_ms(1));
    let mode = Mode::Window { width, lateness, clock: WindowClock::Arrival };
    for expectation in [Expectation::Joined, Expectation::Count(3)] {
        for room in rooms(2) {
            let run = run(mode, expectation.clone(), 2, room);
            let short = run.events.iter().filter(|of| of.1 == EventStatus::Incomplete);
            assert_eq!(short.map(|of| of.2).collect::<Vec<_>>(), [5], "{:?}", run.events);
            assert!(run.missing.contains("found no room"), "{}", run.missing);
        }
    }
}
