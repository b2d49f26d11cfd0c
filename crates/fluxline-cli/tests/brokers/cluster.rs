//! An experiment over several processes on a real broker: readouts, builders, deaths, takeovers,
//! and the operator's requests. Each event has the packets and the status of one machine.

use std::path::Path;

use crate::lab::{Lab, well};
use crate::process::until;

/// The experiment beside its sources.
const EXPERIMENT: &str = "name = \"beam\"\n[node.r1]\nsources = [\"a\"]\n[node.r2]\nsources = \
                          [\"b\"]\n[events]\nbuild = \"key\"\n";

fn lab_with(sources: &str) -> Lab {
    Lab::new("", &format!("{EXPERIMENT}{sources}"))
}

/// Returns the events of a run with their status, and the packets with their events, sorted.
fn rows(lab: &Lab, run: &str) -> [Vec<String>; 2] {
    let events = lab.csv(run, "events.csv", "key,generation,status");
    let packets = lab.csv(run, "counter-data.csv", "event_key,source_name,sequence");
    [events, packets].map(|mut rows| {
        rows.sort();
        rows
    })
}

const CAPTURES: &str = "[[source]]\nname = \"a\"\nformat = \"counter\"\npcap = { file = \
                        \"a.pcapng\", speed = \"recorded\" }\n[[source]]\nname = \"b\"\nformat = \
                        \"counter\"\npcap = { file = \"b.pcapng\", speed = \"recorded\" }\n";

#[test]
#[ignore = "all: a broker"]
fn events_have_the_packets_and_status_of_one_machine_although_a_builder_is_killed() {
    let lab = lab_with(CAPTURES);
    for (file, seed) in [("a.pcapng", "1"), ("b.pcapng", "2")] {
        lab.done(&[
            "emulate",
            "counter",
            "--to",
            file,
            "--sources",
            "3",
            "--rate",
            "100",
            "--packets",
            "800",
            "--drop",
            "0.01",
            "--seed",
            seed,
        ]);
    }
    lab.done(&["run", "e.toml", "--folder", "alone"]);
    let (one, two) = (lab.node("builder", "b1"), lab.node("builder", "b2"));
    one.wait_for("waiting for");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    until("a batch", || has_events(lab.folder.path()), || one.said() + &two.said());
    one.signal("-KILL");
    drop(one);
    let three = lab.node("builder", "b3");
    let mut handed = 0;
    for readout in readouts {
        handed += well(readout)["counters"]["handed"].as_u64().expect("a count");
    }
    let builders = [well(two), well(three)];
    assert!(builders.iter().all(|document| document["over"] == true), "{builders:?}");
    let address = lab.address();
    lab.done(&[
        "gather",
        "runs/lab-0001-b1",
        "runs/lab-0001-b2",
        "runs/lab-0001-b3",
        "--from",
        &address,
        "--into",
        "together",
    ]);
    let ([events, packets], together) = (rows(&lab, "alone"), rows(&lab, "together"));
    assert_eq!(packets.len() as u64, handed, "one row for each packet");
    assert!(packets == together[1], "events have other packets than on one machine");
    assert_eq!(events, together[0], "status");
}

/// Returns true when a builder has written events.
fn has_events(folder: &Path) -> bool {
    let builders = std::fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let parts =
        builders.flat_map(|of| std::fs::read_dir(of.path()).into_iter().flatten().flatten());
    let mut files =
        parts.flat_map(|of| std::fs::read_dir(of.path()).into_iter().flatten().flatten());
    files.any(|file| {
        let is_events = file.file_name().to_string_lossy().starts_with("events");
        is_events && file.metadata().is_ok_and(|of| of.len() > 10_000)
    })
}

const LIVE: &str = "[[source]]\nname = \"a\"\nformat = \"counter\"\nemulator = { sources = 2, rate \
                    = 100 }\n[[source]]\nname = \"b\"\nformat = \"counter\"\nemulator = { sources \
                    = 2, rate = 100 }\n";

#[test]
#[ignore = "all: a broker"]
fn a_readout_that_dies_starts_again_or_is_ended_and_a_second_one_replaces_it() {
    let lab = lab_with(LIVE);
    let address = lab.address();
    let (status, _, said) = lab.command(&["run", "e.toml", "--node", "r3"]);
    assert!(status == Some(3) && said.contains("`r1`, `r2` or `builder`"), "{said}");
    let builder = lab.node("builder", "b1");
    builder.wait_for("made the topics");
    let (status, _, said) = lab.command(&["ctl", &address, "stop"]);
    assert!(status == Some(3) && said.contains("no run that goes on"), "{said}");
    let (status, _, said) = lab.command(&["ctl", &address, "start"]);
    assert!(status == Some(3) && said.contains("every readout node"), "{said}");
    let (first, other) = (lab.node("r1", "x1"), lab.node("r2", "y1"));
    first.wait_for("reads out");
    other.wait_for("reads out");
    lab.done(&["ctl", &address, "shot", "42"]);
    lab.done(&["ctl", &address, "note", "beam on"]);
    // A readout is killed and started again: the others see it.
    first.signal("-KILL");
    other.wait_for("node `r1` (process");
    other.wait_for("silent for 3 s");
    let state = lab.status();
    assert_eq!((&state["run"]["shot"], &state["run"]["number"]), (&42.into(), &1.into()));
    let dead = |of: &&serde_json::Value| of["node"] == "r1" && of["life"] == "dead";
    assert!(state["nodes"].as_array().expect("nodes").iter().any(|of| dead(&of)), "{state}");
    drop(first);
    let again = lab.node("r1", "x2");
    again.wait_for("start 1 of this node");
    // A second process of the same name: the older one stops.
    let third = lab.node("r1", "x3");
    third.wait_for("start 2 of this node");
    let (status, _, said) = again.end();
    assert!(status == Some(1) && said.contains("two nodes have the same name"), "{said}");
    assert!(said.contains("`r1` was started again as process"), "{said}");
    // A readout that is dead for good is ended by the operator.
    other.signal("-KILL");
    third.wait_for("node `r2` (process");
    third.wait_for(&format!("fluxline ctl {address} end r2"));
    drop(other);
    let (status, _, said) = lab.command(&["ctl", &address, "end", "r9"]);
    assert!(status == Some(3) && said.contains("it has r1, r2"), "{said}");
    lab.done(&["ctl", &address, "end", "r2"]);
    let (status, _, said) = lab.node("r2", "y2").end();
    assert!(status == Some(1) && said.contains("already ended in run 1"), "{said}");
    lab.done(&["ctl", &address, "stop"]);
    well(third);
    // The builder ends with the verdict on the whole run.
    let (status, document, said) = builder.end();
    assert!(status == Some(7) && said.contains("has ended, but r1 (start 0"), "{said}");
    assert!(said.contains("died: packets that it received after its last block"), "{said}");
    let counters = &document["counters"];
    assert_eq!((&document["over"], &counters["records_missing"]), (&true.into(), &0.into()));
    assert!(counters["taken"].as_u64() > Some(500), "{counters}");
    let (status, table, said) = lab.command(&["inspect", &address]);
    assert_eq!(status, Some(7), "{said}");
    assert!(table.contains("the ledger closes"), "{table}");
    assert!(!table.contains("every received datagram is in exactly one place"), "{table}");
}

#[test]
#[ignore = "all: a broker"]
fn broker_that_dies_and_comes_back_takes_no_packet_with_it() {
    let lab = lab_with(LIVE);
    let builder = lab.node("builder", "b1");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    lab.goes_on(200);
    lab.broker.kill(std::time::Duration::from_secs(1));
    lab.goes_on(200);
    lab.done(&["ctl", &lab.address(), "stop"]);
    readouts.into_iter().for_each(|readout| drop(well(readout)));
    well(builder);
    let ledger = lab.ledger();
    assert_eq!((&ledger["state"], &ledger["status"]), (&"ended".into(), &0.into()), "{ledger}");
    assert_eq!(ledger["committed"]["packets"], ledger["received"], "{ledger}");
    let table = lab.done(&["inspect", &lab.address()]);
    assert!(table.contains("every received datagram is in exactly one place"), "{table}");
}
