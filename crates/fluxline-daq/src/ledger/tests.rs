//! The ledger's laws, files and pages.

use fluxline_core::Moment;

use super::*;
use crate::event::PacketRow;

#[test]
fn every_law_names_counters_that_exist() {
    let (truth, sink) = (Some(Truth::default()), Some(SinkCounters::default()));
    let ledger = Ledger { truth, sink, ..Ledger::default() };
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
    assert!(ledger.closing().contains("the ledger closes: 7 laws hold"));
    ledger.sources[1].counters.duplicate += 1;
    assert!(!ledger.closes());
    assert!(ledger.closing().contains("THE LEDGER DOES NOT CLOSE: parsed = duplicate"));
}

#[test]
fn block_that_a_board_neither_sent_nor_dropped_breaks_a_law() {
    let mut ledger = balanced();
    ledger.sources[1].counters.board_taken = 12;
    ledger.sources[1].counters.board_dropped = 3;
    // A source without such counts is in no sum of the law.
    ledger.source(2).counters =
        SourceCounters { expected: 5, lost: 5, ..SourceCounters::default() };
    assert!(ledger.closes(), "{:?}", ledger.check());
    let line = "boards: took 12 blocks = dropped in the board's FIFO 3 + sent by the board 9";
    assert!(ledger.table().contains(line), "{}", ledger.table());
    assert!(ledger.headline().contains("Dropped in the board's FIFO, by its counts: 3 blocks."));
    ledger.sources[1].counters.board_dropped = 2;
    assert!(ledger.closing().contains("taken by the boards"), "{}", ledger.closing());
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
    assert!(ledger.closing().contains("the ledger closes: 10 laws hold"));
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

#[test]
fn law_of_what_was_received_names_every_end_of_datagrams() {
    let law = LAWS.iter().find(|law| law.name.starts_with("received =")).unwrap();
    let ends = OUTCOMES.iter().filter(|row| row.of == Counted::Datagrams);
    assert_eq!(law.right, ends.map(|row| row.counter).collect::<Vec<_>>());
    let ledger = Ledger::default();
    for row in OUTCOMES {
        assert!(ledger.total(row.counter).is_some(), "{}", row.counter);
    }
    // Every counter of a law that ends a source's packet or an input's datagram must be such an
    // end.
    for law in LAWS.iter().filter(|law| law.needs == Needs::Nothing) {
        for counter in law.right.iter().filter(|counter| !counter.starts_with("remote.")) {
            let is_sum = LAWS.iter().any(|law| law.left.contains(counter));
            let is_quality =
                ["source.in_order", "source.reordered", "source.unsequenced", "source.lost"]
                    .contains(counter);
            let is_end = OUTCOMES.iter().any(|row| row.counter == *counter);
            assert!(is_sum || is_quality || is_end, "{counter} is shown nowhere");
        }
    }
}

/// Draws from a seed: xorshift, G. Marsaglia 2003.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A ledger that closes, in which random ends are not zero.
fn any_ledger(random: &mut u64, sources: u32) -> Ledger {
    let mut ledger = Ledger::default();
    let mut input = InputCounters::default();
    for row in OUTCOMES.iter().filter(|row| row.counter.starts_with("input.")) {
        if draw(random).is_multiple_of(2) {
            assert!(input.set(row.name(), draw(random) % 1000));
        }
    }
    input.datagrams = input.rejected + input.truncated + input.sources_refused + input.ring_full;
    let ends: Vec<_> = OUTCOMES.iter().filter(|row| row.counter.starts_with("source.")).collect();
    let shown: Vec<bool> = ends.iter().map(|_| draw(random).is_multiple_of(2)).collect();
    for number in 0..sources {
        let entry = ledger.source(number);
        entry.label = format!("board={number}");
        let counters = &mut entry.counters;
        for (row, _) in ends.iter().zip(&shown).filter(|(_, shown)| **shown) {
            let value = draw(random) % 100_000;
            assert!(counters.set(row.name(), value));
            counters.parsed += value;
        }
        counters.lost = draw(random) % 3;
        input.datagrams += counters.parsed;
    }
    let name = "port".to_owned();
    ledger.inputs.push(InputEntry { name, counters: input, ..InputEntry::default() });
    ledger
}

/// Cells of a printed line: two spaces or more stand between them.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

fn number(cell: &str) -> u64 {
    cell.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{cell}"))
}

/// Adds the printed rows up; returns what was received and what was parsed.
fn add_up(text: &str) -> (u64, u64) {
    let mut lines = text.lines();
    let received = number(cells(lines.next().unwrap())[1]);
    let ends = lines.by_ref().take_while(|line| line.starts_with("  "));
    let ends: u64 =
        ends.map(|line| cells(line)[1]).filter(|cell| !cell.ends_with("frames")).map(number).sum();
    assert_eq!(received, ends, "{text}");
    let heads = cells(lines.next().unwrap());
    assert_eq!(heads[..2], ["source", "parsed"]);
    let places = 2..heads.iter().position(|head| *head == "|").unwrap();
    let mut sums = vec![0; heads.len()];
    for line in lines {
        let row = cells(line);
        assert_eq!(row.len(), heads.len(), "{line}");
        let values: Vec<u64> = row.iter().map(|cell| cell.parse().unwrap_or(0)).collect();
        assert_eq!(values[1], values[places.clone()].iter().sum::<u64>(), "{line}\n{text}");
        if row[0] == "all" {
            assert_eq!(values[1..], sums[1..], "{text}");
            return (received, values[1]);
        }
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    panic!("no row `all`: {text}");
}

#[test]
fn printed_rows_add_up_to_what_was_received_whatever_is_not_zero() {
    let mut random = fluxline_core::random::test_seed!(0x9E37_79B9_7F4A_7C15);
    for round in 0..500 {
        let sources = [0, 1, 3, 63, 64, 65, 200][round % 7];
        let ledger = any_ledger(&mut random, sources);
        let table = ledger.table();
        let (received, parsed) = add_up(&table);
        assert_eq!((received, parsed), (ledger.received(), ledger.source_totals().parsed));
        let law = &ledger.check()[0];
        assert!(law.name.starts_with("received") && law.holds(), "{law:?}");
        // Each end that is not zero is in the table and, where its data is missing, the headline.
        let headline = ledger.headline();
        for outcome in ledger.outcomes() {
            let words = outcome.row.words;
            assert!(table.contains(&format!("\n  {words} ")), "{words}: {table}");
            if outcome.row.fate == Fate::Dropped {
                let said = format!("{words} {}", outcome.count);
                assert!(headline.contains(&said), "{said}: {headline}");
            }
        }
    }
}

#[test]
fn headline_of_a_run_in_which_nothing_was_usable_does_not_sound_well() {
    let counters = InputCounters { datagrams: 320, truncated: 320, ..InputCounters::default() };
    let name = "port".to_owned();
    let entry = InputEntry { name, counters, ..InputEntry::default() };
    let ledger = Ledger { inputs: vec![entry], ..Ledger::default() };
    assert_eq!(
        ledger.headline(),
        "Received 320 datagrams: 0 recorded, 320 not recorded (truncated 320). No packet counter \
         was read: lost packets cannot be counted. Events: 0, 0 incomplete."
    );
    let ledger = balanced();
    assert_eq!(
        ledger.headline(),
        "Received 10 datagrams: 7 recorded, 1 duplicate, 2 not recorded \
         (rejected 2). Missing by the packet counters: 2. Events: 0, 0 incomplete."
    );
}
