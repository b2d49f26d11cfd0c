//! Boards that send packets, and the events of one process.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::random::Draw;
use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::formats;
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_packet::Description;

pub const RUN: u64 = 77;
pub const MS: u64 = 1_000_000;
pub const BEGIN: u64 = 1_700_000_000_000_000_000;

pub fn description() -> Description {
    formats::load("counter", &BTreeMap::new()).expect("shipped").description
}

pub fn config() -> BuilderConfig {
    BuilderConfig {
        mode: Mode::Key(Scope::Global),
        batch_bytes: 8 << 10,
        batch_age: Span::from_ms(50),
        ..BuilderConfig::default()
    }
}

/// One packet on the wire.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at: u64,
    pub board: u16,
    pub bytes: Vec<u8>,
}

pub fn packet(board: u16, number: u32, key: u64, part: (u16, u16), payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0x4358_4C46u32.to_le_bytes());
    bytes.extend([1, 0]);
    bytes.extend(board.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(part.0.to_le_bytes());
    bytes.extend(part.1.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.extend((key * 1000).to_le_bytes());
    bytes.extend((0..payload).map(|at| (at as u64 ^ key) as u8));
    bytes
}

/// Faults of the boards.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub boards: u16,
    pub keys: u64,
    pub loss: f64,
    /// A board starts late, one dies, one restarts.
    pub lives: bool,
}

/// Packets of a run, in the order of arrival.
pub fn packets(draw: &mut Draw, weather: Weather) -> Vec<Packet> {
    let mut all = Vec::new();
    for board in 0..weather.boards {
        let mut number = 0;
        let rare = board == 3;
        for key in 0..weather.keys {
            let late = weather.lives && board == 1 && key < weather.keys / 4;
            let dead = weather.lives && board == 2 && key > weather.keys / 2;
            let off = rare && key % 7 != 0;
            if late || dead || off {
                continue;
            }
            if weather.lives && board == 4 && key == weather.keys / 3 {
                number = 0;
            }
            let parts = if board % 2 == 0 { 2 } else { 1 };
            for part in 0..parts {
                let at = BEGIN + key * MS + draw.below(MS / 2) + u64::from(board) * 10_000;
                if !draw.chance(weather.loss) {
                    let payload = 20 + draw.below(100) as usize;
                    let bytes = packet(board, number, key, (part, parts), payload);
                    all.push(Packet { at, board, bytes });
                }
                number += 1;
            }
        }
    }
    // Packets of one board stay in order.
    let mut latest = BTreeMap::new();
    for packet in &mut all {
        let before = latest.entry(packet.board).or_insert(0);
        packet.at = packet.at.max(*before + 1);
        *before = packet.at;
    }
    all.sort_by_key(|packet| packet.at);
    all
}

/// An event without the numbers that a builder chooses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub generation: u32,
    pub key: u64,
    pub status: EventStatus,
    pub missing: String,
    /// Board, number, part and check sum of each packet, in their order.
    pub packets: Vec<String>,
}

pub fn events_of(batches: &[EventBatch]) -> Vec<Event> {
    let mut events = Vec::new();
    for batch in batches {
        let (mut packet, mut byte, mut text) = (0, 0, 0);
        for row in &batch.events {
            let rows = &batch.packets[packet..packet + row.packets as usize];
            packet += rows.len();
            let mut packets = Vec::new();
            for row in rows {
                packets.push(words(&batch.bytes[byte..byte + row.bytes as usize]));
                byte += row.bytes as usize;
            }
            let distinct: BTreeSet<&String> = packets.iter().collect();
            assert_eq!(distinct.len(), rows.len(), "a packet twice in an event");
            let missing = &batch.missing[text..text + row.missing_bytes as usize];
            text += row.missing_bytes as usize;
            events.push(Event {
                generation: row.generation,
                key: row.key.expect("a key"),
                status: row.status,
                missing: missing.to_owned(),
                packets,
            });
        }
    }
    events.sort();
    events
}

/// Builds in one process.
pub fn one_process(packets: &[Packet]) -> Vec<EventBatch> {
    let inputs = vec![("boards".to_owned(), description())];
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), config());
    let mut batches = Vec::new();
    let mut now = BEGIN;
    for packet in packets {
        while now + MS <= packet.at {
            now += MS;
            pipeline.poll(Moment::from_ns(now));
            if pipeline.batch_is_due(Moment::from_ns(now)) {
                batches.push(pipeline.take_batch(EventBatch::default()));
            }
        }
        pipeline.take(0, Moment::from_ns(packet.at), &datagram(packet));
    }
    pipeline.end_input(0);
    pipeline.finish(Moment::from_ns(now + MS));
    batches.push(pipeline.take_batch(EventBatch::default()));
    batches
}

pub fn datagram(packet: &Packet) -> Datagram<'_> {
    let time = Moment::from_ns(packet.at);
    Datagram { bytes: &packet.bytes, sender: SenderAddress::NONE, port: 0, time }
}

fn words(bytes: &[u8]) -> String {
    let number = |at: usize, count: usize| {
        bytes[at..at + count].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let (board, count, part) = (number(6, 2), number(8, 4), number(12, 2));
    format!("board {board} #{count} part {part} crc {:08x}", crc_fast::crc32_iscsi(bytes))
}

/// Compares events and shows the first differences.
///
/// # Panics
/// Panics if they differ.
pub fn assert_same(found: &[Event], expected: &[Event], about: &str) {
    let lacks = |of: &[Event], list: &[Event]| -> Vec<Event> {
        of.iter().filter(|event| list.binary_search(event).is_err()).cloned().collect()
    };
    let (more, less) = (lacks(found, expected), lacks(expected, found));
    let shown = |list: &[Event]| format!("{:#?}", list.iter().take(2).collect::<Vec<_>>());
    assert!(
        more.is_empty() && less.is_empty() && found.len() == expected.len(),
        "{about}: {} of {} differ, {} of {} are missing; found {}\nexpected {}",
        more.len(),
        found.len(),
        less.len(),
        expected.len(),
        shown(&more),
        shown(&less)
    );
}
