//! Boards of the worked cases, built by one process, and by the builders of three partitions behind
//! two readouts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{Builder, EventKey, Mode, Scope};
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::formats;
use fluxline_daq::merge::{Lane, Merge, Times};
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_kafka::build::{
    CheckpointPolicy, Log, MemoryLog, NodeConfig, ReadoutNode, RunPlan, Step, Worker,
};
use fluxline_packet::Description;

use super::built::Batches;
use super::world::{
    BEGIN, Event, MS, Packet, RUN, config, datagram, description, events_of, packet,
};

pub const US: u64 = 1000;
pub const PARTITIONS: u32 = 3;
const NODES: u16 = 2;

/// One packet of a board, at this time after the beginning \[ns\].
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: u64,
    pub board: u16,
    pub number: u64,
    pub key: u64,
}

/// A board that sends a packet for each of some triggers.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    pub board: u16,
    /// Between triggers \[ns\].
    pub period: u64,
    /// From trigger to arrival \[ns\].
    pub latency: u64,
}

impl Board {
    pub fn send(self, keys: impl IntoIterator<Item = u64>) -> Vec<Sent> {
        let Board { board, period, latency } = self;
        let keys = (0..).zip(keys);
        keys.map(|(number, key)| Sent { at: key * period + latency, board, number, key }).collect()
    }
}

/// Boards that send a packet for each trigger, 1 us apart.
pub fn boards(count: u16, period: u64, keys: Range<u64>) -> Vec<Sent> {
    let board = |board| Board { board, period, latency: u64::from(board) * US };
    (0..count).flat_map(|number| board(number).send(keys.clone())).collect()
}

/// The packets of a run, in the order of arrival.
pub struct Case {
    packets: Vec<Packet>,
    description: Description,
    /// Each input is a file.
    are_files: bool,
}

impl Case {
    pub fn of(mut sent: Vec<Sent>) -> Case {
        sent.sort_by_key(|packet| packet.at);
        let packet = |Sent { at, board, number, key }| {
            let bytes = packet(board, number as u32, key, (0, 1), 8);
            Packet { at: BEGIN + at, board, bytes }
        };
        let packets = sent.into_iter().map(packet).collect();
        Case { packets, description: description(), are_files: false }
    }

    /// Gives packets a key of 16 bits: the lower ones of the trigger number.
    pub fn with_narrow_keys(self) -> Case {
        let narrow = r#"{ name = "event_number", type = "u16" },
            { name = "spare", type = "u16" },
            { name = "spare_too", type = "u32" },"#;
        let (name, text) = formats::read("counter").expect("shipped");
        let is_key = |line: &&str| line.contains(r#"name = "event_number""#);
        let wide = text.lines().find(is_key).expect("a field");
        let text = text.replace(wide, narrow);
        let description = Description::load(&name, &text, &BTreeMap::new());
        let description = description.expect("a description");
        let bits = description.packet_types().iter().flat_map(|of| &of.event).map(|key| key.bits);
        assert!(bits.eq([16]));
        Case { description, ..self }
    }

    pub fn in_files(self) -> Case {
        Case { are_files: true, ..self }
    }

    /// Returns the inputs of the experiment, one for each readout. Each node knows all of them.
    fn inputs(&self) -> Vec<(String, Description)> {
        let input = |number| (format!("crate-{number}"), self.description.clone());
        (0..NODES).map(input).collect()
    }

    /// Returns the packets of an input.
    fn packets_of(&self, input: u16) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| input_of(packet) == input)
    }
}

/// Returns the input by which a packet comes: boards are dealt to them in turns.
fn input_of(packet: &Packet) -> u16 {
    packet.board % NODES
}

/// A silence of a source, for which it sent nothing: its label, and the events around it.
pub type Silence = (String, EventKey, EventKey);

/// Everything that comes out of a run.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub rows: Vec<Event>,
    /// Packets of which the same came before.
    pub duplicates: u64,
    pub silences: BTreeSet<Silence>,
}

impl Outcome {
    pub fn count(&self, status: EventStatus) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    pub fn complete(&self) -> usize {
        self.count(EventStatus::Complete)
    }

    pub fn incomplete(&self) -> usize {
        self.count(EventStatus::Incomplete)
    }

    pub fn late(&self) -> usize {
        self.count(EventStatus::Late)
    }

    /// Returns the packets of each event, late fragments joined.
    ///
    /// # Panics
    /// Panics if a packet is twice in an event.
    pub fn joined(&self) -> BTreeMap<(u32, u64), BTreeSet<&String>> {
        let mut joined: BTreeMap<_, BTreeSet<&String>> = BTreeMap::new();
        for row in &self.rows {
            let event = joined.entry((row.generation, row.key)).or_default();
            for packet in &row.packets {
                assert!(event.insert(packet), "{packet} is twice in event {}", row.key);
            }
        }
        joined
    }

    /// Returns the number of events for each number of boards, late fragments joined.
    pub fn sizes(&self) -> Vec<(usize, usize)> {
        let mut sizes = BTreeMap::new();
        self.joined().values().for_each(|boards| *sizes.entry(boards.len()).or_default() += 1);
        sizes.into_iter().collect()
    }

    /// Returns the events that lack a board, late fragments and silences not counted.
    pub fn lacking(&self) -> Vec<&Event> {
        let is_amended = |row: &Event| {
            let at = EventKey { generation: row.generation, key: row.key };
            let mut silences = self.silences.iter();
            silences.any(|(label, after, before)| {
                let silent = format!("{label}: silent since key {}", after.key);
                *after < at && at < *before && row.missing == silent
            })
        };
        let is_filled = |row: &Event| {
            let is_its = |late: &&Event| (late.generation, late.key) == (row.generation, row.key);
            self.rows.iter().filter(is_its).any(|late| late.status == EventStatus::Late)
        };
        let lacks = |row: &&Event| {
            row.status == EventStatus::Incomplete && !is_filled(row) && !is_amended(row)
        };
        self.rows.iter().filter(lacks).collect()
    }

    fn note_silences(&mut self, builder: &Builder) {
        let labels: Vec<String> = builder.summary().into_iter().map(|of| of.label).collect();
        self.silences.extend(builder.amendments().iter().map(|amendment| {
            (labels[amendment.source as usize].clone(), amendment.after, amendment.before)
        }));
    }
}

/// Builds in one process.
pub fn one_process(case: &Case) -> Outcome {
    let mut pipeline = Pipeline::new(case.inputs(), ReadoutLimits::default(), config());
    let mut batches = Vec::new();
    let end = match case.are_files {
        true => read_files(case, &mut pipeline),
        false => receive(case, &mut pipeline, &mut batches),
    };
    (0..NODES).for_each(|input| pipeline.end_input(input));
    pipeline.finish(end);
    batches.push(pipeline.take_batch(EventBatch::default()));
    let duplicates = pipeline.source_counters().iter().map(|of| of.duplicate).sum();
    let mut outcome = Outcome { rows: events_of(&batches), duplicates, ..Outcome::default() };
    outcome.note_silences(pipeline.builder());
    outcome
}

/// Takes all packets; returns the time of the end.
fn receive(case: &Case, pipeline: &mut Pipeline, batches: &mut Vec<EventBatch>) -> Moment {
    let mut now = BEGIN;
    for packet in &case.packets {
        while now + MS <= packet.at {
            now += MS;
            pipeline.poll(Moment::from_ns(now));
            if pipeline.batch_is_due(Moment::from_ns(now)) {
                batches.push(pipeline.take_batch(EventBatch::default()));
            }
        }
        pipeline.take(input_of(packet), Moment::from_ns(packet.at), &datagram(packet));
    }
    Moment::from_ns(now + MS)
}

/// Takes the packets of all files in the order of events; returns the time of the
/// end.
fn read_files(case: &Case, pipeline: &mut Pipeline) -> Moment {
    let times = Times::Captured;
    let mut files: Vec<_> = (0..NODES).map(|of| case.packets_of(of).peekable()).collect();
    for input in 0..NODES {
        pipeline.note_backlog(input, true);
        pipeline.read_on_demand(input, times);
    }
    let mut merge = Merge::new((0..NODES).map(|input| Lane { input, times, has_positions: true }));
    loop {
        while let Some(lane) = merge.unknown() {
            match files[lane].peek() {
                Some(packet) => merge.show(lane, Moment::from_ns(packet.at)),
                None => {
                    merge.end(lane);
                    pipeline.end_input(lane as u16);
                }
            }
        }
        let Some(lane) = merge.choose(|input| pipeline.position(input)) else {
            return merge.now();
        };
        merge.take(lane);
        let packet = files[lane].next().expect("the file has it");
        pipeline.take(lane as u16, merge.now(), &datagram(packet));
    }
}

/// Builds by two readouts, and a builder for each partition. Another builder takes over each
/// partition from a checkpoint, at a record that is drawn.
pub fn distributed(case: &Case, seed: u64) -> Outcome {
    let mut draw = Draw::new(seed);
    let (mut outcome, mut records) = (Outcome::default(), Vec::new());
    for number in 0..NODES {
        let (node, sent) = read_out(case, number);
        // The brokers take all records of a run in 1000 steps, those of one readout some steps
        // later than those of the other one.
        let (delay, count) = (draw.below(100), sent.len() as u64);
        let steps = (0..count).map(|number| number * 1000 / count + delay);
        records.extend(steps.zip(sent));
        let counters = node.readout().sources().iter().map(|source| source.counters());
        outcome.duplicates += counters.map(|of| of.duplicate).sum::<u64>();
    }
    records.sort_by_key(|record| record.0);
    let mut log = MemoryLog::new(PARTITIONS);
    for (_, (partition, bytes)) in &records {
        log.append(*partition, bytes).expect("a log in memory");
    }
    let (mut batches, mut taken) = (Batches::default(), 0);
    for partition in 0..PARTITIONS {
        let worker = build(&mut log, partition, case, &mut draw, &mut batches);
        outcome.note_silences(worker.partition().builder());
        let counts = worker.partition().counts();
        assert_eq!((counts.missing, counts.left_out), (0, 0));
        taken += counts.taken;
    }
    assert_eq!(taken + outcome.duplicates, case.packets.len() as u64);
    outcome.rows = batches.events();
    outcome
}

/// Lets a readout receive its packets. Returns it and its records, with their partitions.
fn read_out(case: &Case, number: u16) -> (ReadoutNode, Vec<(u32, Vec<u8>)>) {
    let config = NodeConfig {
        run: RUN,
        node: number,
        start: 0,
        mode: Mode::Key(Scope::Global),
        // As in a cluster: time-outs are checked every 50 ms.
        record_bytes: 512 << 10,
        record_age: Span::from_ms(50),
        memory_bytes: 1 << 30,
    };
    let mut node = ReadoutNode::new(config, case.inputs(), PARTITIONS);
    let mut now = BEGIN;
    for packet in case.packets_of(number) {
        while now + MS <= packet.at {
            now += MS;
            node.poll(Moment::from_ns(now));
        }
        assert!(node.take(number, Moment::from_ns(packet.at), &datagram(packet)));
    }
    let end = if case.are_files { now } else { case.packets.last().expect("packets").at };
    while now + MS <= end {
        now += MS;
        node.poll(Moment::from_ns(now));
    }
    let newest = case.packets_of(number).last().expect("packets").at;
    node.end_input(number, Moment::from_ns(newest));
    node.finish(Moment::from_ns(now + MS));
    let mut records = Vec::new();
    let append = |partition: u32, bytes: &[u8]| -> Result<(), ()> {
        records.push((partition, bytes.to_vec()));
        Ok(())
    };
    node.hand_over_to(append).expect("taken");
    (node, records)
}

/// Builds a partition to its end.
fn build(
    log: &mut MemoryLog,
    partition: u32,
    case: &Case,
    draw: &mut Draw,
    batches: &mut Batches,
) -> Worker {
    let (nodes, builder) = (usize::from(NODES), config());
    let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes, partitions: PARTITIONS, builder };
    let first = case.packets.first().map(|packet| packet.at);
    let last = case.packets.last().map(|packet| packet.at);
    let span = last.zip(first).map_or(0, |(last, first)| last - first);
    let age = Span::from_ns(span / 8);
    let policy = CheckpointPolicy { bytes: 20_000, times_its_size: 0, age };
    let claim = |log: &mut MemoryLog| {
        let worker = Worker::claim(log, &plan, partition, "builder").expect("claimed");
        let mut worker = worker.with_checkpoints(policy);
        if case.are_files {
            worker.read_on_demand(&[(0, 0), (1, 1)]);
        }
        worker
    };
    let end = log.end(partition);
    let dies_at = end / 2 + draw.below(end / 4);
    let (mut worker, mut is_first) = (claim(log), true);
    loop {
        if is_first && worker.partition().next_offset() >= dies_at {
            (worker, is_first) = (claim(log), false);
            assert!(worker.partition().next_offset() > 0, "no checkpoint before {dies_at}");
            assert_eq!(worker.notes(), [""; 0]);
        }
        match worker.step(log, batches).expect("it works") {
            Step::Worked => {}
            Step::Over => return worker,
            Step::Idle => panic!("the log has ended, and events wait"),
        }
    }
}
