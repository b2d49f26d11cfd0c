//! Batches that are ready together are committed together: durable before, in order, each once.

mod support;

use std::sync::{Arc, Mutex};

use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{Mode, Scope};
use fluxline_kafka::build::{
    BuiltSource, Checkpoint, CheckpointPolicy, Claim, Commit, Log, LogError, MemoryLog, NodeConfig,
    Output, OutputBatch, ReadoutNode, Ready, RunPlan, Step, Stored, WorkError, Worker,
};
use support::world::{MS, RUN, Weather, config, datagram, description, packets};

/// The numbers of batches in the order of events.
#[derive(Default)]
struct Journal {
    written: Vec<u64>,
    /// Number of written batches that are durable.
    durable: usize,
    /// Batches of each transaction.
    groups: Vec<Vec<u64>>,
}

/// A log that notes its transactions.
#[derive(Clone)]
struct NotedLog(MemoryLog, Arc<Mutex<Journal>>);

impl Log for NotedLog {
    fn partitions(&self) -> u32 {
        self.0.partitions()
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        self.0.append(partition, bytes)
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.0.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        self.0.claim(partition, builder)
    }

    fn commit(&mut self, _: &Claim, _: Commit) -> Result<(), LogError> {
        panic!("a builder commits groups");
    }

    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError> {
        self.0.commit_all(claim, batches)?;
        let mut journal = self.1.lock().expect("no panic");
        let numbers = batches.iter().map(|batch| batch.commit.batch).collect::<Vec<u64>>();
        assert!(journal.written[..journal.durable].ends_with(&numbers), "not durable: {numbers:?}");
        journal.groups.push(numbers);
        Ok(())
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        let committed = self.0.committed(claim.partition).len() as u64;
        assert_eq!(checkpoint.batch, committed, "batches before a checkpoint are not made again");
        self.0.save(claim, checkpoint)
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.0.commits(partition)
    }
}

struct Files(Arc<Mutex<Journal>>);

impl Output for Files {
    fn write(&mut self, _: u32, _: &[BuiltSource], batch: &OutputBatch) -> Result<(), String> {
        self.0.lock().expect("no panic").written.push(batch.number);
        Ok(())
    }

    fn make_durable(&mut self, _: u32) -> Result<(), String> {
        let mut journal = self.0.lock().expect("no panic");
        journal.durable = journal.written.len();
        Ok(())
    }
}

fn plan() -> RunPlan {
    let (name, builder) = ("x".to_owned(), config());
    RunPlan { run: RUN, name, nodes: 1, partitions: 1, builder }
}

/// Returns a log with the records of a whole run.
fn log_of_run() -> MemoryLog {
    let mut draw = Draw::new(test_seed!(17));
    let weather = Weather { boards: 4, keys: 400, loss: 0.01, lives: false };
    let packets = packets(&mut draw, weather);
    let config = NodeConfig {
        run: RUN,
        node: 0,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 4096,
        record_age: Span::from_ms(1),
        memory_bytes: 1 << 30,
    };
    let mut node = ReadoutNode::new(config, vec![("boards".to_owned(), description())], 1);
    for packet in &packets {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
    }
    node.finish(Moment::from_ns(packets[packets.len() - 1].at + MS));
    let mut log = MemoryLog::new(1);
    node.hand_over(&mut log).expect("a log in memory");
    log
}

fn work(worker: &mut Worker, log: &mut NotedLog) -> Result<(), WorkError> {
    let mut files = Files(log.1.clone());
    while worker.step(log, &mut files)? != Step::Over {}
    Ok(())
}

#[test]
fn batches_that_are_ready_together_are_committed_together() {
    let mut log = NotedLog(log_of_run(), Arc::default());
    let mut worker = Worker::claim(&mut log, &plan(), 0, "a").expect("claimed");
    work(&mut worker, &mut log).expect("built");
    let journal = log.1.lock().expect("no panic");
    let all = (0..log.0.committed(0).len() as u64).collect::<Vec<u64>>();
    assert_eq!(journal.groups.concat(), all);
    assert!(all.len() > 20 && journal.groups.len() * 2 < all.len(), "{:?}", journal.groups);
}

#[test]
fn a_group_is_committed_when_no_record_waits() {
    let (whole, mut log) = (log_of_run(), NotedLog(MemoryLog::new(1), Arc::default()));
    let mut worker = Worker::claim(&mut log, &plan(), 0, "a").expect("claimed");
    let mut files = Files(log.1.clone());
    for offset in 0..whole.end(0) {
        let record = whole.clone().read(0, offset).expect("a log").expect("a record");
        log.append(0, &record.bytes).expect("a log in memory");
        while worker.step(&mut log, &mut files).expect("built") == Step::Worked {}
        assert_eq!(log.0.committed(0).len() as u64, worker.partition().next_batch());
    }
    assert!(worker.partition().is_ended());
}

#[test]
fn a_checkpoint_follows_the_commits_of_its_batches() {
    let mut log = NotedLog(log_of_run(), Arc::default());
    let age = Span::from_ms(3);
    let policy = CheckpointPolicy { bytes: 10_000, times_its_size: 0, age };
    let worker = Worker::claim(&mut log, &plan(), 0, "a").expect("claimed");
    work(&mut worker.with_checkpoints(policy), &mut log).expect("built");
    assert_eq!(log.0.checkpoints(0).len(), 2);
}

#[test]
fn a_fenced_builder_commits_nothing_of_its_group() {
    let mut log = NotedLog(log_of_run(), Arc::default());
    let mut first = Worker::claim(&mut log, &plan(), 0, "a").expect("claimed");
    let mut files = Files(log.1.clone());
    while log.1.lock().expect("no panic").written.len() == log.0.committed(0).len() {
        first.step(&mut log, &mut files).expect("built");
    }
    let before = log.0.committed(0);
    let mut second = Worker::claim(&mut log, &plan(), 0, "b").expect("claimed");
    let fenced = WorkError::Log(LogError::Fenced { partition: 0 });
    assert_eq!(first.commit(&mut log, &mut files), Err(fenced));
    assert_eq!(log.0.committed(0), before);
    work(&mut second, &mut log).expect("built");
    let numbers = log.0.committed(0).iter().map(|commit| commit.batch).collect::<Vec<u64>>();
    assert_eq!(numbers, (0..second.partition().next_batch()).collect::<Vec<u64>>());
}
