//! The recorded traffic of eight boards on every link: the events must be those of one node.
//!
//! One board is late, one starts again, one is rare and has no counter, one dies; others lose,
//! double and reorder packets, or send an event in two parts. The captures are written here, so
//! that every link has the same packets at the same times, and no time of this host decides.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::capture::writer::CaptureWriter;
use fluxline_daq::experiment::Experiment;

use crate::same_events::{SIMULATED, compare_with_one_node, folder};

/// The time of the first event \[ns since 1970\].
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
/// From one event to the next \[ns\].
const PERIOD_NS: u64 = 100_000;
/// A description of a board that has no counter.
const WITHOUT_COUNTER: &str = r#"
name = "rare"
about = "A board without a counter"
reference = "this test"
byte-order = "little"

[[packet]]
name = "data"
fields = [
  { name = "mark", type = "u32", equals = 0x45524152 },
  { name = "board", type = "u32" },
  { name = "event_number", type = "u64" },
]
source = ["board"]
event = { key = "event_number" }
"#;

/// A packet at a time after the first event.
pub struct Packet {
    at_ns: u64,
    pub bytes: Vec<u8>,
}

/// A packet of format `counter`.
fn counted(board: u16, number: u32, part: (u16, u16), event: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&0x4358_4C46_u32.to_le_bytes());
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&board.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&part.0.to_le_bytes());
    bytes.extend_from_slice(&part.1.to_le_bytes());
    bytes.extend_from_slice(&event.to_le_bytes());
    bytes.extend_from_slice(&(BEGIN_NS + event * PERIOD_NS).to_le_bytes());
    bytes.extend_from_slice(&(event ^ u64::from(board)).to_le_bytes());
    bytes
}

/// A number below `of` that depends on `seed` alone.
fn draw(seed: u64, of: u64) -> u64 {
    let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) % of
}

/// The packets of a board in `events` events, and the number of those that were lost before.
pub fn packets(board: u16, events: u64) -> (Vec<Packet>, u64) {
    let (mut packets, mut lost) = (Vec::new(), 0);
    let mut number = 0;
    for event in 0..events {
        let seed = event * 8 + u64::from(board);
        let mut at_ns = event * PERIOD_NS + 1_000 * draw(seed, 20);
        let parts = if board == 6 { 2 } else { 1 };
        match board {
            // Out of order by up to three events.
            2 => at_ns += draw(seed + 1, 3) * PERIOD_NS,
            // Late by a fifth of a second, once by half a second more.
            3 => at_ns += 200_000_000 + if event / 100 == 3 { 300_000_000 } else { 0 },
            // Off for a twentieth of the time; its counter then begins anew.
            4 if event >= events / 2 && event < events / 2 + events / 20 => {
                number = 0;
                continue;
            }
            5 if event % 7 != 0 => continue,
            7 if event > events / 4 * 3 => break,
            _ => {}
        }
        for part in 0..parts {
            let bytes = match board {
                5 => [&b"RARE"[..], &5_u32.to_le_bytes(), &event.to_le_bytes()].concat(),
                _ => counted(board, number, (part, parts), event),
            };
            number += 1;
            let is_lost = matches!(board, 1 | 6) && draw(seed + 77, 100) == 0 && part == 0;
            let copies = if board == 1 && draw(seed + 99, 50) == 0 { 2 } else { 1 };
            lost += u64::from(is_lost);
            for copy in 0..if is_lost { 0 } else { copies } {
                packets.push(Packet { at_ns: at_ns + copy * 50_000, bytes: bytes.clone() });
            }
        }
    }
    packets.sort_by_key(|packet| packet.at_ns);
    (packets, lost)
}

/// Writes the captures of all boards below `at`, and returns an experiment that reads them.
pub fn experiment(events: u64, at: &Path) -> Experiment {
    let file = write_experiment(events, at);
    Experiment::load(&file).expect("a right experiment")
}

/// Writes the captures of all boards below `at`, and the file of an experiment that reads them.
pub fn write_experiment(events: u64, at: &Path) -> PathBuf {
    std::fs::write(at.join("rare.toml"), WITHOUT_COUNTER).expect("written");
    let mut text = "name = \"recorded\"\n[events]\nbuild = \"key\"\n".to_owned();
    for board in 0..8 {
        let file = at.join(format!("board-{board}.pcapng"));
        let out = BufWriter::new(File::create_new(&file).expect("a new file"));
        let mut writer = CaptureWriter::new(out).expect("written");
        let from = SocketAddr::from(([192, 0, 2, board as u8 + 1], 49_152));
        let to = SocketAddr::from(([192, 0, 2, 100], 6006));
        for Packet { at_ns, bytes } in packets(board, events).0 {
            writer.write(from, to, &bytes, Moment::from_ns(BEGIN_NS + at_ns)).expect("written");
        }
        writer.finish().expect("written");
        let format = match board {
            5 => at.join("rare.toml").display().to_string(),
            _ => "counter".to_owned(),
        };
        text.push_str(&format!(
            "[[source]]\nname = \"board-{board}\"\nformat = \"{format}\"\n\
             [source.pcap]\nfile = \"{}\"\nspeed = \"recorded\"\n",
            file.display()
        ));
    }
    let file = at.join("recorded.toml");
    std::fs::write(&file, text).expect("written");
    file
}

fn compare(events: u64, links: &[(&str, u32, u32)]) {
    let at = folder();
    let ledger = compare_with_one_node(&experiment(events, at.path()), events, links);
    let (mut sent, mut different, mut lost) = (0, 0, 0);
    for board in 0..8 {
        let (packets, before) = packets(board, events);
        let bytes: BTreeSet<Vec<u8>> = packets.iter().map(|of| of.bytes.clone()).collect();
        sent += packets.len() as u64;
        different += bytes.len() as u64;
        lost += before;
    }
    let total = ledger.source_totals();
    let counted = (total.recorded, total.duplicate, total.lost, total.restarts);
    assert_eq!(counted, (different, sent - different, lost, 1), "{}", ledger.table());
    assert!(lost > 10 && sent - different > 10, "{}", ledger.table());
}

#[test]
fn events_of_captures_differ_between_one_node_and_threads() {
    compare(1_500, &[("threads", 1, 1), ("threads", 3, 1), ("threads", 1, 2), ("threads", 2, 4)]);
}

#[test]
fn events_of_captures_differ_between_one_node_and_a_real_link() {
    let group = format!("shm:recorded{}", std::process::id());
    compare(1_500, &[(&group, 3, 2), ("udp:127.0.0.1:24831", 2, 3)]);
}

#[test]
fn events_of_captures_differ_between_one_node_and_a_simulated_network() {
    compare(1_500, &SIMULATED.map(|link| (link, 3, 2)));
}

#[test]
#[ignore = "all: 200,000 packets on eleven links"]
fn of_200000_packets_some_differ_between_one_node_and_a_link() {
    let group = format!("shm:many{}", std::process::id());
    let real = [("threads", 3, 2), (&*group, 1, 1), (&*group, 3, 3), ("udp:127.0.0.1:24851", 2, 2)];
    let simulated = SIMULATED.iter().map(|link| (*link, 2, 2));
    compare(27_000, &real.into_iter().chain(simulated).collect::<Vec<_>>());
}
