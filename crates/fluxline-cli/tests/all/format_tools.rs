//! `fluxline format check` over raw files, `format new`, and dissectors for several ports.

use std::path::Path;

use crate::support::{call, call_json, capture, number, refused, text};

/// Exit status of a command that finished with something to look at.
const LOOK: i32 = 7;
/// Exit status of a wrong command line.
const USAGE: i32 = 2;

/// A capture of two boards, and the same payloads as raw files: of one size, with lengths before.
fn files(scratch: &Path) -> [String; 3] {
    let captured = scratch.join("board.pcapng");
    let sized = ["--packets", "300", "--sources", "2", "--seed", "1", "--payload-bytes", "64"];
    call_json(&[&["emulate", "counter", "--to", text(&captured)], &sized[..]].concat());
    let bytes = std::fs::read(&captured).expect("readable");
    let (mut fixed, mut prefixed) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let word = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let (kind, length) = (word(at), word(at + 4));
        if kind == 6 {
            // Block header, packet header; Ethernet, IPv4 and UDP headers.
            let payload = &bytes[at + 28 + 14 + 20 + 8..at + 28 + word(at + 20)];
            fixed.extend(payload);
            prefixed.extend((payload.len() as u16).to_be_bytes());
            prefixed.extend(payload);
        }
        at += length;
    }
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(scratch.join(name), bytes).expect("written");
        text(&scratch.join(name)).to_string()
    };
    [text(&captured).to_string(), write("fixed.bin", &fixed), write("prefixed.bin", &prefixed)]
}

#[test]
fn a_raw_file_is_checked_by_the_words_of_the_experiment_file() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let [captured, fixed, prefixed] = files(scratch.path());
    let counts = |file: &[&str]| {
        let document = call_json(&[&["format", "check", "counter"], file].concat());
        let sources = document["sources"].as_array().expect("sources").clone();
        let parsed = |of: &serde_json::Value| number(&of["counters"], "parsed");
        (sources.len(), sources.iter().map(parsed).sum::<u64>())
    };
    assert_eq!(counts(&["--capture", &captured]), (2, 600));
    let size = std::fs::metadata(&fixed).expect("there").len() / 600;
    assert_eq!(counts(&["--raw", &fixed, "--record-bytes", &size.to_string()]), (2, 600));
    assert_eq!(counts(&["--raw", &prefixed, "--length-prefix", "u16-be"]), (2, 600));
    let output = call(&["format", "check", "counter", "--raw", &fixed, "--record-bytes", "7"]);
    let message = refused(&output, LOOK);
    assert!(message.contains("fixed.bin") && message.contains("framing"), "{message}");
    for wrong in [
        &["--raw", &fixed][..],
        &["--raw", &fixed, "--record-bytes", "8", "--length-prefix", "u16-le"],
        &["--raw", &fixed, "--record-bytes", "8", "--capture", &captured],
        &["--raw", &fixed, "--record-bytes", "8", "--port", "1"],
        &[],
    ] {
        let output = call(&[&["format", "check", "counter"], wrong].concat());
        assert_eq!(output.status.code(), Some(USAGE), "{wrong:?}");
    }
}

#[test]
fn a_dissector_is_registered_on_every_port_that_is_given() {
    let output = call(&["format", "wireshark", "counter", "--port", "6006", "--port", "6007"]);
    let lua = String::from_utf8(output.stdout).expect("UTF-8");
    for port in ["6006", "6007"] {
        let line = format!("DissectorTable.get(\"udp.port\"):add({port}, proto)");
        assert_eq!(lua.matches(&line).count(), 1, "{lua}");
    }
}

/// Drafts a description; checks the file that it was made from by it, and returns both.
fn drafted(scratch: &Path, file: &[&str]) -> (String, serde_json::Value) {
    let output = call(&[&["format", "new"], file].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let draft = scratch.join("draft.toml");
    std::fs::write(&draft, &output.stdout).expect("written");
    let check = call_json(&[&["format", "check", text(&draft)], file].concat());
    (String::from_utf8(output.stdout).expect("UTF-8"), check)
}

#[test]
fn a_draft_fits_the_file_that_it_was_made_from() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let [captured, _, prefixed] = files(scratch.path());
    for file in [&["--capture", &captured][..], &["--raw", &prefixed, "--length-prefix", "u16-be"]]
    {
        let (text, check) = drafted(scratch.path(), file);
        assert_eq!(check["rejects"].as_array().map(Vec::len), Some(0), "{text}");
        let parsed = |of: &serde_json::Value| number(&of["counters"], "parsed");
        let sources = check["sources"].as_array().expect("sources");
        assert_eq!(sources.iter().map(parsed).sum::<u64>(), 600, "{text}");
    }
    let (text, check) = drafted(scratch.path(), &["--capture", &captured]);
    assert!(text.contains("sequence = { value = \"counter\" }"), "{text}");
    for source in check["sources"].as_array().expect("sources") {
        assert_eq!(number(&source["counters"], "lost"), 0, "{text}");
    }
}

#[test]
fn a_capture_of_several_ports_is_drafted_for_the_busiest_and_says_so() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let empty = scratch.path().join("empty.pcap");
    std::fs::write(
        &empty,
        [0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
    )
    .expect("written");
    let message = refused(&call(&["format", "new", "--capture", text(&empty)]), 3);
    assert!(message.contains("holds 0 packets"), "{message}");
}

#[test]
fn the_counter_of_a_real_board_is_drafted() {
    let Some(file) = capture("vmm-sdat/example.pcapng") else { return };
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (text, check) = drafted(scratch.path(), &["--capture", &file, "--port", "6006"]);
    assert_eq!(check["rejects"].as_array().map(Vec::len), Some(0), "{text}");
    // The frame counter of the SRS is the first word, big-endian; of it, 7 bits move in the
    // capture.
    assert!(text.contains("# Bytes 3..4: bits 6..0, one byte: counts by one"), "{text}");
    assert!(text.contains("how wide it is beyond them is a guess"), "{text}");
    let shipped = call_json(&["format", "check", "srs-vmm3", "--capture", &file, "--port", "6006"]);
    let lost = |of: &serde_json::Value| {
        let sources = of["sources"].as_array().expect("sources");
        sources.iter().map(|source| number(&source["counters"], "lost")).sum::<u64>()
    };
    assert_eq!(lost(&check), lost(&shipped), "{text}");
}

#[test]
fn real_captures_of_lidars_are_drafted_and_fit_their_drafts() {
    for name in ["OS-1-128_v2.3.0_1024x10_lb_n3.pcap", "imu_zm_no_lidar.pcap", "crc_test.pcap"] {
        let Some(file) = capture(&format!("ouster/{name}")) else { return };
        let scratch = tempfile::tempdir().expect("a scratch folder");
        // The lidar sends to two ports; the busier one is drafted.
        let port = if name.starts_with("imu") { "7513" } else { "7502" };
        let (text, check) = drafted(scratch.path(), &["--capture", &file, "--port", port]);
        assert_eq!(check["rejects"].as_array().map(Vec::len), Some(0), "{name}\n{text}");
    }
}
