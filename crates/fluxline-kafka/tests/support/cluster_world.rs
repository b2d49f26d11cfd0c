//! A cluster in memory that publishes blocks, and the truth about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fluxline_core::Moment;
use fluxline_core::random::Draw;
use fluxline_daq::builder::Expectation;
use fluxline_kafka::build::entry::read_record;
use fluxline_kafka::build::{
    BuiltSource, Log, LogError, MemoryLog, Output, OutputBatch, ReadoutNode, RunPlan, Step,
    WorkError, Worker,
};
use fluxline_kafka::cluster::block::BLOCK_VERSION;
use fluxline_kafka::cluster::{
    BuilderBlock, ClusterLedger, Committed, NodeBlock, NodeState, Observed, PartitionBlock,
    ReadoutBlock, Role, Seen,
};

use super::built;
use super::world::{Packet, RUN, config, datagram};
use super::wrapped_log::{Fate, Faults, WrappedLog};

/// Faults of a log that doubles records, and loses some that it acknowledged.
pub struct RecordFaults {
    pub draw: Draw,
    pub doubles: f64,
    pub losses: f64,
    /// Packets in lost records.
    pub lost: u64,
    /// Records by partition, node, start and number.
    pub there: BTreeSet<(u32, u16, u32, u64)>,
}

impl Faults for RecordFaults {
    fn of_append(&mut self, partition: u32, bytes: &[u8]) -> Fate {
        let head = read_record(bytes).expect("a record").0;
        let record = (partition, head.node, head.start, head.sequence);
        // A record that was doubled is there, whatever becomes of its second copy.
        let is_new = self.there.insert(record);
        if is_new && !head.is_end && self.draw.chance(self.losses) {
            self.lost += u64::from(head.packets);
            return Fate::Lost;
        }
        match self.draw.chance(self.doubles) {
            true => Fate::FailsAfter,
            false => Fate::Done,
        }
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
pub struct Chaos {
    pub doubles: f64,
    pub losses: f64,
    pub readout_death: f64,
    pub builder_death: f64,
    pub zombie: f64,
    pub copies: f64,
}

pub const CALM: Chaos = Chaos {
    doubles: 0.0,
    losses: 0.0,
    readout_death: 0.0,
    builder_death: 0.0,
    zombie: 0.0,
    copies: 0.0,
};
/// Nothing is lost in it.
pub const STORM: Chaos =
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
pub struct Truth {
    pub sent: u64,
    /// Packets in the blocks of dead readouts that did not reach the log.
    pub lost_by_death: u64,
    /// Packets that dead readouts received after their last block and did not hand over.
    pub unknown: u64,
    pub deaths: u64,
}

pub struct Sim {
    pub log: WrappedLog<RecordFaults>,
    pub plan: RunPlan,
    readouts: Vec<Readout>,
    builders: Vec<Option<Builder>>,
    zombies: Vec<(u32, Builder)>,
    pub blocks: BTreeMap<String, NodeBlock>,
    pub alive: BTreeSet<String>,
    pub chaos: Chaos,
    pub draw: Draw,
    pub incarnations: u64,
    pub truth: Truth,
}

pub const READOUTS: u16 = 2;

impl Sim {
    pub fn new(partitions: u32, chaos: Chaos, seed: u64) -> Sim {
        let Chaos { doubles, losses, .. } = chaos;
        let nodes = usize::from(READOUTS);
        let log = MemoryLog::new(partitions);
        let mut sim = Sim {
            log: WrappedLog {
                log,
                faults: RecordFaults {
                    draw: Draw::new(seed ^ 9),
                    doubles,
                    losses,
                    lost: 0,
                    there: BTreeSet::new(),
                },
            },
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
        let node = built::readout(node, start, self.plan.partitions);
        let put_in_block = BTreeMap::new();
        self.incarnations += 1;
        Readout { node, start, incarnation: self.incarnations, sequence: 0, put_in_block }
    }

    fn publish_readout(&mut self, node: u16, state: NodeState) {
        let readout = &mut self.readouts[usize::from(node)];
        let counts = ReadoutBlock::of(&readout.node, &Expectation::Joined);
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

    pub fn take(&mut self, packet: &Packet) {
        let copies = if self.draw.chance(self.chaos.copies) { 2 } else { 1 };
        for _ in 0..copies {
            let node = &mut self.readouts[usize::from(packet.board % READOUTS)].node;
            assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
            self.truth.sent += 1;
        }
    }

    pub fn pass_time(&mut self, now: u64) {
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
    pub fn finish(&mut self, now: u64) {
        for node in 0..READOUTS {
            let readout = &mut self.readouts[usize::from(node)].node;
            readout.finish(Moment::from_ns(now));
            while readout.hand_over(&mut self.log).is_err() {}
            self.publish_readout(node, NodeState::Ended);
        }
        self.chaos = CALM;
        for _ in 0..100_000 {
            (0..self.builders.len()).for_each(|partition| self.work(partition));
            let is_over =
                |of: &Option<Builder>| of.as_ref().is_some_and(|builder| builder.worker.is_over());
            if self.builders.iter().all(is_over) {
                (0..self.builders.len()).for_each(|partition| self.publish_builder(partition));
                return;
            }
        }
        panic!("the builders do not come to an end");
    }

    /// Returns the view of somebody outside.
    pub fn observed(&self) -> Observed {
        let seen = |(key, block): (&String, &NodeBlock)| {
            let seconds = if self.alive.contains(key) { 0 } else { 60 };
            Seen { block: block.clone(), quiet: Duration::from_secs(seconds) }
        };
        let mut commits: BTreeMap<u32, Committed> = BTreeMap::new();
        for partition in 0..self.plan.partitions {
            let committed = commits.entry(partition).or_default();
            for commit in self.log.log.committed(partition) {
                assert!(committed.add(&commit));
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
            abandoned: false,
            paused: false,
        }
    }

    pub fn ledger(&self) -> ClusterLedger {
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
