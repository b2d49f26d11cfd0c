//! One ledger over all nodes: its laws close in every history of deaths, returns and doubles, each
//! loss has a name, and a changed block is found.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{Mode, Scope};
use fluxline_kafka::build::entry::read_record;
use fluxline_kafka::build::{
    BuiltSource, Claim, Commit, Log, LogError, MemoryLog, NodeConfig, Output, OutputBatch,
    ReadoutNode, RunPlan, Step, Stored, WorkError, Worker,
};
use fluxline_kafka::cluster::block::{BLOCK_BYTES_MAX, BLOCK_VERSION};
use fluxline_kafka::cluster::{
    BuilderBlock, ClusterLedger, ClusterVerdict, Committed, Edge, Fate, NodeBlock, NodeState,
    Observed, PartitionBlock, ReadoutBlock, Role, Seen,
};
use serde_json::Value;
use support::world::{BEGIN, MS, Packet, RUN, Weather, config, datagram, description, packets};

/// A log that doubles records, and loses some that it acknowledged.
struct FaultyLog {
    log: MemoryLog,
    draw: Draw,
    doubles: f64,
    losses: f64,
    /// Packets in lost records.
    lost: u64,
}

impl Log for FaultyLog {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        let head = read_record(bytes).expect("a record").0;
        if !head.is_end && self.draw.chance(self.losses) {
            self.lost += u64::from(head.packets);
            return Ok(());
        }
        self.log.append(partition, bytes)?;
        match self.draw.chance(self.doubles) {
            true => Err(LogError::Away("after".to_owned())),
            false => Ok(()),
        }
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.log.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        self.log.claim(partition, builder)
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        self.log.commit(claim, commit)
    }
}

/// Batches are not kept: the ledger counts them by their commits.
struct Nowhere;

impl Output for Nowhere {
    fn write(&mut self, _: u32, _: &[BuiltSource], _: &OutputBatch) -> Result<(), String> {
        Ok(())
    }
}

/// The chances for faults.
#[derive(Clone, Copy, Debug)]
struct Chaos {
    doubles: f64,
    losses: f64,
    readout_death: f64,
    builder_death: f64,
    zombie: f64,
    copies: f64,
}

const CALM: Chaos = Chaos {
    doubles: 0.0,
    losses: 0.0,
    readout_death: 0.0,
    builder_death: 0.0,
    zombie: 0.0,
    copies: 0.0,
};
/// Nothing is lost in it.
const STORM: Chaos =
    Chaos { doubles: 0.05, builder_death: 0.05, zombie: 0.04, copies: 0.05, ..CALM };

/// A process of a readout node.
struct Readout {
    node: ReadoutNode,
    start: u32,
    incarnation: u64,
    sequence: u64,
    /// The counts of its last block, by partition.
    put_in_block: BTreeMap<u32, u64>,
}

struct Builder {
    worker: Worker,
    id: String,
    incarnation: u64,
    sequence: u64,
}

/// The things that only an all-knowing observer has.
#[derive(Default)]
struct Truth {
    sent: u64,
    /// Packets in the blocks of dead readouts that did not reach the log.
    lost_by_death: u64,
    /// Packets that dead readouts received after their last block and did not hand over.
    unknown: u64,
    deaths: u64,
}

struct Sim {
    log: FaultyLog,
    plan: RunPlan,
    readouts: Vec<Readout>,
    builders: Vec<Option<Builder>>,
    zombies: Vec<(u32, Builder)>,
    blocks: BTreeMap<String, NodeBlock>,
    alive: BTreeSet<String>,
    chaos: Chaos,
    draw: Draw,
    incarnations: u64,
    truth: Truth,
}

const READOUTS: u16 = 2;

impl Sim {
    fn new(partitions: u32, chaos: Chaos, seed: u64) -> Sim {
        let Chaos { doubles, losses, .. } = chaos;
        let nodes = usize::from(READOUTS);
        let log = MemoryLog::new(partitions);
        let mut sim = Sim {
            log: FaultyLog { log, draw: Draw::new(seed ^ 9), doubles, losses, lost: 0 },
            plan: RunPlan { run: RUN, name: "x".to_owned(), nodes, partitions, builder: config() },
            readouts: Vec::new(),
            builders: (0..partitions).map(|_| None).collect(),
            zombies: Vec::new(),
            blocks: BTreeMap::new(),
            alive: BTreeSet::new(),
            chaos,
            draw: Draw::new(seed),
            incarnations: 0,
            truth: Truth::default(),
        };
        sim.readouts = (0..READOUTS).map(|node| sim.readout(node, 0)).collect();
        (0..READOUTS).for_each(|node| sim.publish_readout(node, NodeState::Waiting));
        sim
    }

    fn readout(&mut self, node: u16, start: u32) -> Readout {
        let config = NodeConfig {
            run: RUN,
            node,
            start,
            mode: Mode::Key(Scope::Global),
            record_bytes: 4096,
            record_age: Span::from_ms(5),
            memory_bytes: 1 << 30,
        };
        let inputs = vec![("boards".to_owned(), description())];
        let node = ReadoutNode::new(config, inputs, self.plan.partitions);
        let put_in_block = BTreeMap::new();
        self.incarnations += 1;
        Readout { node, start, incarnation: self.incarnations, sequence: 0, put_in_block }
    }

    fn publish_readout(&mut self, node: u16, state: NodeState) {
        let readout = &mut self.readouts[usize::from(node)];
        let counts = ReadoutBlock::of(&readout.node);
        readout.put_in_block =
            counts.deliveries.iter().map(|of| (of.partition, of.packets + of.waiting)).collect();
        let block = NodeBlock {
            node: format!("readout-{node}"),
            id: "x".to_owned(),
            incarnation: readout.incarnation,
            start: readout.start,
            role: Role::Readout,
            sequence: readout.sequence,
            readout: Some(counts),
            ..block(state)
        };
        readout.sequence += 1;
        self.publish(block);
    }

    fn publish_builder(&mut self, partition: usize) {
        let Some(builder) = &mut self.builders[partition] else { return };
        let ended = builder.worker.partition().is_ended();
        let state = if ended { NodeState::Ended } else { NodeState::Running };
        let block = block_of_builder(builder, partition as u32, state);
        self.publish(block);
    }

    fn publish(&mut self, block: NodeBlock) {
        let bytes = block.to_bytes();
        let block = NodeBlock::read(&bytes).expect("our own block");
        self.alive.insert(block.key());
        self.blocks.insert(block.key(), block);
    }

    fn take(&mut self, packet: &Packet) {
        let copies = if self.draw.chance(self.chaos.copies) { 2 } else { 1 };
        for _ in 0..copies {
            let node = &mut self.readouts[usize::from(packet.board % READOUTS)].node;
            assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
            self.truth.sent += 1;
        }
    }

    fn pass_time(&mut self, now: u64) {
        for node in 0..READOUTS {
            let readout = &mut self.readouts[usize::from(node)];
            readout.node.poll(Moment::from_ns(now));
            if self.draw.chance(0.7) {
                let _ = readout.node.hand_over(&mut self.log);
            }
            if self.draw.chance(self.chaos.readout_death) {
                self.kill_readout(node);
            }
            if self.draw.chance(0.1) {
                self.publish_readout(node, NodeState::Running);
            }
        }
        for partition in 0..self.builders.len() {
            self.disturb(partition);
            self.work(partition);
            if self.draw.chance(0.1) {
                self.publish_builder(partition);
            }
        }
        let mut zombies = std::mem::take(&mut self.zombies);
        zombies.retain_mut(|(partition, zombie)| self.step_zombie(*partition, zombie));
        self.zombies = zombies;
    }

    fn kill_readout(&mut self, node: u16) {
        let readout = &self.readouts[usize::from(node)];
        let (start, incarnation) = (readout.start, readout.incarnation);
        let key = format!("{RUN}/readout-{node}/x/{incarnation}");
        let of_block = self.blocks.get(&key).and_then(|block| block.readout.as_ref());
        let (taken, held) =
            of_block.map_or((0, 0), |block| (block.counters.taken, block.counters.held));
        let mut since = 0;
        for partition in 0..self.plan.partitions {
            let in_block = readout.put_in_block.get(&partition).copied().unwrap_or(0);
            let arrived = self.arrived(node, start, partition);
            self.truth.lost_by_death += in_block.saturating_sub(arrived);
            since += arrived.saturating_sub(in_block);
        }
        let known = taken + u64::saturating_sub(since, held);
        self.truth.unknown += readout.node.counts().datagrams - known;
        self.alive.remove(&key);
        self.truth.deaths += 1;
        self.readouts[usize::from(node)] = self.readout(node, start + 1);
    }

    /// Returns the packets of a start of a node in a partition of the log.
    fn arrived(&self, node: u16, start: u32, partition: u32) -> u64 {
        let mut log = self.log.log.clone();
        let mut packets = BTreeMap::new();
        let mut offset = 0;
        while let Ok(Some(record)) = log.read(partition, offset) {
            let head = read_record(&record.bytes).expect("a record").0;
            if (head.node, head.start) == (node, start) {
                packets.insert(head.sequence, u64::from(head.packets));
            }
            offset = record.offset + 1;
        }
        packets.into_values().sum()
    }

    fn disturb(&mut self, partition: usize) {
        let is_dead = self.draw.chance(self.chaos.builder_death);
        let is_zombie = self.draw.chance(self.chaos.zombie);
        if (is_dead || is_zombie)
            && let Some(builder) = self.builders[partition].take()
        {
            if is_zombie {
                self.zombies.push((partition as u32, builder));
            } else {
                let key = format!("{RUN}/builder/{}/{}", builder.id, builder.incarnation);
                self.alive.remove(&key);
            }
        }
    }

    fn work(&mut self, partition: usize) {
        if self.builders[partition].is_none() {
            let id = format!("b{}", self.draw.below(3));
            let worker = Worker::claim(&mut self.log, &self.plan, partition as u32, &id);
            let worker = worker.expect("a log in memory");
            self.incarnations += 1;
            let incarnation = self.incarnations;
            self.builders[partition] = Some(Builder { worker, id, incarnation, sequence: 0 });
        }
        // A builder stops at any record, so that its blocks are of any moment.
        for _ in 0..self.draw.below(20) {
            let Some(builder) = &mut self.builders[partition] else { return };
            match builder.worker.step(&mut self.log, &mut Nowhere) {
                Ok(Step::Worked) => {}
                Ok(Step::Idle | Step::Over) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Lets a builder go on that somebody has replaced; false when it has stopped.
    fn step_zombie(&mut self, partition: u32, zombie: &mut Builder) -> bool {
        for _ in 0..self.draw.below(8) {
            match zombie.worker.step(&mut self.log, &mut Nowhere) {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) => return true,
                Ok(Step::Over) | Err(WorkError::Log(LogError::Fenced { .. })) => {
                    let block = block_of_builder(zombie, partition, NodeState::Failed);
                    self.publish(block);
                    return false;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if self.draw.chance(0.2) {
            let block = block_of_builder(zombie, partition, NodeState::Running);
            self.publish(block);
        }
        true
    }

    /// Ends the run; the last blocks are final.
    fn finish(&mut self, now: u64) {
        for node in 0..READOUTS {
            let readout = &mut self.readouts[usize::from(node)].node;
            readout.finish(Moment::from_ns(now));
            while readout.hand_over(&mut self.log).is_err() {}
            self.publish_readout(node, NodeState::Ended);
        }
        self.chaos = CALM;
        for _ in 0..100_000 {
            (0..self.builders.len()).for_each(|partition| self.work(partition));
            let is_over = |of: &Option<Builder>| {
                of.as_ref().is_some_and(|builder| builder.worker.partition().is_ended())
            };
            if self.builders.iter().all(is_over) {
                (0..self.builders.len()).for_each(|partition| self.publish_builder(partition));
                return;
            }
        }
        panic!("the builders do not come to an end");
    }

    /// Returns the view of somebody outside.
    fn observed(&self) -> Observed {
        let seen = |(key, block): (&String, &NodeBlock)| {
            let seconds = if self.alive.contains(key) { 0 } else { 60 };
            Seen { block: block.clone(), quiet: Duration::from_secs(seconds) }
        };
        let mut commits: BTreeMap<u32, Committed> = BTreeMap::new();
        for partition in 0..self.plan.partitions {
            let committed = commits.entry(partition).or_default();
            for commit in self.log.log.committed(partition) {
                committed.add(commit.events, commit.packets, commit.covers);
            }
        }
        Observed {
            cluster: "lab".to_owned(),
            run: RUN,
            partitions: self.plan.partitions,
            readouts: (0..READOUTS).map(|node| format!("readout-{node}")).collect(),
            blocks: self.blocks.iter().map(seen).collect(),
            commits,
            foreign: 0,
        }
    }

    fn ledger(&self) -> ClusterLedger {
        ClusterLedger::of(&self.observed())
    }
}

fn block(state: NodeState) -> NodeBlock {
    NodeBlock {
        version: BLOCK_VERSION,
        cluster: "lab".to_owned(),
        run: RUN,
        host: "here".to_owned(),
        pid: 7,
        state,
        ..NodeBlock::default()
    }
}

fn block_of_builder(builder: &mut Builder, partition: u32, state: NodeState) -> NodeBlock {
    builder.sequence += 1;
    let partitions = vec![PartitionBlock::of(partition, builder.worker.partition())];
    NodeBlock {
        node: "builder".to_owned(),
        id: builder.id.clone(),
        incarnation: builder.incarnation,
        role: Role::Builder,
        sequence: builder.sequence,
        builder: Some(BuilderBlock { partitions }),
        ..block(state)
    }
}

/// Runs a world, and checks the laws at many moments.
fn run(seed: u64, round: u64, chaos: Chaos) -> Sim {
    let mut draw = Draw::new(seed + round);
    let weather = Weather {
        boards: 4 + draw.below(4) as u16,
        keys: 150,
        loss: 0.02,
        lives: draw.chance(0.5),
    };
    let packets = packets(&mut draw, weather);
    let mut sim = Sim::new(1 + draw.below(4) as u32, chaos, seed ^ (round << 20));
    let mut now = BEGIN;
    for packet in &packets {
        while now + MS <= packet.at {
            now += MS;
            sim.pass_time(now);
            if draw.chance(0.2) {
                let ledger = sim.ledger();
                assert!(ledger.closes(), "round {round}: {}", ledger.table());
                assert!(matches!(ledger.verdict(), ClusterVerdict::Running(_)));
            }
        }
        sim.take(packet);
    }
    sim.finish(now + MS);
    let ledger = sim.ledger();
    assert!(ledger.closes(), "round {round}: {}", ledger.table());
    assert!(ledger.is_over(), "round {round}: {}", ledger.table());
    assert_eq!(ledger.sum_of(Fate::InFlight), 0, "round {round}: {}", ledger.table());
    sim
}

#[test]
fn laws_close_at_every_moment_when_builders_die_and_come_back() {
    let seed = test_seed!(61);
    for round in 0..test_count!(12) {
        let sim = run(seed, round, STORM);
        let ledger = sim.ledger();
        assert_eq!(ledger.verdict(), ClusterVerdict::Complete, "{}", ledger.table());
        assert_eq!(ledger.received(), sim.truth.sent, "{}", ledger.table());
        let duplicates = ledger.sum_of(Fate::Duplicate);
        assert!(duplicates > 0, "no packet came twice: not a test");
        assert_eq!(ledger.committed.packets + duplicates, sim.truth.sent, "{}", ledger.table());
    }
}

#[test]
fn packets_of_lost_records_are_missing_by_their_number() {
    let seed = test_seed!(62);
    let mut lost = 0;
    for round in 0..test_count!(8) {
        let sim = run(seed, round, Chaos { losses: 0.02, ..STORM });
        let ledger = sim.ledger();
        assert_eq!(ledger.over_edges(|edge| edge.taken.missing), sim.log.lost, "round {round}");
        let is_told = matches!(ledger.verdict(), ClusterVerdict::LookNeeded(_));
        assert_eq!(is_told, sim.log.lost > 0, "{:?}", ledger.verdict());
        lost += sim.log.lost;
    }
    assert!(lost > 0, "no record was lost: not a test");
}

#[test]
fn packets_of_a_dead_readout_are_counted_as_far_as_anybody_can() {
    let seed = test_seed!(63);
    let (mut deaths, mut lost, mut unknown, mut since) = (0, 0, 0, 0);
    for round in 0..test_count!(12) {
        let sim = run(seed, round, Chaos { readout_death: 0.01, ..STORM });
        let ledger = sim.ledger();
        let truth = &sim.truth;
        assert_eq!(ledger.over_edges(Edge::lost), truth.lost_by_death, "{}", ledger.table());
        assert_eq!(ledger.received() + truth.unknown, truth.sent, "{}", ledger.table());
        if truth.deaths > 0 {
            let verdict = ledger.verdict();
            let sentence = verdict.sentence().expect("a death is a reason to look");
            assert!(sentence.contains("died"), "{sentence}");
        }
        deaths += truth.deaths;
        lost += truth.lost_by_death;
        unknown += truth.unknown;
        since += ledger.over_edges(Edge::since_block);
    }
    assert!(
        deaths > 5 && lost > 0 && unknown > 0 && since > 0,
        "{deaths} {lost} {unknown} {since}"
    );
}

/// Numbers of a block that no law covers.
const INFORMATIVE: &[&str] = &[
    "/run",
    "/pid",
    "/sequence",
    "/sent_at_ns",
    "/incarnation",
    "/start",
    "/version",
    "/readout/number",
    "/readout/sources",
    "/bytes",
    "/lost",
    "/records",
    "/record_bytes",
    "/socket_dropped",
    "/partition",
    "/next_offset",
    "/covers",
    "/followed",
    "/records_",
    "/events_",
    "/batches",
    "/node",
];

/// Returns the paths of all numbers in a document.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.to_owned()),
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.for_each(|(at, value)| numbers(value, &format!("{path}/{at}"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| numbers(value, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

#[test]
fn a_changed_number_in_any_block_of_the_end_is_found() {
    let seed = test_seed!(64);
    let mut draw = Draw::new(seed);
    let sim = run(seed, 0, Chaos { builder_death: 0.0, zombie: 0.0, ..STORM });
    let observed = sim.observed();
    let mut changed = 0;
    for place in 0..observed.blocks.len() {
        let document = serde_json::to_value(&observed.blocks[place].block).expect("JSON");
        let mut paths = Vec::new();
        numbers(&document, "", &mut paths);
        for path in paths {
            let last = &path[path.rfind('/').unwrap_or(0)..];
            if INFORMATIVE.iter().any(|known| path == *known || last.starts_with(known)) {
                continue;
            }
            let mut document = document.clone();
            let number = document.pointer_mut(&path).expect("the path");
            let value = number.as_u64().expect("a count");
            *number = (value + 1 + draw.below(1000)).into();
            let block = NodeBlock::read(document.to_string().as_bytes()).expect("a block");
            let mut observed = observed.clone();
            observed.blocks[place].block = block;
            let ledger = ClusterLedger::of(&observed);
            assert!(
                !ledger.closes(),
                "{path} of {} is not found",
                observed.blocks[place].block.key()
            );
            changed += 1;
        }
    }
    assert!(changed > 60, "{changed}");
}

#[test]
fn a_forged_commit_is_found() {
    let sim = run(test_seed!(65), 0, CALM);
    let mut observed = sim.observed();
    observed.commits.entry(0).or_default().add(3, 17, 1);
    let of = observed.commits[&0].total();
    let last = ClusterLedger::of(&observed);
    // One batch more than the builder made: its sums are of the batches that the builder knows.
    assert_eq!(last.committed.batches, sim.ledger().committed.batches + 1);
    assert!(!last.closes(), "{of:?}: {}", last.table());
}

/// Reading a block neither panics nor grows, whatever its bytes are.
#[test]
fn spoilt_blocks_are_refused_or_harmless() {
    let seed = test_seed!(66);
    let mut draw = Draw::new(seed);
    let sim = run(seed, 0, CALM);
    let observed = sim.observed();
    for _ in 0..300 {
        let mut spoilt = observed.clone();
        let place = draw.below(spoilt.blocks.len() as u64) as usize;
        let mut document = serde_json::to_value(&spoilt.blocks[place].block).expect("JSON");
        let mut paths = Vec::new();
        numbers(&document, "", &mut paths);
        let path = &paths[draw.below(paths.len() as u64) as usize];
        *document.pointer_mut(path).expect("the path") = u64::MAX.into();
        if let Ok(block) = NodeBlock::read(document.to_string().as_bytes()) {
            spoilt.blocks[place].block = block;
            let ledger = ClusterLedger::of(&spoilt);
            let _ = (ledger.table(), ledger.verdict());
        }
        let mut bytes = observed.blocks[place].block.to_bytes();
        let at = draw.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << draw.below(8);
        let _ = NodeBlock::read(&bytes);
    }
    let huge = vec![b'['; BLOCK_BYTES_MAX + 1];
    assert!(NodeBlock::read(&huge).expect_err("huge").to_string().contains("more than"));
    assert!(NodeBlock::read(&huge[..100_000]).is_err(), "deep nesting");
    let mut steering = observed.clone();
    steering.blocks[0].block.host = "\u{1b}[2Jgone".to_owned();
    assert!(!ClusterLedger::of(&steering).table().contains('\u{1b}'));
}
