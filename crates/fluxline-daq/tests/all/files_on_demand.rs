//! Files read on demand, beside an offline join that knows all their packets: the same events come
//! out, whatever the order of the files.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::merge::{Lane, Merge, Times};
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_packet::{Description, shipped};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const MS: u64 = 1_000_000;

/// A packet of a board; without a time where its file has none.
#[derive(Clone, Debug)]
struct Packet {
    time: u64,
    board: u16,
    number: u32,
    event: u64,
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = 0x4358_4C46_u32.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(self.board.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend([0, 0, 1, 0]); // fragment 0 of 1
        bytes.extend(self.event.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes
    }
}

#[derive(Clone, Debug)]
struct File {
    name: String,
    times: Times,
    packets: Vec<Packet>,
}

/// The behaviour of the boards: whether they lose packets and pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    No,
    Yes,
}

fn below(random: &mut Xoshiro256PlusPlus, limit: u64) -> u64 {
    random.next_u64() % limit
}

/// 1 to 4 files with clocks of their own, of 1 to 3 boards each.
fn random_files(random: &mut Xoshiro256PlusPlus, faults: Faults) -> Vec<File> {
    let mut board = 0;
    let mut file = |number: u64, random: &mut Xoshiro256PlusPlus| {
        let clock = 1_000_000 * MS + below(random, 3) * below(random, 3_600_000) * MS;
        let mut packets = Vec::new();
        for _ in 0..=below(random, 3) {
            let prescale = [1, 1, 1, 10][below(random, 4) as usize];
            let (begin, end) = (below(random, 100), 200 + below(random, 200));
            let latency = below(random, 5) * MS;
            let events = (begin..end).filter(|event| event % prescale == 0);
            for (number, event) in (below(random, 1000) as u32..).zip(events) {
                let time = clock + event * MS + latency;
                let lost = faults == Faults::Yes && below(random, 50) == 0;
                if !lost {
                    packets.push(Packet { time, board, number, event });
                }
            }
            board += 1;
        }
        packets.sort_by_key(|packet| packet.time);
        let times = if below(random, 3) == 0 { Times::Absent } else { Times::Captured };
        File { name: format!("{number}"), times, packets }
    };
    let count = 1 + below(random, 4);
    (0..count).map(|number| file(number, random)).collect()
}

/// The output of a run: the boards per event and status, and the batches.
#[derive(Debug, PartialEq)]
struct Built {
    rows: Vec<(u64, EventStatus, Vec<u16>)>,
    late: usize,
}

fn board_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[6], bytes[7]])
}

fn note(batch: &EventBatch, built: &mut Built) {
    let (mut packet, mut byte) = (0, 0);
    for event in &batch.events {
        let mut boards = Vec::new();
        for row in &batch.packets[packet..packet + event.packets as usize] {
            boards.push(board_of(&batch.bytes[byte..]));
            byte += row.bytes as usize;
        }
        packet += event.packets as usize;
        built.late += usize::from(event.status == EventStatus::Late);
        built.rows.push((event.key.expect("a key"), event.status, boards));
    }
}

/// Reads files on demand, as the program does.
fn build(files: &[File]) -> Built {
    let text = shipped::shipped("counter").expect("shipped");
    let description = Description::load("counter", text, &BTreeMap::new()).expect("right");
    let inputs = files.iter().map(|file| (file.name.clone(), description.clone())).collect();
    let config = BuilderConfig {
        mode: Mode::Key(Scope::Global),
        settling: Span::ZERO,
        ..BuilderConfig::default()
    };
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), config);
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|at| &files[*at].name);
    let mut merge = Merge::new(order.iter().map(|at| Lane {
        input: *at as u16,
        times: files[*at].times,
        has_positions: pipeline.has_positions(*at as u16),
    }));
    for (input, file) in (0..).zip(files) {
        pipeline.note_backlog(input, true);
        pipeline.read_on_demand(input, file.times);
    }
    let mut built = Built { rows: Vec::new(), late: 0 };
    let mut read = vec![0; files.len()];
    loop {
        while let Some(lane) = merge.unknown() {
            match files[order[lane]].packets.get(read[lane]) {
                Some(packet) => merge.show(lane, Moment::from_ns(packet.time)),
                None => {
                    merge.end(lane);
                    pipeline.end_input(order[lane] as u16);
                }
            }
        }
        let Some(lane) = merge.choose(|input| pipeline.position(input)) else { break };
        pipeline.poll(merge.now());
        let file = &files[order[lane]];
        let packet = &file.packets[read[lane]];
        let time = match file.times {
            Times::Captured => Moment::from_ns(packet.time),
            Times::Absent => merge.now(),
        };
        let (bytes, sender) = (packet.bytes(), SenderAddress::NONE);
        let datagram = Datagram { bytes: &bytes, sender, port: 0, time };
        pipeline.take(order[lane] as u16, merge.now(), &datagram);
        read[lane] += 1;
        merge.take(lane);
    }
    pipeline.finish(merge.now());
    note(&pipeline.take_batch(EventBatch::default()), &mut built);
    built
}

/// Joins packets offline: the expected events.
fn joined<'a>(packets: impl Iterator<Item = (u64, &'a [u16])>) -> BTreeMap<u64, BTreeSet<u16>> {
    let mut joined: BTreeMap<u64, BTreeSet<u16>> = BTreeMap::new();
    for (event, boards) in packets {
        joined.entry(event).or_default().extend(boards);
    }
    joined
}

fn check(faults: Faults, runs: std::ops::Range<u64>) -> usize {
    let mut late = 0;
    for run in runs {
        println!("seed {run}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(run);
        let mut files = random_files(&mut random, faults);
        let built = build(&files);
        let packets = files.iter().flat_map(|file| &file.packets);
        let all: Vec<(u64, [u16; 1])> =
            packets.map(|packet| (packet.event, [packet.board])).collect();
        let wanted = joined(all.iter().map(|(event, board)| (*event, &board[..])));
        let got = joined(built.rows.iter().map(|(event, _, boards)| (*event, &boards[..])));
        assert_eq!(got, wanted);
        let packets: usize = built.rows.iter().map(|(_, _, boards)| boards.len()).sum();
        assert_eq!(packets, all.len(), "each once");
        let on_time = built.rows.iter().filter(|row| row.1 != EventStatus::Late);
        let mut keys: Vec<u64> = on_time.map(|row| row.0).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "one row of an event is not late");
        let turn = below(&mut random, files.len() as u64) as usize;
        files.rotate_left(turn);
        assert_eq!(build(&files), built, "the order of the files changed the result");
        late += built.late;
    }
    late
}

#[test]
fn files_of_any_begin_clock_and_kind_give_the_events_of_an_offline_join() {
    let late = check(Faults::No, 0..300);
    assert_eq!(late, 0, "nothing is late where nothing is lost");
}

#[test]
fn lost_packets_change_no_other_packet() {
    check(Faults::Yes, 1000..1300);
}
