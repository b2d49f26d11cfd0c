//! Shared memory through the whole program: as a source of a run, and what `fluxline shm` shows.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{assert_status_is_true, call, call_json, fluxline, number, text};
use fluxline::clock;
use fluxline::push::{PushOpenError, PushProducer, PushRefused};
use fluxline::shm::{Shm, ShmConfig};
use fluxline_core::fabric::{Completion, Fabric, Grant, Key, Name, Reliability, Rights, Status};
use serde_json::Value;

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

fn find<'a>(document: &'a Value, key: &str, group: &str) -> Option<&'a Value> {
    document[key].as_array().expect("a list").iter().find(|node| node["group"] == group)
}

#[test]
fn a_living_node_is_listed_and_not_cleaned_away() {
    let group = format!("test-cli-{}", std::process::id());
    let mut node = Shm::open(&name(&group), &name("owner"), ShmConfig::default()).expect("opens");
    let region = node.register(8192).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: Key(1) };
    node.export(region, name("samples"), grant).expect("a free name");

    let listed = call_json(&["shm", "list"]);
    let entry = find(&listed, "nodes", &group).expect("listed");
    assert_eq!((&entry["node"], &entry["alive"]), (&"owner".into(), &true.into()));
    assert_eq!(entry["regions"][0]["name"], "samples");
    let text = String::from_utf8(call(&["shm", "list"]).stdout).expect("UTF-8");
    assert!(text.lines().any(|line| line.starts_with("alive") && line.contains(&group)), "{text}");

    let cleaned = call_json(&["shm", "clean"]);
    assert!(find(&cleaned, "removed", &group).is_none());
    assert!(find(&call_json(&["shm", "list"]), "nodes", &group).is_some());
    drop(node);
    assert!(find(&call_json(&["shm", "list"]), "nodes", &group).is_none());
}

/// Connects to the run's node and attaches to its ring, waiting until both are there.
pub fn attach(node: &mut Shm, key: Key) -> Result<PushProducer, Status> {
    let began = Instant::now();
    let endpoint = loop {
        match node.connect("builder", Reliability::Reliable) {
            Ok(endpoint) => break endpoint,
            Err(error) => assert!(began.elapsed() < crate::support::PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    loop {
        assert!(began.elapsed() < crate::support::PATIENCE, "nothing came in time");
        match node.poll(clock::now()) {
            Some(Completion::Connected { .. }) => {
                node.import(endpoint, name("ring"), key).expect("connected");
            }
            Some(Completion::Imported { remote, status: Status::Done, .. }) => {
                return Ok(node.push_producer(remote).expect("a ring"));
            }
            Some(Completion::Imported { status, .. }) => return Err(status),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

pub fn push(ring: &mut PushProducer, packet: &[u8]) {
    while let Err(refused) = ring.push(packet) {
        assert_eq!(refused, PushRefused::Full);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A packet of formats/counter.toml.
fn packet(number: u32) -> [u8; 400] {
    let mut packet = [0_u8; 400];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[8..12].copy_from_slice(&number.to_le_bytes());
    packet[14] = 1; // one packet is the whole fragment
    packet
}

#[test]
fn packets_of_another_process_are_recorded_whole_and_garbage_is_counted() {
    const PACKETS: u32 = 50_000;
    let group = format!("test-run-{}", std::process::id());
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (file, folder) = (scratch.path().join("shm.toml"), scratch.path().join("run"));
    let experiment = format!(
        "[[source]]\nname = 'board'\nformat = 'counter'\n[source.shm]\n\
         url = 'shm://{group}/builder'\nkey = 77000077\nring-bytes = 65536\n\
         [events]\nbuild = 'packet'\n"
    );
    std::fs::write(&file, experiment).expect("written");
    let run = fluxline()
        .args(["--json", "run", text(&file), "--folder", text(&folder), "--seconds", "3"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");

    let mut node = Shm::open(&name(&group), &name("board"), ShmConfig::default()).expect("opens");
    assert_eq!(attach(&mut node, Key(78)).err(), Some(Status::WrongKey));
    let mut ring = attach(&mut node, Key(77_000_077)).expect("the right key");
    for number in (0..PACKETS).filter(|number| *number != 1000) {
        push(&mut ring, &packet(number));
        if number % 32 == 0 {
            ring.publish();
        }
    }
    push(&mut ring, b"garbage");
    push(&mut ring, b"");
    drop(ring); // publishes

    let output = run.wait_with_output().expect("it ends");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_status_is_true(&document, output.status.code());
    let totals = &document["totals"];
    assert_eq!(document["closes"], true);
    assert_eq!(number(totals, "datagrams"), u64::from(PACKETS) + 1);
    assert_eq!(number(totals, "recorded"), u64::from(PACKETS) - 1);
    assert_eq!((number(totals, "rejected"), number(totals, "lost")), (2, 1));
    let stored = std::fs::read_to_string(folder.join("run.json")).expect("readable");
    assert!(!stored.contains("77000077"), "keys are not stored");
}

#[test]
fn a_run_ends_in_time_although_its_producer_never_pauses() {
    let group = format!("test-flood-{}", std::process::id());
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("shm.toml");
    let experiment = format!(
        "[[source]]\nname = 'board'\nformat = 'counter'\n[source.shm]\n\
         url = 'shm://{group}/builder'\nkey = 1\nring-bytes = 65536\n\
         [events]\nbuild = 'packet'\n[record]\nenabled = false\n"
    );
    std::fs::write(&file, experiment).expect("written");
    let mut run = fluxline()
        .args(["--json", "run", text(&file), "--seconds", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut node = Shm::open(&name(&group), &name("board"), ShmConfig::default()).expect("opens");
    let mut ring = attach(&mut node, Key(1)).expect("the right key");
    let began = Instant::now();
    let mut number = 0;
    while run.try_wait().expect("waitable").is_none() {
        assert!(began.elapsed() < crate::support::PATIENCE, "the run does not end");
        for _ in 0..256 {
            match ring.push(&packet(number)) {
                Ok(()) => number += 1,
                Err(PushRefused::Full) => {}
                Err(PushRefused::ConsumerGone) => break,
                Err(other) => panic!("{other}"),
            }
        }
        ring.publish();
    }
    let output = run.wait_with_output().expect("it ended");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_status_is_true(&document, output.status.code());
    assert_eq!(document["closes"], true);
    assert_eq!(self::number(&document["totals"], "lost"), 0);
}

/// A run with two sources of packets, `[source.shm]` and UDP from an emulator, that is not
/// recorded.
fn run_with_two_sources(scratch: &std::path::Path, group: &str, seconds: &str) -> Child {
    let file = scratch.join("two.toml");
    let experiment = format!(
        "[[source]]\nname = 'board'\nformat = 'counter'\n[source.shm]\n\
         url = 'shm://{group}/builder'\nkey = 1\nring-bytes = 65536\n\
         [[source]]\nname = 'other'\nformat = 'counter'\n[source.emulator]\nrate = 2000.0\n\
         [events]\nbuild = 'packet'\n[record]\nenabled = false\n"
    );
    std::fs::write(&file, experiment).expect("written");
    fluxline()
        .args(["--json", "run", text(&file), "--seconds", seconds])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

#[test]
fn a_ring_full_of_ones_is_broken_once_and_the_run_and_its_other_source_go_on() {
    let group = format!("test-ones-{}", std::process::id());
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = run_with_two_sources(scratch.path(), &group, "3");
    let mut node = Shm::open(&name(&group), &name("board"), ShmConfig::default()).expect("opens");
    let mut ring = attach(&mut node, Key(1)).expect("the right key");
    push(&mut ring, &packet(0));
    ring.publish();
    // As `memset(ring, 0xFF, size)` of a defect program leaves it.
    let window = last_window(&mut node);
    window.write(4096, &[0xFF; 65536]).expect("inside");

    let output = run.wait_with_output().expect("it ends");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["closes"], true);
    let inputs = document["ledger"]["inputs"].as_array().expect("a list");
    assert_eq!(inputs[0]["remote"]["rings_broken"], 1);
    assert_eq!(inputs[1]["remote"]["rings_broken"], 0);
    let other = inputs[1]["counters"]["datagrams"].as_u64().expect("a number");
    assert!(other > 1000, "the other source stood still: {other} packets");
    let notes = document["notes"].to_string();
    assert_eq!(notes.matches("the push ring has an invalid record").count(), 1, "{notes}");
}

/// The memory of the ring that [`attach`] imported last.
fn last_window(node: &mut Shm) -> std::sync::Arc<dyn fluxline_core::fabric::Memory> {
    let endpoint = node.connect("builder", Reliability::Reliable).expect("a place");
    loop {
        match node.poll(clock::now()) {
            Some(Completion::Connected { .. }) => {
                node.import(endpoint, name("ring"), Key(1)).expect("connected");
            }
            Some(Completion::Imported { remote, status, .. }) => {
                assert_eq!(status, Status::Done);
                return node.window(remote).expect("imported").expect("mapped");
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn a_second_producer_is_refused_and_a_killed_run_ends_the_first() {
    let group = format!("test-killed-{}", std::process::id());
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut run = run_with_two_sources(scratch.path(), &group, "60");
    let mut node = Shm::open(&name(&group), &name("board"), ShmConfig::default()).expect("opens");
    let mut ring = attach(&mut node, Key(1)).expect("the right key");
    push(&mut ring, &packet(0));
    let doubled = doubled(&mut node);
    assert!(matches!(doubled, PushOpenError::Claimed { .. }), "{doubled}");
    run.kill().expect("killed"); // SIGKILL
    run.wait().expect("waited");
    let began = Instant::now();
    let mut number = 1;
    let refused = loop {
        assert!(began.elapsed() < crate::support::PATIENCE, "it hangs");
        match ring.push(&packet(number)) {
            Ok(()) | Err(PushRefused::Full) => number += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, PushRefused::ConsumerGone);
}

/// Opens a second producer of the ring; returns the error.
fn doubled(node: &mut Shm) -> PushOpenError {
    let endpoint = node.connect("builder", Reliability::Reliable).expect("a place");
    loop {
        match node.poll(clock::now()) {
            Some(Completion::Connected { .. }) => {
                node.import(endpoint, name("ring"), Key(1)).expect("connected");
            }
            Some(Completion::Imported { remote, .. }) => match node.push_producer(remote) {
                Ok(_) => panic!("two producers have the ring"),
                Err(refused) => return refused,
            },
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
