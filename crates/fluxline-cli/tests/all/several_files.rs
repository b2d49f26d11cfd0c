//! Several files of one experiment: all that is in them is recorded, and the same files give the
//! same bytes each time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::packets::{Board, MS, Packet, RAW_BYTES, S, US, write_capture, write_raw};
use crate::support::{call, call_json, number, refused, text};
use serde_json::Value;

/// Exit status of wrong input.
const INPUT: i32 = 3;

/// A source of an experiment: its name, and its link as TOML.
fn source(name: &str, link: &str) -> String {
    format!("[[source]]\nname = '{name}'\nformat = 'counter'\n{link}\n")
}

fn pcap(file: &Path) -> String {
    format!("[source.pcap]\nfile = '{}'", text(file))
}

fn raw(file: &Path) -> String {
    format!("[source.raw]\nfile = '{}'\nrecord-bytes = {RAW_BYTES}", text(file))
}

/// Runs an experiment in a folder of its own; what it printed, and the bytes of its event files.
fn run(experiment: &str) -> (Value, Vec<Vec<u8>>) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    std::fs::write(&file, experiment).expect("written");
    let folder = scratch.path().join("run");
    let document = call_json(&["run", text(&file), "--folder", text(&folder)]);
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    (document, event_files(&folder))
}

fn event_files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the run's folder").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let is_events = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("events-"))
    };
    files.retain(is_events);
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("readable")).collect()
}

/// Asserts that all packets are recorded, none of them late.
fn assert_all(document: &Value, packets: u64, events: u64) {
    let totals = &document["totals"];
    assert_eq!(number(totals, "parsed"), packets, "{totals}");
    assert_eq!(number(totals, "recorded"), packets, "{totals}");
    assert_eq!(number(totals, "in_complete"), packets, "{totals}");
    assert_eq!(number(totals, "events_complete"), events, "{totals}");
}

#[test]
fn four_raw_files_of_256_fragments_are_read_whole_and_the_same_each_time() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut experiment = String::new();
    for board in 0..4 {
        let packets = Board { board, period: MS, latency: 0 }.packets(0..256);
        let file = write_raw(scratch.path(), &format!("board-{board}.raw"), &packets);
        experiment += &source(&format!("board-{board}"), &raw(&file));
    }
    experiment += "[events]\nbuild = 'key'\n";
    let (document, first) = run(&experiment);
    assert_all(&document, 1024, 256);
    for _ in 1..10 {
        assert!(run(&experiment).1 == first, "the same files, other bytes");
    }
}

#[test]
fn four_equal_captures_give_all_16000_fragments_ten_times() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let packets = Board { board: 0, period: 100 * US, latency: 0 }.packets(0..4000);
    let file = write_capture(scratch.path(), "board.pcapng", packets);
    let mut sources = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let copy = scratch.path().join(format!("{name}.pcapng"));
        std::fs::copy(&file, &copy).expect("copied");
        sources.push(source(name, &pcap(&copy)));
    }
    let events = "[events]\nbuild = 'key'\nrequire = 4\n";
    let (document, first) = run(&(sources.concat() + events));
    assert_all(&document, 16_000, 4000);
    for round in 1..10 {
        // Another order in the experiment file, and other rings.
        sources.rotate_left(1);
        let slots = format!("ring-slots = {}\n[source.pcap]", 2 << round);
        let experiment = sources.concat().replace("[source.pcap]", &slots) + events;
        assert!(run(&experiment).1 == first, "the same files, other bytes");
    }
}

#[test]
fn a_board_that_is_dead_for_20000_events_of_a_capture_costs_the_others_nothing() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let board = |board| Board { board, period: 25 * US, latency: u64::from(board) * US };
    let mut packets: Vec<Packet> = Vec::new();
    for at in 0..2 {
        packets.extend(board(at).packets(0..30_000));
    }
    packets.extend(board(2).packets(0..5_000));
    let again = board(2).packets(0..30_000).split_off(25_000);
    packets.extend(again);
    let file = write_capture(scratch.path(), "merged.pcapng", packets);
    let experiment = source("merged", &pcap(&file)) + "[events]\nbuild = 'key'\n";
    let (document, _) = run(&experiment);
    let totals = &document["totals"];
    assert_eq!(number(totals, "parsed"), 70_000);
    assert_eq!(number(totals, "builder_full"), 0, "{totals}");
    assert_eq!(number(totals, "recorded"), 70_000, "{totals}");
    assert!(number(totals, "in_late") <= 1, "only what brings the board back: {totals}");
}

#[test]
fn files_that_begin_and_end_apart_give_exactly_the_events_that_exist() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let board = |board| Board { board, period: MS, latency: u64::from(board) * US };
    let first = write_capture(scratch.path(), "first.pcapng", board(0).packets(0..3000));
    let second = write_capture(scratch.path(), "second.pcapng", board(1).packets(1000..5000));
    let sources = [source("first", &pcap(&first)), source("second", &pcap(&second))];
    let events = "[events]\nbuild = 'key'\n";
    let (document, bytes) = run(&(sources.concat() + events));
    assert_all(&document, 7000, 5000);
    for round in 1..10 {
        let order = [round % 2, (round + 1) % 2].map(|at| sources[at].clone()).concat();
        assert!(run(&(order + events)).1 == bytes, "the same files, other bytes");
    }
}

#[test]
fn captures_with_clocks_an_hour_apart_are_joined_by_their_keys() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut sources = String::new();
    for (name, boards, ahead, events) in [("a", [0, 1], 0, 2000), ("b", [2, 3], 3600 * S, 2500_u64)]
    {
        let mut packets = Vec::new();
        for board in boards {
            let latency = ahead + u64::from(board) * US;
            packets.extend(Board { board, period: MS, latency }.packets(0..events));
        }
        let file = write_capture(scratch.path(), &format!("{name}.pcapng"), packets);
        sources += &source(name, &pcap(&file));
    }
    let (document, _) = run(&(sources + "[events]\nbuild = 'key'\n"));
    assert_all(&document, 9000, 2500);
}

#[test]
fn a_board_that_sends_rarely_does_not_keep_events_open() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for write in ["pcap", "raw"] {
        let mut sources = String::new();
        for board in 0..3 {
            let mut packets = Board { board, period: 100 * US, latency: 0 }.packets(0..20_000);
            if board == 2 {
                packets.retain(|packet| packet.event % 1000 == 0);
                (0..).zip(&mut packets).for_each(|(number, packet)| packet.number = number);
            }
            let name = format!("{board}.{write}");
            let link = match write {
                "raw" => raw(&write_raw(scratch.path(), &name, &packets)),
                _ => pcap(&write_capture(scratch.path(), &name, packets)),
            };
            sources += &source(&name, &link);
        }
        let (document, _) = run(&(sources + "[events]\nbuild = 'key'\n"));
        assert_all(&document, 40_020, 20_000);
        assert!(number(&document["totals"], "events_open_most") < 2_500, "{write}");
    }
}

#[test]
fn one_wrong_key_does_not_make_a_file_wait_for_the_end_of_all() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut sources = String::new();
    for board in 0..3 {
        let mut packets = Board { board, period: MS, latency: 0 }.packets(0..3000);
        if board == 1 {
            packets[1500].event = 1 << 40;
        }
        let file = write_raw(scratch.path(), &format!("{board}.raw"), &packets);
        sources += &source(&format!("board-{board}"), &raw(&file));
    }
    let (document, _) = run(&(sources + "[events]\nbuild = 'key'\n"));
    let totals = &document["totals"];
    assert_eq!(number(totals, "recorded"), 9000, "{totals}");
    assert_eq!(number(totals, "in_late"), 0, "{totals}");
    assert!(number(totals, "events_open_most") < 1000, "{totals}");
}

#[test]
fn a_pause_after_a_lost_packet_makes_no_fragment_late() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut sources = String::new();
    for name in ["a", "b", "c"] {
        let boards = match name {
            "a" => 0..1,
            "b" => 1..2,
            _ => 2..5,
        };
        let mut packets = Vec::new();
        for board in boards {
            let latency = u64::from(board) * 100 * US;
            let mut of_board = Board { board, period: MS, latency }.packets(0..2000);
            of_board.retain(|packet| (packet.board, packet.event) != (1, 1000));
            packets.extend(of_board);
        }
        // All pause for 10 s, while the next packet of b lies behind the pause.
        for packet in packets.iter_mut().filter(|packet| packet.event > 1000) {
            packet.time += 10 * S;
        }
        let file = write_capture(scratch.path(), &format!("{name}.pcapng"), packets);
        sources += &source(name, &pcap(&file));
    }
    let (document, _) = run(&(sources + "[events]\nbuild = 'key'\nrequire = 5\n"));
    let totals = &document["totals"];
    assert_eq!(number(totals, "recorded"), 9_999, "{totals}");
    assert_eq!(number(totals, "in_complete"), 1999 * 5, "{totals}");
    assert_eq!(number(totals, "in_incomplete"), 4, "{totals}");
}

#[test]
fn recorded_speed_has_one_clock_for_all_files() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let board = |board| Board { board, period: MS, latency: u64::from(board) * US };
    let mut sources = String::new();
    for (name, packets) in [("a", board(0).packets(0..400)), ("b", board(1).packets(600..1000))] {
        let file = write_capture(scratch.path(), &format!("{name}.pcapng"), packets);
        sources += &source(name, &pcap(&file));
    }
    let full = run(&(sources.clone() + "[events]\nbuild = 'key'\n"));
    let recorded = sources.replace("[source.pcap]", "[source.pcap]\nspeed = 'recorded'");
    let began = Instant::now();
    let slow = run(&(recorded + "[events]\nbuild = 'key'\n"));
    assert!(began.elapsed() >= Duration::from_millis(990), "from the first packet to the last");
    assert!(slow.1 == full.1, "the speed changed the result");
}

#[test]
fn a_stop_in_the_middle_of_a_replay_leaves_what_is_not_due_and_closes_the_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut sources = String::new();
    for board in 0..2 {
        let packets = Board { board, period: 10 * MS, latency: 0 }.packets(0..6000);
        let file = write_capture(scratch.path(), &format!("{board}.pcapng"), packets);
        sources +=
            &source(&format!("{board}"), &pcap(&file)).replace("file", "speed = 'recorded'\nfile");
    }
    let experiment = format!("seconds = 0.3\n{sources}[events]\nbuild = 'key'\n");
    let (document, _) = run(&experiment); // the files last for a minute
    let totals = &document["totals"];
    let recorded = number(totals, "recorded");
    assert!((2..1000).contains(&recorded), "{totals}");
    assert_eq!(number(totals, "datagrams"), recorded, "{totals}");
}

#[test]
fn repeated_options_are_sources_and_a_pattern_is_one_of_several_parts() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let board = |board| Board { board, period: MS, latency: u64::from(board) * US };
    // Parts whose names are not in the order of their times.
    let parts = [("a-3", 0..500_u64), ("a-1", 500..700), ("a-2", 700..1000)];
    for (name, range) in parts {
        let mut packets = board(0).packets(0..1000);
        packets.retain(|packet| range.contains(&packet.event));
        write_capture(scratch.path(), &format!("{name}.pcapng"), packets);
    }
    let other = write_capture(scratch.path(), "b.pcapng", board(1).packets(0..1000));
    let pattern = scratch.path().join("a-?.pcapng");
    let folder = scratch.path().join("run");
    let arguments = ["run", "--pcap", text(&pattern), "--pcap", text(&other)];
    let more = ["--format", "counter", "--events", "key", "--require", "2"];
    let document = call_json(&[&arguments[..], &more, &["--folder", text(&folder)]].concat());
    assert_all(&document, 2000, 1000);
    let totals = &document["totals"];
    assert_eq!(number(totals, "reordered") + number(totals, "lost"), 0, "{totals}");
    assert_eq!(document["inputs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn raw_parts_are_read_in_the_order_of_the_numbers_in_their_names() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let packets = Board { board: 0, period: MS, latency: 0 }.packets(0..1100);
    for (part, packets) in packets.chunks(100).enumerate() {
        write_raw(scratch.path(), &format!("raw_{part}.bin"), packets);
    }
    let link = raw(&scratch.path().join("raw_*.bin"));
    let (document, _) = run(&source("board", &link));
    let totals = &document["totals"];
    assert_eq!(number(totals, "recorded"), 1100);
    assert_eq!(number(totals, "in_order"), 1100, "{totals}");
}

#[test]
fn raw_files_without_keys_are_read_in_turns_and_the_run_says_so() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut experiment = String::new();
    for board in 0..2 {
        let packets = Board { board, period: MS, latency: 0 }.packets(0..100);
        let file = write_raw(scratch.path(), &format!("{board}.raw"), &packets);
        experiment += &source(&format!("board-{board}"), &raw(&file));
    }
    experiment += "[events]\nbuild = 'packet'\n";
    let (document, first) = run(&experiment);
    assert_eq!(number(&document["totals"], "recorded"), 200);
    let notes = document["notes"].to_string();
    assert!(notes.contains("`board-0`, `board-1`") && notes.contains("in turns"), "{notes}");
    assert!(run(&experiment).1 == first, "the same files, other bytes");
}

#[test]
fn a_pattern_that_nothing_fits_names_itself_and_the_folder() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    std::fs::write(&file, source("board", "[source.pcap]\nfile = 'data/*.pcap'")).expect("written");
    let folder = scratch.path().join("data");
    let message = refused(&call(&["run", text(&file)]), INPUT);
    assert!(message.contains(text(&folder)) && message.contains("*.pcap"), "{message}");
    std::fs::create_dir(&folder).expect("made");
    let message = refused(&call(&["run", text(&file)]), INPUT);
    assert!(message.contains(text(&folder)) && message.contains("*.pcap"), "{message}");
}
