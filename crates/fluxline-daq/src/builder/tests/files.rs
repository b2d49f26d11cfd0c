//! Inputs that are read on demand, such as files, each of which may hold back the events of the
//! others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::Description;

use super::super::*;
use super::world::MS;
use crate::merge::{Lane, Merge, Times};
use crate::pipeline::Pipeline;
use crate::readout::ReadoutLimits;

const BOARD: &str = r#"
name = "board"
about = "a test board"
reference = "this test"
byte-order = "little"

[[packet]]
name = "data"
source = ["board"]
sequence = { value = "counter" }
event = { key = "trigger" }

[[packet.fields]]
name = "board"
type = "u16"

[[packet.fields]]
name = "counter"
type = "u32"

[[packet.fields]]
name = "trigger"
type = "u32"
"#;

/// A file: the packets of a board, with times of a clock of its own.
#[derive(Clone, Debug)]
struct File {
    board: u16,
    packets: VecDeque<(u64, u32)>,
}

impl File {
    fn new(board: u16, keys: std::ops::Range<u32>, clock: u64) -> File {
        let packets = keys.map(|key| (clock + u64::from(key) * MS, key)).collect();
        File { board, packets }
    }
}

type Events = BTreeMap<u64, BTreeSet<u16>>;

/// Reads the files on demand; gives the batch of all events, and the sources of each.
fn read(mut files: Vec<File>, times: Times) -> (EventBatch, Events) {
    let description = Description::load("board", BOARD, &BTreeMap::new()).expect("a description");
    let inputs = files.iter().map(|its| (format!("file{}", its.board), description.clone()));
    let config = BuilderConfig { mode: Mode::Key(Scope::Global), ..BuilderConfig::default() };
    let mut pipeline = Pipeline::new(inputs.collect(), ReadoutLimits::default(), config);
    let mut counts = vec![0_u32; files.len()];
    for input in 0..files.len() {
        pipeline.note_backlog(input as u16, true);
        pipeline.read_on_demand(input as u16, times);
    }
    let lane = |input| Lane { input: input as u16, times, has_positions: true };
    let mut merge = Merge::new((0..files.len()).map(lane));
    loop {
        while let Some(lane) = merge.unknown() {
            match files[lane].packets.front() {
                Some(packet) => merge.show(lane, Moment::from_ns(packet.0)),
                None => merge.end(lane),
            }
        }
        let Some(lane) = merge.choose(|input| pipeline.position(input)) else { break };
        let input = lane as u16;
        merge.take(lane);
        let file = &mut files[lane];
        let (at, key) = file.packets.pop_front().expect("it is open");
        let count = &mut counts[lane];
        let bytes = [&file.board.to_le_bytes()[..], &count.to_le_bytes(), &key.to_le_bytes()];
        let (bytes, time) = (bytes.concat(), Moment::from_ns(at));
        *count += 1;
        let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 1, time };
        pipeline.take(input, merge.now(), &datagram);
        if file.packets.is_empty() {
            pipeline.end_input(input);
        }
    }
    pipeline.finish(merge.now());
    let batch = pipeline.take_batch(EventBatch::default());
    let mut events = Events::new();
    let (mut packet, mut byte) = (0, 0);
    for event in &batch.events {
        for row in &batch.packets[packet..packet + event.packets as usize] {
            let board = u16::from_le_bytes([batch.bytes[byte], batch.bytes[byte + 1]]);
            byte += row.bytes as usize;
            events.entry(event.key.expect("a key")).or_default().insert(board);
        }
        packet += event.packets as usize;
    }
    (batch, events)
}

#[test]
fn files_of_different_begins_lengths_and_clocks_give_exactly_the_events_that_exist() {
    let hour = 3_600_000 * MS;
    let files = vec![
        File::new(0, 0..4000, hour),
        File::new(1, 25_000..30_000, 3 * hour),
        File::new(2, 1000..28_000, 0),
        File::new(3, 3990..4010, 2 * hour),
    ];
    let mut wanted = Events::new();
    for file in &files {
        for &(_, key) in &file.packets {
            wanted.entry(u64::from(key)).or_default().insert(file.board);
        }
    }
    let (batch, events) = read(files.clone(), Times::Captured);
    assert!(events == wanted, "the events are not those of the files");
    let late = |batch: &EventBatch| {
        let late = batch.events.iter().filter(|its| its.status == crate::event::EventStatus::Late);
        late.count()
    };
    assert_eq!((batch.events.len(), late(&batch)), (wanted.len(), 0));
    // Ten runs are identical; and the order of the files does not change an event.
    for _ in 0..10 {
        assert!(read(files.clone(), Times::Captured).0 == batch, "a run is not repeated");
    }
    for turn in 1..files.len() {
        let mut turned = files.clone();
        turned.rotate_left(turn);
        assert!(read(turned, Times::Captured).1 == wanted, "the order of files changes events");
    }
}

#[test]
fn files_without_times_are_merged_by_their_keys() {
    let mut files: Vec<File> = (0..4).map(|board| File::new(board, 0..256, 0)).collect();
    files[2].packets.drain(..100);
    files.iter_mut().flat_map(|its| &mut its.packets).for_each(|packet| packet.0 = 0);
    let (batch, events) = read(files, Times::Absent);
    assert_eq!((batch.events.len(), batch.packets.len()), (256, 924));
    assert!(events.iter().all(|its| its.1.len() == if *its.0 < 100 { 3 } else { 4 }));
}

#[test]
fn a_board_that_is_silent_within_a_capture_is_not_waited_for() {
    // One capture of two boards at 40 kHz, of which one is dead for 20,000 events.
    let description = Description::load("board", BOARD, &BTreeMap::new()).expect("a description");
    let config = BuilderConfig { mode: Mode::Key(Scope::Global), ..BuilderConfig::default() };
    let inputs = vec![("capture".to_owned(), description)];
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), config);
    pipeline.note_backlog(0, true);
    let mut counts = [0_u32; 2];
    let mut rows = 0;
    for key in 0..60_000_u32 {
        for board in 0..2_u16 {
            if board == 1 && (20_000..40_000).contains(&key) {
                continue;
            }
            let count = &mut counts[usize::from(board)];
            let bytes = [&board.to_le_bytes()[..], &count.to_le_bytes(), &key.to_le_bytes()];
            *count += 1;
            let bytes = bytes.concat();
            let time = Moment::from_ns(u64::from(key) * 25_000 + u64::from(board) * 1000);
            let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 1, time };
            pipeline.take(0, time, &datagram);
            if pipeline.batch_is_due(time) {
                rows += pipeline.take_batch(EventBatch::default()).packets.len();
            }
        }
    }
    pipeline.finish(Moment::from_ns(1_500_000_000));
    rows += pipeline.take_batch(EventBatch::default()).packets.len();
    assert_eq!(rows, 100_000);
    assert_eq!(pipeline.builder().amendments().len(), 1);
}
