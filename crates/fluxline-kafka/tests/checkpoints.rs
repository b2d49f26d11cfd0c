//! Checkpoints: a builder that was restored makes the batches of one that was never interrupted,
//! without the records before; and a checkpoint that cannot be used costs time, never an event.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{BuilderConfig, Expectation, Late, Mode, Scope, WindowClock};
use fluxline_kafka::build::checkpoint::VERSION;
use fluxline_kafka::build::{
    BuiltSource, CheckpointPolicy, Claim, Log, LogError, MemoryLog, NodeConfig, Output,
    OutputBatch, PartitionBuilder, ReadoutNode, Refused, RunFolders, RunPlan, Step, WorkError,
    Worker,
};
use fluxline_kafka::gather::gather;
use support::world::{
    MS, Packet, RUN, Weather, config, datagram, description, events_of, one_process, packets,
};
use support::wrapped_log::{Faults, WrappedLog};

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
    let node = |node, start| {
        let config = NodeConfig {
            run: RUN,
            node,
            start,
            mode,
            record_bytes: 2048,
            record_age: Span::from_ms(4),
            memory_bytes: 1 << 30,
        };
        ReadoutNode::new(config, vec![("boards".to_owned(), description())], log.partitions())
    };
    let mut nodes = [node(0, 0), node(1, 0)];
    for (number, packet) in packets.iter().enumerate() {
        let now = Moment::from_ns(packet.at);
        if Some(number) == dies_at {
            nodes[1] = node(1, 1);
        }
        nodes[usize::from(packet.board % 2)].take(0, now, &datagram(packet));
        for node in &mut nodes {
            node.poll(now);
            node.hand_over(&mut log.clone()).expect("a log in memory");
        }
    }
    let end = Moment::from_ns(packets.last().expect("some").at + MS);
    for node in &mut nodes {
        node.finish(end);
        node.hand_over(&mut log.clone()).expect("a log in memory");
    }
}

fn restored(builder: &PartitionBuilder, config: &BuilderConfig) -> PartitionBuilder {
    let saved = builder.save().expect("a short state");
    let new = PartitionBuilder::restore(RUN, 2, config, &saved.bytes).expect("our own state");
    assert_eq!(new.save().as_ref(), Some(&saved), "state is forgotten");
    assert_eq!((saved.batch, saved.offset), (new.next_batch(), new.needed_offset()));
    new
}

#[test]
fn builder_that_was_restored_at_any_record_makes_another_batch() {
    let seed = test_seed!(61);
    let (mut batches, mut restores) = (0, 0);
    for round in 0..test_count!(24) {
        let mut draw = Draw::new(seed + round);
        let boards = 4 + draw.below(4) as u16;
        let weather = Weather { boards, keys: 150, loss: 0.02, lives: true };
        let packets = packets(&mut draw, weather);
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
            disturbed = restored(&disturbed, &config);
            assert_eq!(calm.counts(), disturbed.counts());
            assert_eq!(calm.sources(), disturbed.sources());
            assert_eq!(calm.builder().summary(), disturbed.builder().summary());
            assert!(calm.is_ended() && disturbed.is_ended());
        }
    }
    assert!(batches > 200 && restores > 500, "{batches} batches, {restores} restores");
}

/// Keeps batches by number.
#[derive(Default)]
struct Files(BTreeMap<u64, OutputBatch>);

impl Output for Files {
    fn write(
        &mut self,
        _partition: u32,
        _sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        let before = self.0.insert(batch.number, batch.clone());
        assert!(before.is_none_or(|before| before == *batch), "two batches of one number");
        Ok(())
    }
}

/// A run of one partition in a log.
struct Run {
    log: MemoryLog,
    plan: RunPlan,
    packets: Vec<Packet>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut draw = Draw::new(seed);
        let weather = Weather { boards: 6, keys: 400, loss: 0.01, lives: true };
        let packets = packets(&mut draw, weather);
        let (log, builder) = (MemoryLog::new(1), config());
        read_out(&packets, builder.mode, &log, None);
        let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes: 2, partitions: 1, builder };
        Run { log, plan, packets }
    }

    /// Lets a builder work until this many checkpoints were saved.
    fn work(&self, log: &mut impl Log, files: &mut impl Output, checkpoints: usize) -> Worker {
        let claimed = Worker::claim(log, &self.plan, 0, "first").expect("claimed");
        let mut worker = claimed.with_checkpoints(OFTEN);
        let mut offsets = BTreeSet::new();
        while offsets.len() < checkpoints {
            assert_eq!(worker.step(log, files), Ok(Step::Worked), "the run is too short");
            offsets.extend(self.log.checkpoints(0).first().map(|its| its.offset));
        }
        worker
    }

    fn finish(&self, log: &mut impl Log, files: &mut impl Output) -> Result<Worker, WorkError> {
        let mut worker = Worker::claim(log, &self.plan, 0, "second")?.with_checkpoints(OFTEN);
        while worker.step(log, files)? == Step::Worked {}
        assert!(worker.partition().is_ended());
        Ok(worker)
    }

    /// Returns the batches of a builder that was never interrupted.
    fn calm(&self) -> BTreeMap<u64, OutputBatch> {
        let mut builder = PartitionBuilder::new(RUN, 2, self.plan.builder.clone());
        let mut batches = BTreeMap::new();
        while let Some(record) = self.log.clone().read(0, builder.next_offset()).expect("records") {
            let batch = builder.take(record.offset, &record.bytes);
            batches.extend(batch.into_iter().map(|batch| (batch.number, batch)));
        }
        batches
    }
}

#[test]
fn takeover_needs_records_before_the_checkpoint() {
    let run = Run::new(test_seed!(71));
    let calm = run.calm();
    let (mut log, mut files) = (run.log.clone(), Files::default());
    run.work(&mut log, &mut files, 5);
    let checkpoints = run.log.checkpoints(0);
    assert_eq!(checkpoints.len(), 2, "the newest two are kept");
    assert!(checkpoints[0].offset > checkpoints[1].offset);
    // Retention removes everything before.
    run.log.forget_before(0, checkpoints[0].offset);
    let worker = run.finish(&mut log, &mut files).expect("the rest is there");
    assert_eq!(worker.notes(), [""; 0]);
    assert!(files.0 == calm, "the batches differ");
    let commits = log.commits(0).expect("commits");
    assert_eq!(commits.len(), calm.len());
    assert!((0..).zip(&commits).all(|(number, its)| its.batch == number));
    // After the end, a builder needs no record, and writes nothing.
    run.log.forget_before(0, run.log.end(0));
    let mut none = Files::default();
    run.finish(&mut log, &mut none).expect("over");
    assert!(none.0.is_empty());
}

#[test]
fn claim_reads_all_commits_of_a_long_run() {
    let run = Run::new(test_seed!(72));
    let (mut log, mut files) = (run.log.clone(), Files::default());
    run.work(&mut log, &mut files, 8);
    let claim = log.claim(0, "next").expect("claimed");
    let all = log.commits(0).expect("commits");
    let oldest = claim.checkpoints.last().expect("two").batch;
    assert_eq!(claim.committed, all[oldest as usize..]);
    assert!(claim.committed.len() < all.len() / 2, "{} of {}", claim.committed.len(), all.len());
}

#[test]
fn sources_are_missing_in_the_folder_of_a_builder_that_took_over() {
    let run = Run::new(test_seed!(73));
    let scratch = tempfile::tempdir().expect("a folder");
    let formats = || vec![("counter".to_owned(), String::new())];
    let mut log = run.log.clone();
    let mut first = RunFolders::new(scratch.path(), "first", RUN, formats());
    run.work(&mut log, &mut first, 3);
    drop(first);
    run.log.forget_before(0, run.log.checkpoints(0)[0].offset);
    let mut second = RunFolders::new(scratch.path(), "second", RUN, formats());
    run.finish(&mut log, &mut second).expect("finished");
    let into = scratch.path().join("0001");
    let commits = log.commits(0).expect("commits");
    let gathered = gather(scratch.path(), &commits, &into).expect("gathered");
    assert_eq!(gathered.batches, commits.len() as u64);
    let mut reader = fluxline_daq::record::RunReader::open(&into).expect("a run");
    let sources = reader.folder().sources().expect("lines").len();
    let boards: BTreeSet<u16> = run.packets.iter().map(|packet| packet.board).collect();
    assert_eq!(sources, boards.len(), "sources of the run");
    let mut packets = 0;
    while let Some(batch) = reader.next_batch().expect("readable") {
        let mut rows = fluxline_daq::event::EventBatch::default();
        batch.append_to(&mut rows).expect("rows");
        assert!(rows.packets.iter().all(|row| (row.source as usize) < sources));
        packets += rows.packets.len();
    }
    assert_eq!(packets, run.packets.len());
}

/// Changes of the checkpoints that a new owner finds.
struct Spoilt<F>(F);

impl<F: FnMut(usize, &mut Vec<u8>)> Faults for Spoilt<F> {
    fn of_claim(&mut self, claim: &mut Claim) {
        for (number, checkpoint) in claim.checkpoints.iter_mut().enumerate() {
            let mut bytes = checkpoint.bytes.to_vec();
            (self.0)(number, &mut bytes);
            checkpoint.bytes = Arc::from(bytes);
        }
    }
}

fn sealed(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let crc = crc_fast::crc32_iscsi(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn checkpoint_that_cannot_be_used_loses_events() {
    let seed = test_seed!(74);
    // The spoilt checkpoints (of two, the newest first), and the reason in the note.
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [(usize, Spoil, &str); 6] = [
        (1, |bytes| bytes[60] ^= 4, "it is damaged"),
        (1, |bytes| bytes.truncate(bytes.len() / 2), "it is damaged"),
        (1, Vec::clear, "it is damaged"),
        (2, |bytes| bytes[60] ^= 4, "it is damaged"),
        (
            2,
            |bytes| {
                bytes[4] += 1;
                sealed(bytes);
            },
            "it has layout 3, and this program reads layout 2",
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
        let calm = run.calm();
        let mut files = Files::default();
        run.work(&mut run.log.clone(), &mut files, 4);
        let spoil = |number: usize, bytes: &mut Vec<u8>| {
            if number < count {
                spoil(bytes);
            }
        };
        let older = run.log.checkpoints(0)[1].offset;
        if count == 1 {
            run.log.forget_before(0, older);
        }
        let mut log = WrappedLog { log: run.log.clone(), faults: Spoilt(spoil) };
        let worker = run.finish(&mut log, &mut files).expect("finished");
        assert_eq!(worker.notes().len(), count, "{:?}", worker.notes());
        assert!(worker.notes().iter().all(|note| note.contains(reason)), "{:?}", worker.notes());
        assert!(files.0 == calm, "{reason}: the batches differ");
        assert_eq!(run.log.committed(0).len(), calm.len());
    }
    assert_eq!(VERSION, 2, "the text above names the layout");
}

#[test]
fn records_and_checkpoints_that_are_both_gone_are_passed_over() {
    let run = Run::new(test_seed!(75));
    run.work(&mut run.log.clone(), &mut Files::default(), 3);
    run.log.forget_before(0, run.log.checkpoints(0)[1].offset);
    let faults = Spoilt(|_, bytes: &mut Vec<u8>| bytes.clear());
    let mut log = WrappedLog { log: run.log.clone(), faults };
    let said = run.finish(&mut log, &mut Files::default()).err().expect("a hole").to_string();
    assert!(said.contains("are gone") && said.contains("retention.ms"), "{said}");
}

/// A run that begins behind the records of another one.
struct BeginsAt(u64);

impl Faults for BeginsAt {
    fn beginning(&self) -> u64 {
        self.0
    }
}

#[test]
fn checkpoint_of_an_earlier_run_with_the_same_number_is_used_after_the_control_topic_was_lost() {
    let run = Run::new(test_seed!(80));
    run.work(&mut run.log.clone(), &mut Files::default(), 4);
    let beginning = run.log.end(0);
    let mut log = WrappedLog { log: run.log.clone(), faults: BeginsAt(beginning) };
    let worker = Worker::claim(&mut log, &run.plan, 0, "next").expect("claimed");
    assert_eq!((worker.partition().next_offset(), worker.partition().next_batch()), (beginning, 0));
    let notes = worker.notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    let reason = "an earlier run with the same number wrote it";
    assert!(notes.iter().all(|note| note.contains(reason)), "{notes:?}");
}

#[test]
fn builder_with_another_configuration_goes_on_from_a_checkpoint() {
    let run = Run::new(test_seed!(76));
    let mut files = Files::default();
    run.work(&mut run.log.clone(), &mut files, 3);
    let checkpoint = &run.log.checkpoints(0)[0];
    let other = BuilderConfig { lateness: Span::from_ms(11), ..run.plan.builder.clone() };
    let refused = PartitionBuilder::restore(RUN, 2, &other, &checkpoint.bytes).err();
    assert_eq!(refused, Some(Refused::Experiment));
    let refused = PartitionBuilder::restore(RUN, 3, &run.plan.builder, &checkpoint.bytes).err();
    assert_eq!(refused, Some(Refused::Experiment));
    let plan = RunPlan { builder: other, ..run.plan.clone() };
    let worker = Worker::claim(&mut run.log.clone(), &plan, 0, "other").expect("claimed");
    assert_eq!(worker.partition().next_offset(), 0);
    assert!(
        worker.notes()[0].contains("the experiment has other [events]"),
        "{:?}",
        worker.notes()
    );
}

#[test]
fn builder_that_was_replaced_saves_a_checkpoint() {
    let run = Run::new(test_seed!(77));
    let mut log = run.log.clone();
    let old = log.claim(0, "old").expect("claimed");
    let new = log.claim(0, "new").expect("claimed");
    let state = PartitionBuilder::new(RUN, 2, config()).save().expect("short");
    assert_eq!(log.save(&old, &state), Err(LogError::Fenced { partition: 0 }));
    assert!(run.log.checkpoints(0).is_empty());
    assert_eq!(log.save(&new, &state), Ok(()));
    assert_eq!(run.log.checkpoints(0).len(), 1);
}

/// Bytes of strangers are refused, or give a builder that works on without a panic.
#[test]
fn spoilt_checkpoint_panics() {
    let seed = test_seed!(78);
    let run = Run::new(seed);
    run.work(&mut run.log.clone(), &mut Files::default(), 4);
    let bytes = &run.log.checkpoints(0)[0].bytes;
    let mut draw = Draw::new(seed);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..2000 {
        let mut changed = bytes.to_vec();
        for _ in 0..=draw.below(3) {
            let at = 48 + draw.below(changed.len() as u64 - 48) as usize;
            changed[at] = changed[at].wrapping_add(draw.bits() as u8);
        }
        if changed[..] == bytes[..] {
            continue;
        }
        assert_eq!(restore(&changed).err(), Some(Refused::Damaged));
        sealed(&mut changed);
        match restore(&changed) {
            Ok(builder) => {
                let again = builder.save().expect("short");
                assert_eq!(restore(&again.bytes).expect("ours").save(), Some(again));
                taken += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 200, "{refused} refused, {taken} taken");
}

fn restore(bytes: &[u8]) -> Result<PartitionBuilder, Refused> {
    PartitionBuilder::restore(RUN, 2, &config(), bytes)
}

/// The derives cover a new field by themselves, unless somebody excludes it.
#[test]
fn field_is_excluded_from_the_saved_state() {
    let build = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/build");
    let text = std::fs::read_to_string(build.join("partition.rs")).expect("a source file");
    assert!(text.contains("Deserialize)]") && !text.contains("serde(skip"));
}

/// Returns the names of all fields of the state, as a document has them.
fn names(value: &serde_json::Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let path = match name.parse::<u64>() {
                    Ok(_) => path.to_owned(), // the key of a table
                    Err(_) => format!("{path}.{name}"),
                };
                names.insert(path.clone());
                self::names(value, &path, names);
            }
        }
        serde_json::Value::Array(list) => {
            list.iter().for_each(|value| self::names(value, path, names))
        }
        _ => {}
    }
}

/// A type of the state that changes needs another layout number: else a builder of another version
/// would read the fields of one as those of another.
#[test]
fn layout_changes_without_a_new_version() {
    let mut draw = Draw::new(1);
    let weather = Weather { boards: 6, keys: 300, loss: 0.05, lives: true };
    let packets = packets(&mut draw, weather);
    let log = MemoryLog::new(1);
    read_out(&packets, config().mode, &log, Some(packets.len() / 2));
    let mut builder = PartitionBuilder::new(RUN, 2, config());
    let mut found = BTreeSet::new();
    for offset in 0..log.end(0) {
        let record = log.clone().read(0, offset).expect("a log").expect("a record");
        let _ = builder.take(record.offset, &record.bytes);
        let document = serde_json::to_value(&builder).expect("plain data");
        names(&document, "", &mut found);
    }
    let found: String = found.iter().map(|name| format!("{name}\n")).collect();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint-layout.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("layout {VERSION}\n{found}")).expect("written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == format!("layout {VERSION}\n{found}"),
        "the saved state changed: raise VERSION in build/refused.rs if a program with the old \
         layout was in use, and run this test with UPDATE=1. Found:\n{found}"
    );
}

#[test]
fn events_of_builders_that_take_over_differ_from_one_process() {
    let seed = test_seed!(79);
    let run = Run::new(seed);
    let (mut log, mut files) = (run.log.clone(), Files::default());
    let mut draw = Draw::new(seed);
    let mut lives = 0;
    loop {
        let claimed = Worker::claim(&mut log, &run.plan, 0, "next").expect("claimed");
        let mut worker = claimed.with_checkpoints(OFTEN);
        lives += 1;
        let life = draw.below(40);
        let steps = (0..life).map(|_| worker.step(&mut log, &mut files).expect("it works"));
        if steps.filter(|step| *step == Step::Over).count() > 0 {
            break;
        }
        // Records before the older checkpoint are removed at once.
        if let Some(older) = run.log.checkpoints(0).get(1) {
            run.log.forget_before(0, older.offset);
        }
        assert!(lives < 10_000, "the run does not end");
    }
    assert!(lives > 5, "{lives} lives are a weak test");
    let batches: Vec<_> = files.0.into_values().map(|batch| batch.events).collect();
    let stored: usize = batches.iter().map(|batch| batch.packets.len()).sum();
    assert_eq!(stored, run.packets.len(), "a packet is lost or doubled");
    let keys = |events: Vec<support::world::Event>| -> BTreeSet<(u32, u64)> {
        events.iter().map(|event| (event.generation, event.key)).collect()
    };
    assert_eq!(keys(events_of(&batches)), keys(events_of(&one_process(&run.packets))));
}
