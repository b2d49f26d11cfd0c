//! Runs that begin and end in the middle of traffic, and sources that fall silent: nothing is
//! called lost that was never there, and nothing that came is thrown away.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::support::{
    Running, assert_status_is_true, call_json, call_json_ending, free_port, number, run_document,
    text,
};
use serde_json::Value;

fn ended(running: Running, folder: &std::path::Path) -> Value {
    let (code, said) = running.end();
    assert!(!said.contains("panicked"), "{said}");
    let document = run_document(folder);
    assert_status_is_true(&document, code);
    assert_eq!(document["state"], "finished");
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    document
}

#[test]
fn start_under_traffic_counts_nothing_before_the_first_packet_as_lost() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let port = free_port();
    let (to, listen) = (format!("udp://127.0.0.1:{port}"), format!("127.0.0.1:{port}"));
    let sensors = Running::spawn(&[
        "emulate",
        "counter",
        "--to",
        &to,
        "--sources",
        "3",
        "--rate",
        "1000",
        "--payload-bytes",
        "64",
    ]);
    sensors.wait_for_handler();
    std::thread::sleep(Duration::from_millis(200)); // some 200 packets of each go nowhere
    let sized = ["--format", "counter", "--events", "key", "--seconds", "1"];
    let all = [&["run", "--udp", &listen, "--folder", text(&folder)], &sized[..]].concat();
    let document = ended(Running::start(&all, "memory "), &folder);
    sensors.interrupt();
    let (code, said) = sensors.end();
    assert_eq!(code, Some(0), "{said}");
    let totals = &document["totals"];
    let dropped = number(totals, "socket_dropped");
    assert!(number(totals, "lost") <= dropped, "lost {totals}");
    assert_eq!(number(totals, "recorded"), number(totals, "datagrams"));
    let sources = document["ledger"]["sources"].as_array().expect("sources");
    assert_eq!(sources.len(), 3);
    for source in sources {
        let (first, last) = (number(source, "first_sequence"), number(source, "last_sequence"));
        assert!(first > 0, "traffic went on before the run: {source}");
        let counters = &source["counters"];
        assert_eq!(number(counters, "expected"), last - first + 1);
        assert!(number(counters, "parsed") > 100, "{source}");
        assert_eq!(number(counters, "restarts"), 0);
    }
}

#[test]
fn data_sent_just_before_the_stop_is_recorded() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let packet = counter_packet(scratch.path());
    for round in 0..10 {
        let folder = scratch.path().join(format!("run-{round}"));
        let (running, port) = Running::listen(&["--format", "counter", "--folder", text(&folder)]);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for number in 0..100_u32 {
            let mut packet = packet.clone();
            packet[8..12].copy_from_slice(&number.to_le_bytes()); // packet_number
            packet[16..20].copy_from_slice(&number.to_le_bytes()); // event_number
            sender.send_to(&packet, ("127.0.0.1", port)).expect("sent");
        }
        running.interrupt(); // while they are in the socket, the ring, or a batch
        let document = ended(running, &folder);
        assert_eq!(number(&document["totals"], "socket_dropped"), 0, "100 small ones fit");
        assert_eq!(number(&document["totals"], "recorded"), 100, "round {round}");
        let found = call_json(&["inspect", text(&folder)]);
        assert_eq!(number(&found["readable"], "packets"), 100, "round {round}");
    }
}

#[test]
fn a_sender_that_never_pauses_does_not_keep_a_run_from_its_end() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let packet = counter_packet(scratch.path());
    let folder = scratch.path().join("run");
    let (running, port) = Running::listen(&["--format", "counter", "--folder", text(&folder)]);
    let over = Arc::new(AtomicBool::new(false));
    let (begun, flows) = channel();
    let flood = {
        let over = over.clone();
        std::thread::spawn(move || {
            let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            for sent in 0_u64.. {
                let _ = sender.send_to(&packet, ("127.0.0.1", port));
                if sent == 50_000 {
                    begun.send(()).expect("somebody waits");
                }
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        })
    };
    flows.recv().expect("it sends");
    running.interrupt();
    let document = ended(running, &folder);
    over.store(true, Ordering::Relaxed);
    flood.join().expect("the sender ends");
    let totals = &document["totals"];
    let came = number(totals, "datagrams") + number(totals, "socket_dropped");
    assert!(came > 1000 && number(totals, "datagrams") > 0, "it was a flood: {totals}");
}

#[test]
fn a_silent_source_neither_stops_the_run_nor_hides() {
    let experiment = |require: &str| {
        format!(
            "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\nsources = 3\n\
             rate = 1000\npackets = 200\npayload-bytes = 64\nseed = 1\nlink = 'direct'\n\
             [events]\nbuild = 'key'\nrequire = {require}\ntimeout-ms = 50\n"
        )
    };
    let labels = "['source_id=0', 'source_id=1', 'source_id=2', 'source_id=3']";
    for (require, reason) in [("4", "3 of 4 sources came"), (labels, "source_id=3: sent nothing")] {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let file = scratch.path().join("experiment.toml");
        std::fs::write(&file, experiment(require)).expect("written");
        let folder = scratch.path().join("run");
        let run = ["run", text(&file), "--folder", text(&folder)];
        let document = call_json_ending(&run, 7); // a source that is required is not there
        assert_eq!(document["closes"], true, "{}", document["laws"]);
        let totals = &document["totals"];
        assert_eq!(number(totals, "events_complete"), 0);
        assert_eq!(number(totals, "events_incomplete") + number(totals, "events_stopped"), 200);
        assert!(number(totals, "events_incomplete") > 50, "{totals}");
        assert_eq!(number(totals, "recorded"), 600, "what came is recorded");
        let found = call_json_ending(&["inspect", text(&folder)], 7);
        let incomplete = found["incomplete"].as_array().expect("events");
        assert_eq!(incomplete.len(), 10, "the first ten are shown");
        for event in incomplete {
            assert!(event.as_str().is_some_and(|event| event.ends_with(reason)), "{event}");
        }
        call_json(&["export", text(&folder), "--to", "csv"]);
        let events =
            std::fs::read_to_string(folder.join("export-csv/events.csv")).expect("a table");
        assert_eq!(events.lines().filter(|line| line.contains(reason)).count(), 200);
    }
}

/// A packet of the counter format, as its emulator makes it.
fn counter_packet(scratch: &std::path::Path) -> Vec<u8> {
    let file = scratch.join("one.pcapng");
    let sized = ["--packets", "1", "--payload-bytes", "64", "--seed", "1"];
    call_json(&[&["emulate", "counter", "--to", text(&file)], &sized[..]].concat());
    let bytes = std::fs::read(&file).expect("readable");
    let magic = 0x4358_4C46_u32.to_le_bytes();
    let start = bytes.windows(4).position(|window| window == magic).expect("the magic word");
    bytes[start..start + 32 + 64].to_vec()
}
