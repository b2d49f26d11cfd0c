//! Sources of a cluster that join late, pause and fall silent: builders say so, their status and
//! run.json of the gathered run state it, and a pause that lost nothing leaves whole events.
#![cfg(feature = "kafka")]

#[path = "support/lab.rs"]
mod lab;
#[path = "support/packets.rs"]
mod packets;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lab::Lab;
use lab::process::Process;
use packets::Packet;
use serde_json::Value;

const EXPERIMENT: &str = r#"
name = "beam"
[events]
build = "key"
require = ["b/source_id=2"]
[[source]]
name = "a"
format = "counter"
[source.udp]
listen = ["127.0.0.1:0"]
[[source]]
name = "b"
format = "counter"
[source.udp]
listen = ["127.0.0.1:0"]
[node.r1]
sources = ["a"]
[node.r2]
sources = ["b"]
"#;

const EVENTS: u64 = 1000;
const PERIOD: Duration = Duration::from_millis(4);

/// Returns the packets of an event: board 0 sends always, board 1 pauses and loses nothing, board 2
/// joins late and falls silent.
fn packets_of(event: u64) -> Vec<Packet> {
    let packet = |board, number: u64| {
        let (time, number) = (event * PERIOD.as_nanos() as u64, number as u32);
        Packet { time, board, number, event }
    };
    let mut packets = vec![packet(0, event)];
    match event {
        0..300 => packets.push(packet(1, event)),
        700.. => packets.push(packet(1, event - 400)),
        _ => {}
    }
    if (100..500).contains(&event) {
        packets.push(packet(2, event - 100));
    }
    packets
}

/// Sends board 0 to one node and the others to the other; returns the number of packets.
fn send_all(nodes: &[Process; 2]) -> u64 {
    let address_of =
        |(source, node): (&str, &Process)| node.wait_for_rest(&format!("source {source} on "));
    let addresses: Vec<String> = ["a", "b"].into_iter().zip(nodes).map(address_of).collect();
    // A socket for each board: a sender is known by its port, too.
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let sockets = [socket(), socket(), socket()];
    let (began, mut sent) = (Instant::now(), 0);
    for event in 0..EVENTS {
        std::thread::sleep((PERIOD * event as u32).saturating_sub(began.elapsed()));
        for packet in packets_of(event) {
            let board = usize::from(packet.board);
            let to = &addresses[board.min(1)];
            sockets[board].send_to(&packet.bytes(), to).expect("sent");
            sent += 1;
        }
    }
    sent
}

#[test]
fn source_that_falls_silent_in_a_cluster_is_no_fault_of_the_run() {
    let lab = Lab::new("", EXPERIMENT);
    let address = lab.address();
    let builder = lab.node("builder", "b1");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    let sent = send_all(&readouts);
    lab.done(&["ctl", &address, "stop"]);
    for readout in readouts {
        let (status, _, said) = readout.end();
        assert_eq!(status, Some(0), "{said}");
    }
    let (status, _, said) = builder.end();
    assert_eq!(status, Some(7), "{said}");
    let verdict = said.clone();
    for (board, note) in [
        (2, "joined at key 100, "),
        (2, "silent since key "),
        (1, "silent since key "),
        (1, "sends again from key 700 on"),
    ] {
        let label = format!("source_id={board} {note}");
        assert!(said.contains(&label), "`{label}`: {said}");
    }
    let (status, _, said) = lab.command(&["gather", &address, "--into", "all"]);
    let advice = format!("`fluxline gather runs/lab-0001-* --from {address} --run 1 --into …`");
    assert!(status == Some(3) && said.contains(&advice), "{said}");
    lab.done(&["gather", "runs/lab-0001-b1", "--from", &address, "--into", "all"]);
    let text = std::fs::read_to_string(lab.path("all/run.json")).expect("run.json");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["recorded"]["packets"], sent, "{document}");
    let sentence = document["sentence"].as_str().unwrap_or_default();
    assert_eq!(document["status"], 7, "{document}");
    assert!(sentence.contains("source_id=2 silent for the last"), "{sentence}");
    assert!(verdict.contains(sentence), "`{sentence}` is not what the builder says: {verdict}");
    let name = document["gathered"]["run-id"].as_str().unwrap_or_default();
    assert!(name.starts_with("lab-1-"), "{document}");
    assert!(!document["amendments"].as_array().expect("a list").is_empty(), "{document}");
    assert_pause_is_proven(&lab);
}

/// The counter of board 1 goes on after its pause: events of the pause lack nothing of it.
fn assert_pause_is_proven(lab: &Lab) {
    let rows = lab.csv("all", "events.csv", "key,status,missing");
    assert_eq!(rows.len() as u64, EVENTS);
    let in_pause = |row: &&String| {
        let key = row.split(',').next().and_then(|key| key.parse::<u64>().ok());
        key.is_some_and(|key| (300..480).contains(&key))
    };
    let of_pause: Vec<&String> = rows.iter().filter(in_pause).collect();
    assert_eq!(of_pause.len(), 180);
    let lacking: Vec<&&String> =
        of_pause.iter().filter(|row| !row.contains(",complete,")).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}
