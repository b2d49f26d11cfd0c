//! Boards that send packets, the events of one process, and the truth about both.

#![cfg_attr(not(feature = "client"), allow(dead_code))]

use std::collections::{BTreeMap, BTreeSet};

use fluxline_cluster::{NodeConfig, ReadoutNode};
use fluxline_core::random::Draw;
use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::formats;
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_kafka::build::{Commit, SinkSums};
use fluxline_packet::Description;

pub const RUN: u64 = 77;
pub const MS: u64 = 1_000_000;
pub const BEGIN: u64 = 1_700_000_000_000_000_000;
/// Keys before the end of a run whose events close by it, in one node after the other.
const LAST_KEYS: u64 = 25;
/// The board that sends in every seventh event.
const RARE: u16 = 3;

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

/// Returns a start of a readout node with one input of boards.
pub fn readout(node: u16, start: u32, partitions: u32) -> ReadoutNode {
    readout_of(node, start, partitions, Mode::Key(Scope::Global))
}

pub fn readout_of(node: u16, start: u32, partitions: u32, mode: Mode) -> ReadoutNode {
    let config = NodeConfig {
        run: RUN,
        node,
        start,
        mode,
        record_bytes: 4096,
        record_age: Span::from_ms(5),
        memory_bytes: 1 << 30,
    };
    ReadoutNode::new(config, vec![("boards".to_owned(), description())], partitions)
}

/// Returns the commit of a first batch, which covers one record.
pub fn first_commit(builder: &str) -> Commit {
    Commit {
        partition: 0,
        batch: 0,
        covers: 1,
        crc: 0,
        events: 1,
        packets: 1,
        refused: 0,
        sink: SinkSums::default(),
        builder: builder.to_owned(),
    }
}

/// One packet on the wire.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at: u64,
    pub board: u16,
    pub key: u64,
    pub bytes: Vec<u8>,
}

fn packet(board: u16, number: u32, key: u64, part: (u16, u16), payload: usize) -> Vec<u8> {
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

/// The packets of a run.
pub struct Sent {
    /// Those that arrive, in the order of arrival.
    pub packets: Vec<Packet>,
    /// Board and key of those that were lost on the way.
    lost: BTreeSet<(u16, u64)>,
    weather: Weather,
}

/// Draws the packets of a run.
pub fn packets(draw: &mut Draw, weather: Weather) -> Sent {
    let Weather { boards, keys, loss, lives } = weather;
    let (mut all, mut lost) = (Vec::new(), BTreeSet::new());
    for board in 0..boards {
        let mut number = 0;
        for key in 0..keys {
            let late = lives && board == 1 && key < keys / 4;
            let dead = lives && board == 2 && key > keys / 2;
            if late || dead || (board == RARE && key % 7 != 0) {
                continue;
            }
            if lives && board == 4 && key == keys / 3 {
                number = 0;
            }
            let parts = if board % 2 == 0 { 2 } else { 1 };
            for part in 0..parts {
                let at = BEGIN + key * MS + draw.below(MS / 2) + u64::from(board) * 10_000;
                if draw.chance(loss) {
                    lost.insert((board, key));
                } else {
                    let payload = 20 + draw.below(100) as usize;
                    let bytes = packet(board, number, key, (part, parts), payload);
                    all.push(Packet { at, board, key, bytes });
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
    Sent { packets: all, lost, weather }
}

impl Sent {
    /// Lets a run take `times` as long; the packets of one key stay together.
    pub fn stretch(&mut self, times: u64) {
        for packet in &mut self.packets {
            let since = packet.at - BEGIN;
            packet.at = BEGIN + since / MS * MS * times + since % MS;
        }
    }

    /// Lets keys begin anew after this many, with a pause before \[ms\].
    pub fn in_spills(&mut self, keys: u64, pause: u64) {
        for packet in &mut self.packets {
            let key = packet.key;
            packet.bytes[16..24].copy_from_slice(&(key % keys).to_le_bytes());
            packet.at += key / keys * pause * MS;
        }
    }

    /// Asserts that no event is `Complete` of which a packet was lost, and that each sentence about
    /// a missing packet names a board that did not send it whole.
    pub fn assert_true_status(&self, batches: &[EventBatch]) {
        let Weather { boards, keys, lives, .. } = self.weather;
        let sends = |board: u16, key: u64| {
            let is_dead = lives && board == 2 && key > keys / 2;
            !is_dead && board != RARE && !self.lost.contains(&(board, key))
        };
        let mut late: BTreeSet<u64> = BTreeSet::new();
        for_each_event(batches, |row| {
            late.extend((row.status == EventStatus::Late).then_some(row.key));
        });
        for_each_event(batches, |row| {
            let key = row.key;
            if row.status == EventStatus::Late || late.contains(&key) {
                return;
            }
            for sentence in row.missing.split("; ").filter(|words| !words.is_empty()) {
                let board = sentence.split("source_id=").nth(1).and_then(|rest| {
                    rest.split(|of: char| !of.is_ascii_digit()).next()?.parse().ok()
                });
                let board = board.unwrap_or_else(|| panic!("no board in `{sentence}`"));
                assert!(
                    !sends(board, key),
                    "event {key} has the packets of board {board}: {row:?}"
                );
            }
            let is_settled = key > 1 && key + LAST_KEYS < keys;
            let is_known = |board: &u16| {
                let joined = !(lives && *board == 1 && key < keys / 4 + 2);
                let restarts = lives && *board == 4 && key.abs_diff(keys / 3) < 2;
                // Nobody knows of the last packet of a board that died.
                let dies = lives && *board == 2 && key == keys / 2;
                *board != RARE && joined && !restarts && !dies
            };
            let lacks = (0..boards).filter(is_known).any(|of| self.lost.contains(&(of, key)));
            let is_complete = row.status == EventStatus::Complete;
            assert!(!(is_complete && lacks && is_settled), "a packet of event {key} was lost");
        });
    }
}

/// A row of a batch.
#[derive(Debug)]
struct Row<'a> {
    generation: u32,
    key: u64,
    status: EventStatus,
    missing: &'a str,
}

fn for_each_event<'a>(batches: &'a [EventBatch], mut each: impl FnMut(&Row<'a>)) {
    for batch in batches {
        let mut text = 0;
        for row in &batch.events {
            let missing = &batch.missing[text..text + row.missing_bytes as usize];
            text += row.missing_bytes as usize;
            let (generation, status) = (row.generation, row.status);
            each(&Row { generation, key: row.key.expect("a key"), status, missing });
        }
    }
}

/// Returns the status of each event, and the sentences about it, without late fragments.
pub fn statuses(batches: &[EventBatch]) -> BTreeMap<(u32, u64), (EventStatus, String)> {
    let mut found = BTreeMap::new();
    for_each_event(batches, |row| {
        if row.status != EventStatus::Late {
            let value = (row.status, row.missing.to_owned());
            let before = found.insert((row.generation, row.key), value);
            assert!(before.is_none(), "event {} closed twice", row.key);
        }
    });
    found
}

/// Check sums of the packets of each event, late fragments joined, by generation and key.
pub type Sets = BTreeMap<(u32, u64), BTreeSet<u64>>;

/// Returns the packets of each event.
///
/// # Panics
/// Panics if a packet is in two events, or twice in one.
pub fn sets_of(batches: &[EventBatch]) -> Sets {
    let (mut sets, mut all) = (Sets::new(), BTreeSet::new());
    for view in batches.iter().flat_map(EventBatch::views) {
        let mut at = 0;
        let event = (view.row.generation, view.row.key.expect("a key"));
        let set = sets.entry(event).or_default();
        for packet in view.packets {
            let name = name_of(&view.bytes[at..at + packet.bytes as usize]);
            at += packet.bytes as usize;
            assert!(all.insert(name), "a packet of event {event:?} is in events twice");
            set.insert(name);
        }
    }
    sets
}

/// Returns the check sum by which a packet is known.
pub fn name_of(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}

/// Compares the packets of events, and shows the first differences.
///
/// # Panics
/// Panics if they differ.
pub fn assert_same(found: &Sets, expected: &Sets, about: &str) {
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differs = |key: &&&(u32, u64)| found.get(**key) != expected.get(**key);
    let wrong: Vec<_> = keys.iter().filter(differs).take(5).collect();
    assert!(wrong.is_empty(), "{about}: events {wrong:?} have other packets");
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
