//! Distributed building on a log in memory: the same events as in one process, whatever dies,
//! pauses, comes twice or comes back.

mod support;

use std::collections::BTreeMap;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{Integrity, RunReader};
use fluxline_kafka::build::entry::read_record;
use fluxline_kafka::build::{
    BuiltSource, CheckpointPolicy, Commit, Log, LogError, MemoryLog, Output, OutputBatch,
    PartitionBuilder, ReadoutNode, RunFolders, RunPlan, Step, WorkError, Worker,
};
use fluxline_kafka::gather::gather;
use support::built::readout;
use support::world::{
    BEGIN, MS, Packet, RUN, Weather, assert_same, config, datagram, events_of, one_process, packets,
};
use support::wrapped_log::{Fate, Faults, WrappedLog};

/// Failures of a log at times: before a write, or after it.
struct Failures {
    draw: Draw,
    chance: f64,
}

impl Failures {
    fn next(&mut self) -> Fate {
        if self.draw.chance(self.chance) {
            return Fate::FailsBefore;
        }
        match self.draw.chance(self.chance) {
            true => Fate::FailsAfter,
            false => Fate::Done,
        }
    }
}

impl Faults for Failures {
    fn of_append(&mut self, _: u32, _: &[u8]) -> Fate {
        self.next()
    }

    fn of_commit(&mut self) -> Fate {
        self.next()
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
    log: WrappedLog<Failures>,
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
        let draw = chaos.disk.then(|| Draw::new(seed ^ 5));
        let files = Files { draw, ..Files::default() };
        let plan =
            RunPlan { run: RUN, name: "x".to_owned(), nodes: 2, partitions, builder: config() };
        let log = MemoryLog::new(partitions);
        Nodes {
            plan,
            log: WrappedLog {
                log,
                faults: Failures { draw: Draw::new(seed ^ 9), chance: chaos.log },
            },
            nodes: (0..2).map(|node| readout(node, 0, partitions)).collect(),
            workers: (0..partitions).map(|_| None).collect(),
            zombies: Vec::new(),
            files,
            chaos,
            draw: Draw::new(seed),
            fenced: 0,
            deaths: 0,
        }
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
            let worker = claimed.expect("a log in memory");
            assert_eq!(worker.notes(), [""; 0]);
            self.workers[partition] = Some(worker.with_checkpoints(self.policy()));
            self.forget(partition as u32);
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

    /// Returns a rule by which checkpoints are saved often; in calm weather, the usual one.
    fn policy(&mut self) -> CheckpointPolicy {
        let age = Span::from_ms(5 + self.draw.below(100));
        match self.chaos.death > 0.0 {
            true => CheckpointPolicy { bytes: self.draw.below(60_000), times_its_size: 0, age },
            false => CheckpointPolicy::default(),
        }
    }

    /// Removes records that no builder needs any more, as retention does.
    fn forget(&mut self, partition: u32) {
        let needed = self.log.log.checkpoints(partition).last().map(|oldest| oldest.offset);
        if let Some(offset) = needed.filter(|_| self.draw.chance(0.5)) {
            self.log.log.forget_before(partition, offset);
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
                // It stood still for so long that its records are gone.
                Err(WorkError::Log(LogError::Hole { .. })) => return false,
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
        self.workers.iter().all(|worker| worker.as_ref().is_some_and(Worker::is_over))
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

#[test]
fn storm_in_files_gives_one_run_that_every_command_reads() {
    let seed = test_seed!(31);
    let mut draw = Draw::new(seed);
    let weather = Weather { lives: true, ..weather(&mut draw, 0.01) };
    let packets = packets(&mut draw, weather);
    let scratch = tempfile::tempdir().expect("a folder");
    let (log, nodes) = (MemoryLog::new(2), 2);
    let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes, partitions: 2, builder: config() };
    let mut readouts: Vec<_> = (0..2).map(|node| readout(node, 0, 2)).collect();
    for packet in &packets {
        for of in &mut readouts {
            of.poll(Moment::from_ns(packet.at));
        }
        let of = &mut readouts[usize::from(packet.board % 2)];
        of.take(0, Moment::from_ns(packet.at), &datagram(packet));
        for of in &mut readouts {
            of.hand_over(&mut log.clone()).expect("a log in memory");
        }
    }
    let end = Moment::from_ns(packets[packets.len() - 1].at + MS);
    for of in &mut readouts {
        of.finish(end);
        of.hand_over(&mut log.clone()).expect("a log in memory");
    }
    // Each builder writes some batches, and may die between writing and committing one.
    for life in 0..100 {
        let name = format!("builder-{}", life % 3);
        let partition = life % 2;
        let formats = vec![("counter".to_owned(), String::new())];
        let mut output = RunFolders::new(scratch.path(), &name, RUN, formats);
        let faults = Failures { draw: Draw::new(seed + u64::from(life)), chance: 0.2 };
        let mut log = WrappedLog { log: log.clone(), faults };
        let mut worker = Worker::claim(&mut log, &plan, partition, &name).expect("claimed");
        while let Ok(Step::Worked) = worker.step(&mut log, &mut output) {}
    }
    let commits: Vec<Commit> = (0..2).flat_map(|of| log.committed(of)).collect();
    let into = scratch.path().join("0001");
    let gathered = gather(scratch.path(), &commits, &into).expect("gathered");
    assert!(gathered.left_out > 0, "no builder died between writing and committing: {gathered:?}");
    let mut reader = RunReader::open(&into).expect("a run");
    let mut batches = Vec::new();
    while let Some(recorded) = reader.next_batch().expect("readable") {
        let mut batch = EventBatch::default();
        recorded.append_to(&mut batch).expect("rows");
        batches.push(batch);
    }
    let found = Integrity::of(reader.folder(), reader.report());
    assert!(found.is_sound(), "{found:?}");
    let one = events_of(&one_process(&packets));
    assert_same(&events_of(&batches), &one, "gathered");
    assert_eq!(reader.folder().sources().expect("lines").len(), usize::from(weather.boards));

    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let said = gather(&empty, &commits, &scratch.path().join("0002")).expect_err("nothing there");
    assert!(said.to_string().contains("copy the folders of that builder there"), "{said}");
}

#[test]
fn events_that_a_topic_refused_cannot_be_gathered_from_the_folders_that_have_them() {
    let weather = Weather { boards: 4, keys: 200, loss: 0.0, lives: false };
    let packets = packets(&mut Draw::new(test_seed!(32)), weather);
    let scratch = tempfile::tempdir().expect("a folder");
    let mut log = MemoryLog::new(1);
    let plan =
        RunPlan { run: RUN, name: "x".to_owned(), nodes: 1, partitions: 1, builder: config() };
    let mut node = readout(0, 0, 1);
    for packet in &packets {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
        node.hand_over(&mut log).expect("a log in memory");
    }
    node.finish(Moment::from_ns(packets[packets.len() - 1].at + MS));
    node.hand_over(&mut log).expect("a log in memory");
    let formats = vec![("counter".to_owned(), String::new())];
    let mut output = RunFolders::new(scratch.path(), "builder-1", RUN, formats);
    let mut worker = Worker::claim(&mut log, &plan, 0, "builder-1").expect("claimed");
    while worker.step(&mut log, &mut output).expect("it works") == Step::Worked {}
    // One event of each batch is larger than a record of the topic.
    let mut commits = log.committed(0);
    commits.iter_mut().for_each(|commit| commit.refused = 1);
    let into = scratch.path().join("0001");
    let gathered = gather(scratch.path(), &commits, &into).expect("the folders have all events");
    assert_eq!((gathered.packets, gathered.refused), (packets.len() as u64, 0));
    let run = RunReader::open(&into).expect("a run").folder().read_run().expect("run.json");
    assert_eq!(run["status"], 0, "{run}");
    // A batch that lacks the event differs from its commit.
    commits[0].events += 1;
    let said = gather(scratch.path(), &commits, &scratch.path().join("0002")).expect_err("less");
    assert!(said.to_string().contains("differs from its commit (it has"), "{said}");
}

#[test]
fn holes_foreign_records_and_other_partition_counts_are_named() {
    let mut log = MemoryLog::new(2);
    let (name, builder) = ("x".to_owned(), config());
    let plan = RunPlan { run: RUN, name, nodes: 1, partitions: 2, builder };
    log.append(0, b"a record of somebody else").expect("appended");
    let mut files = Files::default();
    let mut worker = Worker::claim(&mut log, &plan, 0, "a").expect("claimed");
    assert_eq!(worker.step(&mut log, &mut files), Ok(Step::Worked));
    assert_eq!(worker.partition().counts().foreign, 1);
    assert_eq!(worker.step(&mut log, &mut files), Ok(Step::Idle));
    log.append(0, b"more").expect("appended");
    log.append(0, b"and more").expect("appended");
    log.forget_before(0, 2);
    let said = worker.step(&mut log, &mut files).expect_err("a hole").to_string();
    assert!(said.contains("records before offset 2") && said.contains("retention.ms"), "{said}");
    let plan = RunPlan { partitions: 3, ..plan };
    let said = Worker::claim(&mut log, &plan, 0, "a").err().expect("changed").to_string();
    let expected = "the number of partitions changed from 3 to 2 during run 77: keys would change \
                    their builder; `fluxline ctl … abandon 77` ends the run";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn node_that_dies_and_starts_again_loses_only_what_it_had_not_handed_over() {
    let seed = test_seed!(41);
    let mut draw = Draw::new(seed);
    let weather = Weather { boards: 4, keys: 200, loss: 0.0, lives: false };
    let packets = packets(&mut draw, weather);
    let mut nodes = Nodes::new(2, CALM, seed);
    let half = packets.len() / 2;
    let mut now = BEGIN;
    let mut handed = 0;
    for (number, packet) in packets.iter().enumerate() {
        while now + MS <= packet.at {
            now += MS;
            nodes.pass_time(now);
        }
        if number == half {
            handed = nodes.nodes[1].counts().handed;
            nodes.nodes[1] = readout(1, 1, 2);
        }
        nodes.take(packet);
    }
    nodes.finish(now + MS);
    let stored: usize = nodes.committed().iter().map(|batch| batch.packets.len()).sum();
    let of_nodes: u64 = nodes.nodes.iter().map(|node| node.counts().handed).sum();
    assert_eq!(stored as u64, of_nodes + handed, "handed over is not in events");
    assert!(stored < packets.len(), "the death cost nothing: not a test");
    let taken: u64 = nodes.workers.iter().flatten().map(|of| of.partition().counts().taken).sum();
    assert_eq!(taken, of_nodes + handed, "handed over = taken");
}

/// Reading a record neither panics nor hangs, whatever its bytes are. A changed record of ours is
/// not a record.
#[test]
fn spoilt_records_are_foreign() {
    let seed = test_seed!(51);
    let mut draw = Draw::new(seed);
    let weather = Weather { boards: 3, keys: 20, loss: 0.0, lives: false };
    let mut node = readout(0, 0, 1);
    let mut log = MemoryLog::new(1);
    for packet in packets(&mut draw, weather) {
        node.take(0, Moment::from_ns(packet.at), &datagram(&packet));
    }
    node.finish(Moment::from_ns(BEGIN + 1000 * MS));
    node.hand_over(&mut log).expect("a log in memory");
    let record = log.read(0, 0).expect("a log in memory").expect("a record");
    assert!(read_record(&record.bytes).is_some());
    for _ in 0..2000 {
        let mut bytes = record.bytes.to_vec();
        let at = draw.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << draw.below(8);
        assert!(read_record(&bytes).is_none());
        // With a right check sum, as an attacker would: the entries end where they make no sense.
        let end = bytes.len() - 4;
        let crc = crc_fast::crc32_iscsi(&bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
        let mut builder = PartitionBuilder::new(RUN, 1, config());
        builder.take(0, &bytes.into());
    }
}
