//! Real captures through the whole program, against their ground truth.

use crate::support::{call_json, capture, number, run_json, text};
use serde_json::Value;

fn run(file: &str, format: &str) -> Option<(tempfile::TempDir, Value)> {
    let file = capture(file)?;
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let document =
        run_json(&["run", "--pcap", &file, "--format", format, "--folder", text(&folder)]);
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    Some((scratch, document))
}

#[test]
fn two_fecs_of_50_packets_miss_exactly_one_each() {
    let Some((scratch, document)) = run("vmm-sdat/example.pcapng", "srs-vmm3") else { return };
    let sources = document["ledger"]["sources"].as_array().expect("sources");
    assert_eq!(sources.len(), 2);
    for (label, missing) in [("10.0.0.2", 11_867_958), ("10.0.0.1", 11_888_191)] {
        let source = sources
            .iter()
            .find(|source| source["label"].as_str().is_some_and(|of| of.starts_with(label)))
            .expect(label);
        assert_eq!(number(&source["counters"], "parsed"), 50);
        assert_eq!(number(&source["counters"], "lost"), 1);
        let ranges = source["missing"].as_array().expect("ranges");
        assert_eq!(ranges.len(), 1);
        assert_eq!(number(&ranges[0], "first"), missing);
        assert_eq!(number(&ranges[0], "last"), missing);
    }
    let folder = scratch.path().join("run");
    let exported = call_json(&["export", text(&folder), "--to", "csv", "--rows", "records"]);
    let rows: Vec<u64> = exported["tables"]
        .as_array()
        .expect("tables")
        .iter()
        .filter(|table| table["file"].as_str().is_some_and(|file| file.contains("hit_or_marker")))
        .map(|table| number(table, "rows"))
        .collect();
    assert_eq!(rows, [100 * (8968 - 16) / 6], "every 6-byte record is a row");
}

#[test]
fn lidar_frames_1795_to_1797_are_complete_with_64_packets() {
    let file = "ouster/OS-1-128_v2.3.0_1024x10_lb_n3.pcap";
    let Some((scratch, document)) = run(file, "ouster") else { return };
    assert_eq!(number(&document["totals"], "rejected"), 0);
    assert_eq!(number(&document["totals"], "events_complete"), 3 + 30);
    let folder = scratch.path().join("run");
    call_json(&["export", text(&folder), "--to", "csv"]);
    let events = std::fs::read_to_string(folder.join("export-csv/events.csv")).expect("events");
    let head: Vec<&str> = events.lines().next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|head| *head == name).expect(name);
    let frames: Vec<(&str, &str)> = events
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|row| !row[column("key")].is_empty())
        .map(|row| (row[column("key")], row[column("status")]))
        .collect();
    assert_eq!(frames, [("1795", "complete"), ("1796", "complete"), ("1797", "complete")]);
}

#[test]
fn all_34_check_sums_of_a_lidar_hold_and_a_flipped_bit_does_not() {
    let Some((_scratch, document)) = run("ouster/crc_test.pcap", "ouster") else { return };
    assert_eq!(number(&document["totals"], "rejected"), 0);
    let sources = document["ledger"]["sources"].as_array().expect("sources");
    let lidar = sources.iter().find(|source| source["label"] == "127.0.0.1:7502").expect("lidar");
    assert_eq!(number(&lidar["counters"], "parsed"), 34);

    let path = capture("ouster/crc_test.pcap").expect("it was there");
    let mut bytes = std::fs::read(path).expect("readable");
    bytes[24 + 16 + 42 + 4000] ^= 1; // in the payload of the first frame
    bytes[24 + 16 + 40..][..2].fill(0); // without UDP's own check sum, which would find it first
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("flipped.pcap");
    std::fs::write(&file, bytes).expect("written");
    let checked = call_json(&["format", "check", "ouster", "--capture", text(&file)]);
    let rejects = checked["rejects"].as_array().expect("rejects");
    assert_eq!(rejects.len(), 1);
    assert!(rejects[0]["reason"].as_str().is_some_and(|reason| reason.contains("check sum")));
    assert_eq!(number(&rejects[0], "packets"), 1);
}

#[test]
fn ip_fragments_of_two_sensors_on_one_port_stay_apart() {
    let Some((_scratch, document)) = run("ouster/same_ports.pcap", "ouster") else { return };
    let sources = document["ledger"]["sources"].as_array().expect("sources");
    let mut labels: Vec<&str> =
        sources.iter().filter_map(|source| source["label"].as_str()).collect();
    labels.sort_unstable();
    assert_eq!(
        labels,
        [
            "169.254.238.111:44474",
            "169.254.238.111:51514",
            "169.254.92.158:40063",
            "169.254.92.158:44156"
        ]
    );
    assert_eq!(number(&document["inputs"][0]["capture"], "reassembled"), 2);
}

#[test]
fn frames_of_other_protocols_are_counted_and_the_35_packets_found() {
    let file = "vmm-sdat/example_triggered_mode.pcapng";
    let Some(path) = capture(file) else { return };
    let checked = call_json(&["format", "check", "srs-vmm3", "--capture", &path, "--port", "6006"]);
    let sources = checked["sources"].as_array().expect("sources");
    assert_eq!(sources.len(), 1);
    assert_eq!(number(&sources[0]["counters"], "parsed"), 35);
    assert_eq!(number(&sources[0], "first_sequence"), 3);
    assert_eq!(number(&sources[0], "last_sequence"), 37);
    assert_eq!(number(&checked["capture"], "frames"), 82);
}

/// A pcap file of Ethernet frames with UDP datagrams to port 5000, whose check sums are as given.
fn capture_with_sums(sums: &[[u8; 2]]) -> Vec<u8> {
    let mut file = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0xFF, 0xFF, 0, 0, 1, 0, 0, 0]);
    for (number, sum) in sums.iter().enumerate() {
        let payload = [0x42, 0x4F, 0x52, 0x44, 0, 1, 0, number as u8];
        let payload = [&payload[..], &[0; 44]].concat();
        let length = [0, 8 + payload.len() as u8];
        let udp = [&[0x13, 0x88, 0x13, 0x88][..], &length, sum, &payload].concat();
        let ip =
            [&[0x45, 0, 0, 20 + udp.len() as u8, 0, 0, 0, 0, 64, 17, 0, 0][..], &[10, 0, 0, 1]];
        let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &ip.concat(), &[10, 0, 0, 2]];
        let frame = [frame.concat(), udp].concat();
        let size = (frame.len() as u32).to_le_bytes();
        file.extend([&[0; 8][..], &size, &size, &frame].concat());
    }
    file
}

#[test]
fn wrong_check_sums_are_named_as_the_reason_with_the_option_that_takes_them() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let board = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/board/board.toml");
    let write = |name: &str, sums: &[[u8; 2]]| {
        let file = scratch.path().join(name);
        std::fs::write(&file, capture_with_sums(sums)).expect("written");
        file
    };
    let some = write("some.pcap", &[[0, 0], [1, 2], [0, 0], [3, 4]]);
    let folder = scratch.path().join("run");
    let of_run = ["run", "--pcap", text(&some), "--format", board, "--folder", text(&folder)];
    let document = run_json(&of_run);
    assert_eq!(document["status"], 7);
    assert_eq!(number(&document["totals"], "check_sum_wrong"), 2);
    assert_eq!(number(&document["totals"], "frames_unusable"), 0);
    let sentence = document["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("`check-sums = false`"), "{sentence}");
    assert!(!sentence.contains("tcpdump"), "{sentence}");

    let folder = scratch.path().join("taken");
    let of_run = ["run", "--pcap", text(&some), "--format", board, "--folder", text(&folder)];
    let document = run_json(&[&of_run[..], &["--no-check-sums"]].concat());
    assert_eq!(number(&document["totals"], "datagrams"), 4);

    let all = write("all.pcap", &[[1, 2], [3, 4]]);
    let output = crate::support::call(&["format", "check", board, "--capture", text(&all)]);
    let sentence = crate::support::refused(&output, 7);
    assert!(sentence.contains("2 have a wrong UDP check sum"), "{sentence}");
    assert!(sentence.contains("--no-check-sums takes those"), "{sentence}");
}
