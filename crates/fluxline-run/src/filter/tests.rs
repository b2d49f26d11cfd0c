//! The stage of filters: decisions, failures and late fragments, against a plain model.

use std::collections::BTreeSet;

use fluxline_core::random::{Draw, test_seed};
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow, UNDECIDED};
use fluxline_daq::ledger::FilterCounters;

use super::*;
use crate::monitor::Monitor;

fn push(batch: &mut EventBatch, row: EventRow) {
    let key = row.key.unwrap_or(0);
    for source in 0..2 {
        batch.bytes.extend(key.to_le_bytes());
        batch.packets.push(PacketRow {
            source,
            packet_type: 0,
            sequence: None,
            time: row.first,
            sensor_time_ns: None,
            part: 0,
            payload_start: 0,
            payload_bytes: 8,
            bytes: 8,
        });
    }
    batch.events.push(EventRow { packets: 2, ..row });
}

fn keys(batch: &EventBatch, is_late: bool) -> Vec<u64> {
    let views = batch.views().filter(|view| view.is_late() == is_late);
    let views = views.inspect(|view| {
        let key = view.row.key.expect("a key").to_le_bytes();
        assert!(view.each_packet().all(|(_, bytes)| bytes == key), "bytes stay with their event");
    });
    views.filter_map(|view| view.row.key).collect()
}

/// The texts about missing parts, of the rows in order.
fn texts(batch: &EventBatch) -> Vec<&str> {
    let mut at = 0;
    let rows = batch.events.iter().map(|row| {
        at += row.missing_bytes as usize;
        &batch.missing[at - row.missing_bytes as usize..at]
    });
    rows.collect()
}

fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

#[test]
fn decisions_failures_and_late_fragments_are_those_of_a_plain_model() {
    quiet_panics();
    let mut random = Draw::new(test_seed!(3));
    let first = each_event(|event| event.row.key.expect("a key") % 3 != 0);
    let second = each_event(|event| match event.row.key.expect("a key") {
        key if key % 7 == 0 => panic!("seven"),
        key => key % 5 != 0,
    });
    let monitor = Monitor::default();
    let mut rejected_events = RejectedEvents::default();
    let mut stage = FilterStage::new(vec![Box::new(first), Box::new(second)]);
    let (mut next, mut expected, mut rejected) = (0, FilterCounters::default(), BTreeSet::new());
    for _ in 0..200 {
        let mut batch = EventBatch::default();
        let (mut kept, mut late, mut marked) = (Vec::new(), Vec::new(), 0);
        for _ in 0..random.below(8) {
            if next > 0 && random.below(3) == 0 {
                let key = random.below(next);
                let status = EventStatus::Late;
                push(&mut batch, EventRow { key: Some(key), status, ..EventRow::default() });
                match rejected.contains(&key) {
                    true => expected.late_filtered += 1,
                    false => late.push(key),
                }
                continue;
            }
            push(&mut batch, EventRow { key: Some(next), ..EventRow::default() });
            match next {
                key if key % 3 == 0 || (key % 5 == 0 && key % 7 != 0) => {
                    rejected.insert(key);
                    expected.events_filtered += 1;
                }
                key => {
                    kept.push(key);
                    marked += u64::from(key % 7 == 0);
                    expected.events_kept += u64::from(key % 7 != 0);
                }
            }
            next += 1;
        }
        expected.events_undecided += marked;
        stage.apply(&mut batch, &mut rejected_events, &mut &monitor);
        assert_eq!((keys(&batch, false), keys(&batch, true)), (kept, late));
        let marks = texts(&batch).iter().filter(|text| **text == UNDECIDED).count() as u64;
        assert_eq!(marks, marked);
    }
    let ledger = monitor.recorded_ledger();
    assert_eq!(ledger.filter, expected);
    let filtered = 2 * (expected.events_filtered + expected.late_filtered);
    assert_eq!(ledger.source_totals().filtered, filtered);
    assert_eq!(monitor.stats().filtered, expected.events_filtered);
    assert!(expected.late_filtered > 10 && expected.events_undecided > 10, "{expected:?}");
    let notes = monitor.notes(0);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("it panicked: seven"), "{notes:?}");
}

/// A filter that panics for a whole batch, after a wrong decision.
struct Broken;

impl Filter for Broken {
    fn decide(&mut self, _: &EventBatch, decisions: &mut Decisions) {
        decisions.set(0, Decision::Reject);
        decisions.set(5000, Decision::Reject);
        panic!("{}", "a whole batch");
    }
}

#[test]
fn a_filter_that_panics_for_a_batch_rejects_nothing_of_it() {
    quiet_panics();
    let monitor = Monitor::default();
    let mut rejected_events = RejectedEvents::default();
    let mut stage = FilterStage::new(vec![Box::new(Broken)]);
    let mut batch = EventBatch::default();
    (0..3).for_each(|key| push(&mut batch, EventRow { key: Some(key), ..EventRow::default() }));
    stage.apply(&mut batch, &mut rejected_events, &mut &monitor);
    assert_eq!(keys(&batch, false), [0, 1, 2]);
    assert_eq!(texts(&batch), [UNDECIDED; 3]);
    assert_eq!(monitor.recorded_ledger().filter.events_undecided, 3);
    assert!(monitor.notes(0)[0].contains("a whole batch"));
}

#[test]
fn only_the_newest_rejected_events_are_remembered_and_never_confused() {
    let mut rejected = RejectedEvents::default();
    let row = |key, generation, source| EventRow {
        key: Some(key),
        generation,
        source,
        ..EventRow::default()
    };
    assert!(!rejected.has(&row(1, 0, None)));
    (0..100_000).for_each(|key| rejected.note(&row(key, 0, None)));
    assert!((40_000..100_000).all(|key| rejected.has(&row(key, 0, None))));
    assert!(!rejected.has(&row(10, 0, None)), "too old");
    for other in [row(99_999, 1, None), row(99_999, 0, Some(0)), row(100_000, 0, None)] {
        assert!(!rejected.has(&other), "{other:?}");
    }
    assert!(!rejected.has(&EventRow::default()), "no key");
}
