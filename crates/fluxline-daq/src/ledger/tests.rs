//! The ledger's laws, files and pages.

use fluxline_proto::Moment;

use super::*;
use crate::event::PacketRow;

#[test]
fn every_law_names_counters_that_exist() {
    let ledger = Ledger { truth: Some(Truth::default()), ..Ledger::default() };
    for law in LAWS {
        for counter in law.left.iter().chain(law.right) {
            assert!(ledger.total(counter).is_some(), "{}: {counter}", law.name);
        }
    }
}

fn balanced() -> Ledger {
    let mut ledger = Ledger::default();
    let counters = InputCounters { datagrams: 10, rejected: 2, ..InputCounters::default() };
    ledger.inputs.push(InputEntry {
        name: "0.0.0.0:6006".to_owned(),
        counters,
        ..InputEntry::default()
    });
    let entry = ledger.source(1);
    entry.label = "10.0.0.2".to_owned();
    entry.missing = vec![MissingRange { epoch: 0, first: 5, last: 6 }];
    entry.counters = SourceCounters {
        parsed: 8,
        duplicate: 1,
        to_builder: 7,
        in_order: 6,
        reordered: 1,
        expected: 9,
        lost: 2,
        in_complete: 7,
        recorded: 7,
        ..SourceCounters::default()
    };
    ledger
}

#[test]
fn packet_counted_twice_breaks_a_law() {
    let mut ledger = balanced();
    assert!(ledger.closes(), "{:?}", ledger.check());
    assert!(ledger.table().contains("the ledger closes: 6 laws hold"));
    ledger.sources[1].counters.duplicate += 1;
    assert!(!ledger.closes());
    assert!(ledger.table().contains("THE LEDGER DOES NOT CLOSE: parsed = duplicate"));
}

#[test]
fn frame_that_is_in_no_place_breaks_a_law() {
    let mut ledger = balanced();
    ledger.sources[1].counters.lost = 7;
    ledger.sources[1].counters.expected = 14;
    ledger.inputs[0].remote = RemoteWriteCounters {
        frames: 15,
        frames_placed: 10,
        frames_wrong_check: 3,
        frames_overrun: 2,
        frames_expected: 16,
        frames_lost: 4,
        records: 10,
        records_taken: 10,
        ..RemoteWriteCounters::default()
    };
    assert!(ledger.closes(), "{:?}", ledger.check());
    let places = ledger.lost_places();
    assert_eq!((places.overrun, places.frames, places.rejected), (2, 3, 2));
    assert!(ledger.table().contains("the ledger closes: 9 laws hold"));
    assert!(ledger.table().contains("overrun 2 + frames refused 3"));
    for spoil in [
        |counters: &mut RemoteWriteCounters| counters.frames += 1,
        |counters: &mut RemoteWriteCounters| counters.frames_lost += 1,
        |counters: &mut RemoteWriteCounters| counters.records_taken -= 1,
    ] {
        let mut spoiled = ledger.clone();
        spoil(&mut spoiled.inputs[0].remote);
        assert!(!spoiled.closes());
    }
}

#[test]
fn ledger_survives_json_and_older_files() {
    let mut ledger = balanced();
    ledger.truth = Some(Truth { sent: 10, numbered: 9, dropped_elsewhere: 0 });
    assert!(ledger.closes());
    let text = serde_json::to_string(&ledger).unwrap();
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
    let older = r#"{"sources": [{"label": "a", "counters": {"parsed": 3, "gone": 1}}]}"#;
    let older: Ledger = serde_json::from_str(older).unwrap();
    assert_eq!(older.sources[0].counters.parsed, 3);
}

#[test]
fn lost_packets_are_split_into_places_that_add_up() {
    let mut ledger = balanced();
    ledger.sources[1].counters.lost = 100;
    ledger.inputs[0].counters.socket_dropped = 30;
    ledger.inputs[0].counters.rejected = 0;
    ledger.host.softnet_dropped = 20;
    let places = ledger.lost_places();
    assert_eq!((places.socket, places.softnet, places.elsewhere), (30, 20, 50));
    assert!(places.note.is_empty());
    ledger.host.softnet_dropped = 500;
    let places = ledger.lost_places();
    assert_eq!((places.softnet, places.nic, places.elsewhere), (70, 0, 0));
    assert!(places.note.contains("softnet 500"), "{}", places.note);
}

#[test]
fn batches_that_fail_are_not_recorded() {
    let row = PacketRow {
        source: 0,
        packet_type: 0,
        sequence: None,
        time: Moment::default(),
        sensor_time_ns: None,
        part: 0,
        payload_start: 0,
        payload_bytes: 0,
        bytes: 9,
    };
    let batch = EventBatch { packets: vec![row; 3], ..EventBatch::default() };
    let mut ledger = Ledger::default();
    ledger.note_batch(&batch, BatchFate::Recorded);
    ledger.note_batch(&batch, BatchFate::Failed);
    let counters = &ledger.sources[0].counters;
    assert_eq!((counters.recorded, counters.write_failed, counters.bytes_recorded), (3, 3, 27));
}

#[test]
fn page_explains_every_counter() {
    let page = counters_page();
    for row in
        InputCounters::ROWS.iter().chain(SourceCounters::ROWS).chain(RemoteWriteCounters::ROWS)
    {
        assert!(page.contains(&format!("| `{}` | {} |", row.name, row.unit)));
        assert!(!row.help.is_empty());
    }
    assert!(page.lines().all(|line| !line.ends_with(' ')));
}
