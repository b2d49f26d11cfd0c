//! Packets that find no room in the memory of open events: the events lack them, and say so.

use fluxline_core::Span;

use super::super::*;
use super::parts::{PACKET, Packet, config, finish, push, statuses, take};
use crate::event::EventStatus;

/// Room for two packets of [`PACKET`]'s size.
fn small(mode: Mode, expectation: Expectation) -> Builder {
    let mut probe = Builder::new(config(mode, expectation.clone()));
    push(&mut probe, Packet { sensor_ns: Some(0), ..PACKET });
    let bytes_open_max = 2 * probe.bytes_open();
    let limits = BuilderConfig { bytes_open_max, ..config(mode, expectation) };
    Builder::new(limits)
}

/// Three boards; the third has a packet for which there is no room.
fn three_boards(builder: &mut Builder) {
    for source in [0, 1] {
        assert_eq!(push(builder, Packet { source, ..PACKET }), Placement::Stored);
    }
    assert_eq!(push(builder, Packet { source: 2, ..PACKET }), Placement::BuilderFull);
}

#[test]
fn an_event_without_the_packet_that_found_no_room_is_complete() {
    let mut builder = small(Mode::Key(Scope::Global), Expectation::Joined);
    three_boards(&mut builder);
    let batch = finish(&mut builder);
    assert_eq!(statuses(&batch), [(Some(1), EventStatus::Incomplete, 2)]);
    assert!(batch.missing.contains("found no room"), "{}", batch.missing);
}

#[test]
fn an_event_with_as_many_sources_as_required_lacks_a_further_one() {
    let mut builder = small(Mode::Key(Scope::Global), Expectation::Count(2));
    three_boards(&mut builder);
    assert_eq!(statuses(&finish(&mut builder)), [(Some(1), EventStatus::Complete, 2)]);
}

#[test]
fn an_event_that_begins_after_the_refusal_is_complete_without_the_refused_packet() {
    let mut builder = small(Mode::Key(Scope::Global), Expectation::Joined);
    let packet = |source, key| Packet { source, key: Some(key), ..PACKET };
    for source in [0, 1] {
        assert_eq!(push(&mut builder, packet(source, 1)), Placement::Stored);
    }
    // The first event is closed, and its batch not taken yet.
    assert_eq!(push(&mut builder, packet(0, 2)), Placement::BuilderFull);
    assert_eq!(statuses(&take(&mut builder)), [(Some(1), EventStatus::Complete, 2)]);
    assert_eq!(push(&mut builder, packet(1, 2)), Placement::Stored);
    let batch = finish(&mut builder);
    assert_eq!(statuses(&batch), [(Some(2), EventStatus::Incomplete, 1)]);
    assert!(batch.missing.contains("found no room"), "{}", batch.missing);
}

#[test]
fn a_window_that_refused_a_packet_of_a_source_in_it_is_complete() {
    let mode = Mode::Window {
        width: Span::from_ms(10),
        lateness: Span::from_ms(1),
        clock: WindowClock::Arrival,
    };
    for expectation in [Expectation::Joined, Expectation::Count(1)] {
        let mut builder = small(mode, expectation);
        for _ in 0..2 {
            assert_eq!(push(&mut builder, PACKET), Placement::Stored);
        }
        assert_eq!(push(&mut builder, PACKET), Placement::BuilderFull);
        builder.poll(Moment::from_ns(1_000_000_000));
        let batch = take(&mut builder);
        assert!(batch.missing.contains("found no room"), "{}", batch.missing);
        assert_eq!(statuses(&batch)[0].1, EventStatus::Incomplete);
    }
}
