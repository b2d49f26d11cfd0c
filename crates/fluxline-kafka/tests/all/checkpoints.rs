//! Checkpoints: a builder that was restored makes the batches of one that was never interrupted,
//! without the records before; and a checkpoint that cannot be used costs time, never an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxline_cluster::PartitionBuilder;
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{BuilderConfig, Expectation, Late, Mode, Scope, WindowClock};
use fluxline_kafka::build::checkpoint::VERSION;
use fluxline_kafka::build::log::hand_over;
use fluxline_kafka::build::{
    Checkpoint, CheckpointPolicy, Claim, Commit, Log, LogError, MemoryLog, Ready, Refused, RunPlan,
    Step, Stored, WorkError, Worker,
};

use crate::support::cluster::Files;
use crate::support::world::{
    MS, Packet, RUN, Weather, config, datagram, one_process, packets, readout_of, sets_of,
};

/// Saves after every few batches.
const OFTEN: CheckpointPolicy =
    CheckpointPolicy { bytes: 20_000, times_its_size: 0, age: Span::from_ms(30) };

fn mode(draw: &mut Draw) -> Mode {
    let window =
        |clock| Mode::Window { width: Span::from_ms(5), lateness: Span::from_ms(20), clock };
    match draw.below(6) {
        0 => Mode::Packet,
        1 => Mode::Key(Scope::PerSource),
        2 => window(WindowClock::Arrival),
        3 => window(WindowClock::Sensor),
        _ => Mode::Key(Scope::Global),
    }
}

fn any_config(draw: &mut Draw) -> BuilderConfig {
    let expectation = match draw.below(4) {
        0 => Expectation::Count(3),
        1 => Expectation::Sources(vec!["boards board=1".to_owned(), "nobody".to_owned()]),
        _ => Expectation::Joined,
    };
    BuilderConfig {
        mode: mode(draw),
        expectation,
        late: if draw.chance(0.3) { Late::Drop } else { Late::Record },
        time_out: Span::from_ms(60),
        closed_keys_max: if draw.chance(0.3) { 40 } else { 1 << 16 },
        ..config()
    }
}

/// Writes the packets of two nodes into a log; the second node may die before a packet, and start
/// again.
fn read_out(packets: &[Packet], mode: Mode, log: &MemoryLog, dies_at: Option<usize>) {
    let node = |node, start| readout_of(node, start, log.partitions(), mode);
    let mut nodes = [node(0, 0), node(1, 0)];
    for (number, packet) in packets.iter().enumerate() {
        let now = Moment::from_ns(packet.at);
        if Some(number) == dies_at {
            nodes[1] = node(1, 1);
        }
        nodes[usize::from(packet.board % 2)].take(0, now, &datagram(packet));
        for node in &mut nodes {
            node.poll(now);
            hand_over(node, &mut log.clone()).expect("a log in memory");
        }
    }
    let end = Moment::from_ns(packets.last().expect("some").at + MS);
    for node in &mut nodes {
        node.finish(end);
        hand_over(node, &mut log.clone()).expect("a log in memory");
    }
}

fn restored(builder: &PartitionBuilder, config: &BuilderConfig) -> PartitionBuilder {
    let saved = Checkpoint::of(builder).expect("a short state");
    let new = Checkpoint::restore(RUN, 2, config, &saved.bytes).expect("our own state");
    assert_eq!(Checkpoint::of(&new).as_ref(), Some(&saved), "state is forgotten");
    assert_eq!((saved.batch, saved.offset), (new.next_batch(), new.needed_offset()));
    new
}

#[test]
fn builder_that_was_restored_at_any_record_makes_the_same_batches() {
    let seed = test_seed!(61);
    let (mut batches, mut restores) = (0, 0);
    for round in 0..test_count!(24) {
        let mut draw = Draw::new(seed + round);
        let boards = 4 + draw.below(4) as u16;
        let weather = Weather { boards, keys: 150, loss: 0.02, lives: true };
        let packets = packets(&mut draw, weather).packets;
        let config = any_config(&mut draw);
        let log = MemoryLog::new(2);
        let dies_at = draw.chance(0.5).then(|| draw.below(packets.len() as u64) as usize);
        read_out(&packets, config.mode, &log, dies_at);
        let share = [0.01, 0.1, 1.0][draw.below(3) as usize];
        for partition in 0..2 {
            let mut calm = PartitionBuilder::new(RUN, 2, config.clone());
            let mut disturbed = calm.clone();
            while let Some(record) = log.clone().read(partition, calm.next_offset()).expect("it") {
                if draw.chance(share) {
                    disturbed = restored(&disturbed, &config);
                    restores += 1;
                }
                let batch = calm.take(record.offset, &record.bytes);
                assert_eq!(batch, disturbed.take(record.offset, &record.bytes), "round {round}");
                batches += batch.len();
            }
            assert_eq!(calm.counts(), disturbed.counts());
            assert!(calm.is_ended() && disturbed.is_ended());
        }
    }
    assert!(batches > 20 && restores > 10, "{batches} batches, {restores} restores");
}

/// A run of one partition in a log.
struct Run {
    log: MemoryLog,
    plan: RunPlan,
    packets: Vec<Packet>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let weather = Weather { boards: 6, keys: 400, loss: 0.01, lives: true };
        let packets = packets(&mut Draw::new(seed), weather).packets;
        let (log, builder) = (MemoryLog::new(1), config());
        read_out(&packets, builder.mode, &log, None);
        let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes: 2, partitions: 1, builder };
        Run { log, plan, packets }
    }

    /// Lets a builder work until it has saved a third checkpoint.
    fn work(&self, files: &mut Files) {
        let mut log = self.log.clone();
        let claimed = Worker::claim(&mut log, &self.plan, 0, "first").expect("claimed");
        let mut worker = claimed.with_checkpoints(OFTEN);
        let (mut saved, mut newest) = (0, None);
        while saved < 3 {
            assert_eq!(worker.step(&mut log, files), Ok(Step::Worked), "the run is too short");
            let found = self.log.checkpoints(0).first().map(|its| its.offset);
            saved += u32::from(found != newest);
            newest = found;
        }
    }

    fn finish(&self, log: &mut impl Log, files: &mut Files) -> Result<Worker, WorkError> {
        let mut worker = Worker::claim(log, &self.plan, 0, "second")?.with_checkpoints(OFTEN);
        while worker.step(log, files)? == Step::Worked {}
        assert!(worker.partition().is_ended());
        Ok(worker)
    }

    fn assert_whole(&self, files: &Files) {
        let batches: Vec<_> = files.written.values().cloned().collect();
        assert!(sets_of(&batches) == sets_of(&one_process(&self.packets)), "other events");
        assert_eq!(self.log.committed(0).len(), batches.len());
    }
}

/// A log in which a new owner finds changed checkpoints, or whose run begins later.
struct Changed<F> {
    log: MemoryLog,
    change: F,
    beginning: u64,
    /// No checkpoint can be saved.
    refuses: bool,
}

impl<F: FnMut(usize, &mut Vec<u8>)> Log for Changed<F> {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn beginning(&self, _: u32) -> u64 {
        self.beginning
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        self.log.append(partition, bytes)
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.log.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        let mut claim = self.log.claim(partition, builder)?;
        for (number, checkpoint) in claim.checkpoints.iter_mut().enumerate() {
            let mut bytes = checkpoint.bytes.to_vec();
            (self.change)(number, &mut bytes);
            checkpoint.bytes = Arc::from(bytes);
        }
        Ok(claim)
    }

    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError> {
        self.log.commit_all(claim, batches)
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        match self.refuses {
            true => Err(LogError::Away("too slow".to_owned())),
            false => self.log.save(claim, checkpoint),
        }
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.log.commits(partition)
    }
}

fn sealed(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let crc = crc_fast::crc32_iscsi(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn checkpoint_that_cannot_be_used_costs_no_event() {
    let seed = test_seed!(74);
    let older = format!("it has layout {}, and this program reads layout {VERSION}", VERSION + 1);
    // The spoilt checkpoints (of two, the newest first), and the reason in the note.
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [(usize, Spoil, &str); 5] = [
        (0, |_| {}, ""),
        (1, |bytes| bytes[60] ^= 4, "it is damaged"),
        (2, |bytes| bytes.truncate(bytes.len() / 2), "it is damaged"),
        (
            2,
            |bytes| {
                bytes[4] += 1;
                sealed(bytes);
            },
            &older,
        ),
        (
            2,
            |bytes| {
                bytes[8] += 1;
                sealed(bytes);
            },
            "it belongs to run 78",
        ),
    ];
    for (count, spoil, reason) in spoils {
        let run = Run::new(seed);
        let mut files = Files::default();
        run.work(&mut files);
        let change = |number: usize, bytes: &mut Vec<u8>| {
            if number < count {
                spoil(bytes);
            }
        };
        if let Some(needed) = run.log.checkpoints(0).get(count) {
            run.log.forget_before(0, needed.offset);
        }
        let log = run.log.clone();
        let mut log = Changed { log, change, beginning: 0, refuses: false };
        let worker = run.finish(&mut log, &mut files).expect("finished");
        assert_eq!(worker.notes().len(), count, "{:?}", worker.notes());
        assert!(worker.notes().iter().all(|note| note.contains(reason)), "{:?}", worker.notes());
        run.assert_whole(&files);
    }
}

#[test]
fn records_and_checkpoints_that_are_both_gone_are_named() {
    let run = Run::new(test_seed!(75));
    run.work(&mut Files::default());
    run.log.forget_before(0, run.log.checkpoints(0)[1].offset);
    let change = |_: usize, bytes: &mut Vec<u8>| bytes.clear();
    let mut log = Changed { log: run.log.clone(), change, beginning: 0, refuses: false };
    let said = run.finish(&mut log, &mut Files::default()).err().expect("a hole").to_string();
    assert!(said.contains("are gone") && said.contains("retention.ms"), "{said}");
}

#[test]
fn checkpoints_of_other_runs_and_experiments_are_left_alone() {
    let run = Run::new(test_seed!(80));
    run.work(&mut Files::default());
    let (beginning, log) = (run.log.end(0), run.log.clone());
    let mut changed = Changed { log, change: |_, _: &mut Vec<u8>| {}, beginning, refuses: false };
    let worker = Worker::claim(&mut changed, &run.plan, 0, "next").expect("claimed");
    assert_eq!((worker.partition().next_offset(), worker.partition().next_batch()), (beginning, 0));
    let reason = "an earlier run with the same number wrote it";
    assert!(worker.notes().iter().all(|note| note.contains(reason)), "{:?}", worker.notes());

    let other = BuilderConfig { lateness: Span::from_ms(11), ..run.plan.builder.clone() };
    let bytes = &run.log.checkpoints(0)[0].bytes;
    let refused = Checkpoint::restore(RUN, 3, &run.plan.builder, bytes).err();
    assert_eq!(refused, Some(Refused::State(fluxline_cluster::Unresumed::Experiment)));
    let plan = RunPlan { builder: other, ..run.plan.clone() };
    let worker = Worker::claim(&mut run.log.clone(), &plan, 0, "other").expect("claimed");
    assert_eq!(worker.partition().next_offset(), 0);
    let reason = "the experiment has other [events]";
    assert!(worker.notes()[0].contains(reason), "{:?}", worker.notes());
}

#[test]
fn builders_get_on_when_no_checkpoint_can_be_saved() {
    let run = Run::new(test_seed!(95));
    let (log, mut files) = (run.log.clone(), Files::default());
    let mut log = Changed { log, change: |_, _: &mut Vec<u8>| {}, beginning: 0, refuses: true };
    let (mut failed, mut notes) = (0, Vec::new());
    for claims in 1.. {
        assert!(claims < 20, "the builder claims the partition again and again: {notes:#?}");
        let worker = Worker::claim(&mut log, &run.plan, 0, "builder").expect("claimed");
        let mut worker = worker.with_checkpoints(OFTEN).after_failed_saves(failed);
        let error = loop {
            match worker.step(&mut log, &mut files) {
                Ok(Step::Worked) => {}
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        failed = worker.failed_saves();
        notes.extend_from_slice(worker.notes());
        let Some(error) = error else { break };
        assert!(matches!(error, WorkError::Log(LogError::Away(_))), "{error}");
    }
    assert!(notes.len() > 1, "{notes:?}");
    let words = "MB was not saved: the log cannot be reached (too slow)";
    assert!(notes.iter().all(|note| note.contains(words)), "{notes:#?}");
    run.assert_whole(&files);
}

/// Bytes of strangers are refused, or give a builder that works on without a panic.
#[test]
fn spoilt_checkpoint_panics_nobody() {
    let run = Run::new(test_seed!(78));
    run.work(&mut Files::default());
    let bytes = &run.log.checkpoints(0)[0].bytes;
    let restore = |bytes: &[u8]| Checkpoint::restore(RUN, 2, &config(), bytes);
    let mut draw = Draw::new(78);
    let mut refused: BTreeMap<bool, u32> = BTreeMap::new();
    for _ in 0..600 {
        let mut changed = bytes.to_vec();
        for _ in 0..=draw.below(3) {
            let at = 48 + draw.below(changed.len() as u64 - 48) as usize;
            changed[at] = changed[at].wrapping_add(1 + draw.below(255) as u8);
        }
        sealed(&mut changed);
        let found = restore(&changed);
        *refused.entry(found.is_err()).or_default() += 1;
        if let Ok(builder) = found {
            let again = Checkpoint::of(&builder).expect("short");
            assert_eq!(Checkpoint::of(&restore(&again.bytes).expect("ours")), Some(again));
        }
    }
    assert!(refused.get(&true) > Some(&60), "refused or not: {refused:?}");
}
