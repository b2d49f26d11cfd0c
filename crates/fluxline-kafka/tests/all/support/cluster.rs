//! A cluster on a log in memory, in simulated time: everything dies, pauses, comes twice and comes
//! back, by chance. It publishes its blocks, and knows the truth about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fluxline_cluster::entry::read_record;
use fluxline_cluster::{BuiltSource, OutputBatch, ReadoutNode};
use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::Expectation;
use fluxline_daq::event::EventBatch;
use fluxline_kafka::build::log::hand_over;
use fluxline_kafka::build::{
    Checkpoint, CheckpointPolicy, Claim, Commit, EventFilter, Log, LogError, MemoryLog, Output,
    Ready, RunPlan, Step, Stored, WorkError, Worker,
};
use fluxline_kafka::cluster::block::BLOCK_VERSION;
use fluxline_kafka::cluster::{
    BuilderBlock, ClusterLedger, Committed, NodeBlock, NodeState, Observed, PartitionBlock,
    PartitionCounters, ReadoutBlock, Role, Seen,
};
use fluxline_run::filter::FilterPlan;

use super::world::{BEGIN, MS, Packet, RUN, config, datagram, readout};

/// The chances for faults.
#[derive(Clone, Copy, Debug)]
pub struct Chaos {
    /// A write of a builder fails, before or after it was done.
    pub failures: f64,
    /// A record comes twice.
    pub doubles: f64,
    /// A record is acknowledged and lost.
    pub losses: f64,
    /// A readout cannot reach the brokers for a time.
    pub outages: f64,
    pub readout_death: f64,
    pub builder_death: f64,
    /// A builder lives on while another one has its partition.
    pub zombie: f64,
    /// A builder stands still.
    pub pause: f64,
    /// A disk is full.
    pub disk: f64,
    /// A board sends a packet twice.
    pub copies: f64,
}

pub const CALM: Chaos = Chaos {
    failures: 0.0,
    doubles: 0.0,
    losses: 0.0,
    outages: 0.0,
    readout_death: 0.0,
    builder_death: 0.0,
    zombie: 0.0,
    pause: 0.0,
    disk: 0.0,
    copies: 0.0,
};
/// Nothing is lost in it.
pub const STORM: Chaos = Chaos {
    failures: 0.02,
    doubles: 0.05,
    outages: 0.005,
    builder_death: 0.05,
    zombie: 0.04,
    pause: 0.3,
    disk: 0.05,
    copies: 0.05,
    ..CALM
};

/// A log in memory with faults.
pub struct FaultyLog {
    pub log: MemoryLog,
    draw: Draw,
    chaos: Chaos,
    /// Packets in lost records.
    pub lost: u64,
    /// Packets in stored records, by partition, node, start and number.
    stored: BTreeMap<(u32, u16, u32, u64), u64>,
    /// Records that were read a second time.
    pub again: u64,
}

impl FaultyLog {
    pub fn new(log: MemoryLog, chaos: Chaos, seed: u64) -> FaultyLog {
        let (draw, stored) = (Draw::new(seed), BTreeMap::new());
        FaultyLog { log, draw, chaos, lost: 0, stored, again: 0 }
    }

    fn may_fail(
        &mut self,
        write: impl FnOnce(&mut MemoryLog) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let away = |words: &str| LogError::Away(words.to_owned());
        if self.draw.chance(self.chaos.failures) {
            return Err(away("before"));
        }
        write(&mut self.log)?;
        match self.draw.chance(self.chaos.failures) {
            true => Err(away("after")),
            false => Ok(()),
        }
    }
}

impl Log for FaultyLog {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        let head = read_record(bytes).expect("a record").0;
        if head.is_absence {
            return self.log.append(partition, bytes);
        }
        let record = (partition, head.node, head.start, head.sequence);
        // A record that was doubled is there, whatever becomes of its second copy.
        let is_new = !self.stored.contains_key(&record);
        if is_new && !head.is_end && self.draw.chance(self.chaos.losses) {
            self.lost += u64::from(head.packets);
            self.stored.insert(record, 0);
            return Ok(());
        }
        if is_new {
            self.stored.insert(record, head.packets.into());
        }
        self.log.append(partition, bytes)?;
        match self.draw.chance(self.chaos.doubles) {
            true => Err(LogError::Away("after".to_owned())),
            false => Ok(()),
        }
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.log.read(partition, offset)
    }

    fn read_again(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.again += 1;
        self.log.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        self.log.claim(partition, builder)
    }

    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError> {
        self.may_fail(|log| log.commit_all(claim, batches))
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        self.may_fail(|log| log.save(claim, checkpoint))
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.log.commits(partition)
    }
}

/// The batches that builders wrote, committed or not.
#[derive(Default)]
pub struct Files {
    pub written: BTreeMap<(u32, u64), EventBatch>,
    full: Option<(Draw, f64)>,
}

impl Output for Files {
    fn write(
        &mut self,
        partition: u32,
        _sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        if self.full.as_mut().is_some_and(|(draw, chance)| draw.chance(*chance)) {
            return Err("no space left".to_owned());
        }
        let before = self.written.insert((partition, batch.number), batch.events.clone());
        assert!(before.is_none_or(|before| before == batch.events), "two batches of one number");
        Ok(())
    }
}

/// A process of a readout node.
struct Readout {
    node: ReadoutNode,
    start: u32,
    incarnation: u64,
    sequence: u64,
    away_until: u64,
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
    pub fenced: u64,
}

pub struct Cluster {
    pub log: FaultyLog,
    pub plan: RunPlan,
    pub files: Files,
    filter: Option<FilterPlan>,
    readouts: Vec<Readout>,
    builders: Vec<Option<Builder>>,
    zombies: Vec<(u32, Builder)>,
    blocks: BTreeMap<String, NodeBlock>,
    alive: BTreeSet<String>,
    chaos: Chaos,
    draw: Draw,
    incarnations: u64,
    pub truth: Truth,
}

pub const READOUTS: u16 = 2;

impl Cluster {
    pub fn new(partitions: u32, chaos: Chaos, seed: u64) -> Cluster {
        let nodes = usize::from(READOUTS);
        let mut cluster = Cluster {
            log: FaultyLog::new(MemoryLog::new(partitions), chaos, seed ^ 9),
            plan: RunPlan { run: RUN, name: "x".to_owned(), nodes, partitions, builder: config() },
            files: Files {
                full: (chaos.disk > 0.0).then(|| (Draw::new(seed ^ 5), chaos.disk)),
                ..Files::default()
            },
            filter: None,
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
        cluster.readouts = (0..READOUTS).map(|node| cluster.readout(node, 0)).collect();
        (0..READOUTS).for_each(|node| cluster.publish_readout(node, NodeState::Waiting));
        cluster
    }

    /// Gives the builders a filter.
    pub fn with_filter(self, plan: FilterPlan) -> Cluster {
        Cluster { filter: Some(plan), ..self }
    }

    fn readout(&mut self, node: u16, start: u32) -> Readout {
        self.incarnations += 1;
        Readout {
            node: readout(node, start, self.plan.partitions),
            start,
            incarnation: self.incarnations,
            sequence: 0,
            away_until: 0,
            put_in_block: BTreeMap::new(),
        }
    }

    /// Takes all packets at their times, and ends the run; `at_ms` is called every millisecond.
    pub fn run(&mut self, packets: &[Packet], mut at_ms: impl FnMut(&mut Cluster, u64)) {
        let mut now = BEGIN;
        for packet in packets {
            while now + MS <= packet.at {
                now += MS;
                self.pass_time(now);
                at_ms(self, now);
            }
            self.take(packet);
        }
        self.finish(now + MS);
    }

    /// Notes the number of pauses and resumptions at a readout.
    pub fn set_changes(&mut self, node: u16, changes: u32) {
        self.readouts[usize::from(node)].node.set_changes(changes);
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
        let block = NodeBlock::read(&block.to_bytes()).expect("our own block");
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
            if self.draw.chance(self.chaos.outages) {
                readout.away_until = now + self.draw.below(100 * MS);
            }
            if now >= readout.away_until && self.draw.chance(0.7) {
                let _ = hand_over(&mut readout.node, &mut self.log); // handed over again later
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
        let its = (partition, node, start, 0)..=(partition, node, start, u64::MAX);
        self.log.stored.range(its).map(|(_, packets)| packets).sum()
    }

    /// Ends the life of a builder.
    fn drop_builder(&mut self, partition: usize) {
        if let Some(Builder { id, incarnation, .. }) = self.builders[partition].take() {
            self.alive.remove(&format!("{RUN}/builder/{id}/{incarnation}"));
        }
    }

    fn disturb(&mut self, partition: usize) {
        if self.draw.chance(self.chaos.builder_death) {
            self.drop_builder(partition);
        }
        if self.draw.chance(self.chaos.zombie)
            && let Some(builder) = self.builders[partition].take()
        {
            self.zombies.push((partition as u32, builder));
        }
    }

    fn claim(&mut self, partition: usize) {
        let id = format!("b{}", self.draw.below(3));
        let worker = Worker::claim(&mut self.log, &self.plan, partition as u32, &id);
        let worker = worker.expect("a log in memory");
        assert_eq!(worker.notes(), [""; 0]);
        let age = Span::from_ms(5 + self.draw.below(100));
        // Checkpoints are frequent, except in calm weather.
        let policy = match self.chaos.builder_death > 0.0 {
            true => CheckpointPolicy { bytes: self.draw.below(60_000), times_its_size: 0, age },
            false => CheckpointPolicy::default(),
        };
        let filter = self.filter.as_ref().map_or_else(EventFilter::default, EventFilter::of);
        let worker = worker.with_checkpoints(policy).with_filter(filter);
        self.incarnations += 1;
        let incarnation = self.incarnations;
        self.builders[partition] = Some(Builder { worker, id, incarnation, sequence: 0 });
        // Records that no builder needs any more are removed, as by retention.
        let needed = self.log.log.checkpoints(partition as u32).last().map(|oldest| oldest.offset);
        if let Some(offset) = needed.filter(|_| self.draw.chance(0.5)) {
            self.log.log.forget_before(partition as u32, offset);
        }
    }

    fn work(&mut self, partition: usize) {
        if self.draw.chance(self.chaos.pause) {
            return;
        }
        if self.builders[partition].is_none() {
            self.claim(partition);
        }
        // A builder stops at any record, so that its blocks are of any moment.
        for _ in 0..self.draw.below(40) {
            let Some(builder) = &mut self.builders[partition] else { return };
            match builder.worker.step(&mut self.log, &mut self.files) {
                Ok(Step::Worked) => {}
                Ok(Step::Idle | Step::Over) => return,
                Err(WorkError::Log(LogError::Away(_)) | WorkError::Output { .. }) => {
                    return self.drop_builder(partition);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Lets a builder go on that somebody has replaced; false when it has stopped.
    fn step_zombie(&mut self, partition: u32, zombie: &mut Builder) -> bool {
        for _ in 0..self.draw.below(8) {
            match zombie.worker.step(&mut self.log, &mut self.files) {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) => return true,
                Ok(Step::Over) | Err(WorkError::Log(LogError::Fenced { .. })) => {
                    self.truth.fenced += 1;
                    let block = block_of_builder(zombie, partition, NodeState::Failed);
                    self.publish(block);
                    return false;
                }
                // It stood still for so long that its records are gone, or its write failed.
                Err(
                    WorkError::Log(LogError::Hole { .. } | LogError::Away(_))
                    | WorkError::Output { .. },
                ) => {
                    let Builder { id, incarnation, .. } = zombie;
                    self.alive.remove(&format!("{RUN}/builder/{id}/{incarnation}"));
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
            while hand_over(readout, &mut self.log).is_err() {}
            self.publish_readout(node, NodeState::Ended);
        }
        (self.chaos, self.log.chaos, self.files.full) = (CALM, CALM, None);
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

    /// Returns the committed batches of all partitions.
    pub fn committed(&self) -> Vec<EventBatch> {
        let mut batches = Vec::new();
        for partition in 0..self.plan.partitions {
            for (number, commit) in (0..).zip(self.log.log.committed(partition)) {
                assert_eq!(commit.batch, number);
                let batch = &self.files.written[&(partition, number)];
                assert_eq!(commit.packets, batch.packets.len() as u64);
                batches.push(batch.clone());
            }
        }
        batches
    }

    /// Returns the counters of all partitions after the end.
    pub fn counters(&self) -> PartitionCounters {
        let mut total = PartitionCounters::default();
        for (partition, builder) in (0..).zip(self.builders.iter().flatten()) {
            total.merge(&PartitionBlock::of(partition, builder.worker.partition()).counters);
        }
        total
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
