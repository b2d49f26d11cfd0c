//! Distributed building on a log in memory: the same events as in one process, whatever dies,
//! pauses, comes twice or comes back.

mod support;

use std::collections::BTreeMap;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{Mode, Scope};
use fluxline_daq::event::EventBatch;
use fluxline_kafka::build::{
    BuiltSource, Claim, Commit, Log, LogError, MemoryLog, NodeConfig, Output, OutputBatch,
    ReadoutNode, RunPlan, Step, Stored, WorkError, Worker,
};
use support::world::{
    BEGIN, MS, Packet, RUN, Weather, assert_same, config, datagram, description, events_of,
    one_process, packets,
};

/// A log that fails at times: before it appends, or after.
struct FlakyLog {
    log: MemoryLog,
    draw: Draw,
    failures: f64,
}

impl FlakyLog {
    fn fails(&mut self) -> bool {
        self.draw.chance(self.failures)
    }
}

impl Log for FlakyLog {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        if self.fails() {
            return Err(LogError::Away("before".to_owned()));
        }
        self.log.append(partition, bytes)?;
        match self.fails() {
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
        if self.fails() {
            return Err(LogError::Away("no commit".to_owned()));
        }
        self.log.commit(claim, commit)?;
        match self.fails() {
            true => Err(LogError::Away("committed, but nobody knows".to_owned())),
            false => Ok(()),
        }
    }
}

/// The batches that all builders wrote, committed or not.
#[derive(Default)]
struct Files {
    written: BTreeMap<(u32, u64), Vec<OutputBatch>>,
    draw: Option<Draw>,
}

impl Output for Files {
    fn write(
        &mut self,
        partition: u32,
        _sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        if self.draw.as_mut().is_some_and(|draw| draw.chance(0.05)) {
            return Err("no space left".to_owned());
        }
        self.written.entry((partition, batch.number)).or_default().push(batch.clone());
        Ok(())
    }
}

/// The share of chances for faults in a run of nodes and builders.
#[derive(Clone, Copy, Debug)]
struct Chaos {
    /// Failures of the log.
    log: f64,
    /// Deaths of a builder, for each step of time.
    death: f64,
    /// Take-overs while the builder lives on: it must be fenced.
    zombie: f64,
    /// A builder stands still.
    pause: f64,
    disk: bool,
}

const CALM: Chaos = Chaos { log: 0.0, death: 0.0, zombie: 0.0, pause: 0.0, disk: false };
const STORM: Chaos = Chaos { log: 0.02, death: 0.05, zombie: 0.03, pause: 0.3, disk: true };

struct Nodes {
    plan: RunPlan,
    log: FlakyLog,
    nodes: Vec<ReadoutNode>,
    workers: Vec<Option<Worker>>,
    zombies: Vec<Worker>,
    files: Files,
    chaos: Chaos,
    draw: Draw,
    fenced: u64,
    deaths: u64,
}

impl Nodes {
    fn new(partitions: u32, chaos: Chaos, seed: u64) -> Nodes {
        let mut files = Files::default();
        files.draw = chaos.disk.then(|| Draw::new(seed ^ 5));
        let plan =
            RunPlan { run: RUN, name: "x".to_owned(), nodes: 2, partitions, builder: config() };
        let log = MemoryLog::new(partitions);
        Nodes {
            plan,
            log: FlakyLog { log, draw: Draw::new(seed ^ 9), failures: chaos.log },
            nodes: (0..2).map(|node| Self::node(node, 0, partitions)).collect(),
            workers: (0..partitions).map(|_| None).collect(),
            zombies: Vec::new(),
            files,
            chaos,
            draw: Draw::new(seed),
            fenced: 0,
            deaths: 0,
        }
    }

    fn node(node: u16, start: u32, partitions: u32) -> ReadoutNode {
        let config = NodeConfig {
            run: RUN,
            node,
            start,
            mode: Mode::Key(Scope::Global),
            record_bytes: 4096,
            record_age: Span::from_ms(5),
            memory_bytes: 1 << 30,
        };
        ReadoutNode::new(config, vec![("boards".to_owned(), description())], partitions)
    }

    fn take(&mut self, packet: &Packet) {
        let node = &mut self.nodes[usize::from(packet.board % 2)];
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
    }

    fn pass_time(&mut self, now: u64) {
        for node in &mut self.nodes {
            node.poll(Moment::from_ns(now));
            let _ = node.hand_over(&mut self.log); // handed over again later
        }
        for partition in 0..self.workers.len() {
            self.disturb(partition);
            self.work(partition);
        }
        let mut zombies = std::mem::take(&mut self.zombies);
        zombies.retain_mut(|zombie| self.step_zombie(zombie));
        self.zombies = zombies;
    }

    fn disturb(&mut self, partition: usize) {
        if self.draw.chance(self.chaos.death) && self.workers[partition].take().is_some() {
            self.deaths += 1;
        }
        if self.draw.chance(self.chaos.zombie)
            && let Some(worker) = self.workers[partition].take()
        {
            self.zombies.push(worker);
        }
    }

    fn work(&mut self, partition: usize) {
        if self.draw.chance(self.chaos.pause) {
            return;
        }
        if self.workers[partition].is_none() {
            let name = format!("builder-{}", self.draw.below(3));
            let claimed = Worker::claim(&mut self.log, &self.plan, partition as u32, &name);
            self.workers[partition] = Some(claimed.expect("a log in memory"));
        }
        while let Some(worker) = &mut self.workers[partition] {
            match worker.step(&mut self.log, &mut self.files) {
                Ok(Step::Worked) => {}
                Ok(Step::Idle | Step::Over) => break,
                Err(WorkError::Log(LogError::Away(_)) | WorkError::Output { .. }) => {
                    self.workers[partition] = None;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Lets a builder go on that somebody has replaced; false when it has stopped.
    fn step_zombie(&mut self, zombie: &mut Worker) -> bool {
        if self.draw.chance(0.5) {
            return true;
        }
        loop {
            match zombie.step(&mut self.log, &mut self.files) {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) => return true,
                Ok(Step::Over) => return false,
                Err(WorkError::Log(LogError::Fenced { .. })) => {
                    self.fenced += 1;
                    return false;
                }
                Err(WorkError::Log(LogError::Away(_)) | WorkError::Output { .. }) => return false,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn finish(&mut self, now: u64) {
        for node in &mut self.nodes {
            node.finish(Moment::from_ns(now));
            while node.hand_over(&mut self.log).is_err() {}
        }
        for _ in 0..10_000 {
            self.pass_time(now);
            if self.is_over() {
                return;
            }
        }
        panic!("the builders do not come to an end");
    }

    fn is_over(&mut self) -> bool {
        self.workers
            .iter()
            .all(|worker| worker.as_ref().is_some_and(|worker| worker.partition().is_ended()))
    }

    /// Returns the committed batches of all partitions.
    fn committed(&self) -> Vec<EventBatch> {
        let mut batches = Vec::new();
        for partition in 0..self.workers.len() as u32 {
            for (number, commit) in (0..).zip(self.log.log.committed(partition)) {
                assert_eq!(commit.batch, number);
                let written = &self.files.written[&(partition, number)];
                let first = &written[0];
                let same = written.iter().all(|batch| batch.events == first.events);
                assert!(same, "two builders made different batches of one number");
                assert_eq!(commit.packets, first.events.packets.len() as u64);
                batches.push(first.events.clone());
            }
        }
        batches
    }
}

fn distributed(packets: &[Packet], partitions: u32, chaos: Chaos, seed: u64) -> Nodes {
    let mut nodes = Nodes::new(partitions, chaos, seed);
    let mut now = BEGIN;
    for packet in packets {
        while now + MS <= packet.at {
            now += MS;
            nodes.pass_time(now);
        }
        nodes.take(packet);
    }
    nodes.finish(now + MS);
    nodes
}

fn weather(draw: &mut Draw, loss: f64) -> Weather {
    Weather { boards: 4 + draw.below(4) as u16, keys: 150, loss, lives: false }
}

#[test]
fn storm_of_deaths_and_returns_changes_no_byte() {
    let seed = test_seed!(11);
    let (mut fenced, mut deaths) = (0, 0);
    for round in 0..test_count!(6) {
        let mut draw = Draw::new(seed + round);
        let weather = Weather { lives: true, ..weather(&mut draw, 0.02) };
        let packets = packets(&mut draw, weather);
        let partitions = 1 + draw.below(4) as u32;
        let calm = distributed(&packets, partitions, CALM, seed);
        let storm = distributed(&packets, partitions, STORM, seed + round);
        let (calm, stormy) = (calm.committed(), storm.committed());
        assert_same(&events_of(&stormy), &events_of(&calm), &format!("round {round}"));
        let stored: usize = stormy.iter().map(|batch| batch.packets.len()).sum();
        assert_eq!(stored, packets.len(), "round {round}: a packet is lost or doubled");
        fenced += storm.fenced;
        deaths += storm.deaths;
    }
    assert!(fenced > 3 && deaths > 20, "a mild storm: {fenced} fenced, {deaths} deaths");
}

#[test]
fn events_are_those_of_one_process_without_loss() {
    let seed = test_seed!(3);
    for round in 0..test_count!(6) {
        let mut draw = Draw::new(seed + round);
        let weather = weather(&mut draw, 0.0);
        let packets = packets(&mut draw, weather);
        let one = events_of(&one_process(&packets));
        for partitions in [1, 3, 8] {
            let many = distributed(&packets, partitions, CALM, seed).committed();
            let about = format!("round {round}, {partitions} partitions");
            assert_same(&events_of(&many), &one, &about);
        }
        assert!(one.len() as u64 == weather.keys, "{} events", one.len());
    }
}

#[test]
fn events_are_those_of_one_process_with_loss_and_restarts() {
    let seed = test_seed!(5);
    for round in 0..test_count!(6) {
        let mut draw = Draw::new(seed + round);
        let weather = Weather { lives: true, ..weather(&mut draw, 0.03) };
        let packets = packets(&mut draw, weather);
        let one = events_of(&one_process(&packets));
        for partitions in [1, 3] {
            let many = distributed(&packets, partitions, CALM, seed).committed();
            let about = format!("round {round}, {partitions} partitions");
            assert_same(&events_of(&many), &one, &about);
        }
    }
}
