//! Events in a topic on a real broker: foreign and hostile records lie in every topic, and runs are
//! gathered from the topic and from folders, or refused by name.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{Integrity, RunReader};
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::log::hand_over;
use fluxline_kafka::build::{
    Log, LogError, Outputs, Ready, RunFolders, RunPlan, Step, TopicConfig, TopicOutput, WorkError,
    Worker,
};
use fluxline_kafka::gather::committed::{Committed, committed_from};
use fluxline_kafka::gather::folders::gather_folders;
use fluxline_kafka::gather::topic::gather_topic;
use fluxline_kafka::gather::{GatherError, Gathered};
use fluxline_kafka::settings::Settings;

use crate::support::broker::Broker;
use crate::support::world::{
    MS, RUN, Sent, Weather, assert_same, config, datagram, first_commit, one_process, packets,
    readout, sets_of,
};

const PARTITIONS: u32 = 2;

fn settings(address: &str) -> Settings {
    Settings { brokers: address.to_owned(), ..Settings::default() }
}

fn plan() -> RunPlan {
    let builder = BuilderConfig { batch_age: Span::from_ms(100), ..config() };
    let name = "lab".to_owned();
    RunPlan { run: RUN, name, nodes: 1, partitions: PARTITIONS, builder }
}

fn topics(broker: &Broker, cluster: &str) {
    for topic in ["fragments", "commits", "checkpoints", "events"] {
        broker.create_topic(&format!("{cluster}.{topic}"), PARTITIONS, &[]);
    }
}

/// Reads all packets out.
fn read_out(log: &mut KafkaLog, sent: &Sent) {
    let mut readout = readout(0, 0, PARTITIONS);
    for packet in &sent.packets {
        assert!(readout.take(0, Moment::from_ns(packet.at), &datagram(packet)));
    }
    readout.finish(Moment::from_ns(sent.packets.last().expect("some").at + MS));
    let began = Instant::now();
    while let Err(error) = hand_over(&mut readout, log) {
        assert!(began.elapsed() < Duration::from_secs(120), "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
    log.flush(Duration::from_secs(120)).expect("the broker is there");
}

fn outputs(folder: Option<&Path>, builder: &str, record_bytes: usize) -> Outputs {
    let formats = vec![("counter".to_owned(), "name = \"counter\"\n".to_owned())];
    let experiment = serde_json::json!({ "name": "lab" });
    let files = folder.map(|folder| {
        RunFolders::new(folder, builder, RUN, formats.clone())
            .of_experiment("lab", experiment.clone())
    });
    let name = "lab".to_owned();
    let topic = TopicOutput::new(TopicConfig {
        run: RUN,
        name,
        formats,
        experiment,
        record_bytes,
        ..TopicConfig::default()
    });
    Outputs { files, topic: Some(topic), sink: None }
}

/// Builds one partition to its end.
fn build(
    log: &mut KafkaLog,
    partition: u32,
    outputs: &mut Outputs,
    name: &str,
) -> Result<(), WorkError> {
    let mut worker = Worker::claim(log, &plan(), partition, name)?;
    while worker.step(log, outputs)? != Step::Over {}
    Ok(())
}

fn batches_of(run: &Path) -> Vec<EventBatch> {
    let mut reader = RunReader::open(run).expect("a run");
    let mut batches = Vec::new();
    while let Some(recorded) = reader.next_batch().expect("readable") {
        let mut batch = EventBatch::default();
        recorded.append_to(&mut batch).expect("rows");
        batches.push(batch);
    }
    let found = Integrity::of(reader.folder(), reader.report());
    assert!(found.is_sound(), "{found:?}");
    batches
}

/// A run that was built into folders and the topic.
struct Built {
    settings: Settings,
    cluster: String,
    folders: PathBuf,
    sent: Sent,
}

impl Built {
    /// Builds a run of 300 events; `foreign` is called before.
    fn new(broker: &Broker, cluster: &str, scratch: &Path, record_bytes: usize) -> Built {
        let weather = Weather { boards: 4, keys: 300, loss: 0.0, lives: false };
        let sent = packets(&mut Draw::new(test_seed!(62)), weather);
        let settings = settings(&broker.address);
        let mut log = KafkaLog::open(&settings, cluster, RUN).expect("the topics");
        read_out(&mut log, &sent);
        let folders = scratch.join(format!("{cluster}-builders"));
        std::fs::create_dir(&folders).expect("a folder");
        let record_bytes = log.open_events(cluster, record_bytes).expect("the topic");
        for partition in 0..PARTITIONS {
            let mut outputs = outputs(Some(&folders), "builder-1", record_bytes);
            build(&mut log, partition, &mut outputs, "builder-1").expect("built");
        }
        Built { settings, cluster: cluster.to_owned(), folders, sent }
    }

    fn committed(&self) -> Result<Committed, GatherError> {
        committed_from(&self.settings, &self.cluster, RUN, &[0; PARTITIONS as usize])
    }

    fn gather_topic(&self, into: &Path) -> Result<Gathered, GatherError> {
        gather_topic(&self.settings, &self.cluster, &self.committed()?, into, &mut |_, _| {})
    }

    fn gather_folders(&self, into: &Path) -> Result<Gathered, GatherError> {
        let committed = self.committed()?;
        gather_folders(
            std::slice::from_ref(&self.folders),
            &committed.commits,
            into,
            &mut |_, _| {},
        )
    }
}

fn file_of(run: &Path, name: &str) -> Vec<u8> {
    std::fs::read(run.join(name)).expect(name)
}

/// Puts records of another program into a topic: garbage, our keys with garbage, and forged ones.
fn put_foreign(broker: &Broker, cluster: &str) {
    let huge = [b"FXL2".as_slice(), &[0xff; 4000]].concat();
    for partition in 0..PARTITIONS {
        let fragments = format!("{cluster}.fragments");
        broker.put(&fragments, partition, None, b"a record of another program");
        broker.put(&fragments, partition, None, &huge);
        let commits = format!("{cluster}.commits");
        broker.put(&commits, partition, None, b"not JSON \xff");
        let future = format!(
            "{{\"run\":{RUN},\"batch\":5000,\"covers\":9,\"crc\":1,\"events\":1,\"packets\":1,\
             \"builder\":\"x\"}}"
        );
        let key = format!("{RUN}/{partition}/5000");
        broker.put(&commits, partition, Some(&key), future.as_bytes());
        let events = format!("{cluster}.events");
        broker.put(&events, partition, None, &huge);
        broker.put(&events, partition, Some(&format!("{RUN}/{partition}-0/0")), &huge);
        broker.put(&events, partition, Some(&format!("{RUN}/{partition}-0/description-0")), b"{");
        broker.put(&events, partition, Some(&format!("{RUN}/{partition}-900/0")), b"");
    }
}

#[test]
#[ignore = "all: a broker"]
fn runs_are_gathered_from_topic_and_folders_despite_foreign_records() {
    let broker = Broker::shared();
    let scratch = tempfile::tempdir().expect("a folder");
    topics(&broker, "a");
    put_foreign(&broker, "a");
    let built = Built::new(&broker, "a", scratch.path(), 16 << 10);
    let (from_topic, from_folders) = (scratch.path().join("1"), scratch.path().join("2"));
    built.gather_topic(&from_topic).expect("gathered");
    built.gather_folders(&from_folders).expect("gathered");
    let one = sets_of(&one_process(&built.sent.packets));
    assert_same(&sets_of(&batches_of(&from_topic)), &one, "of the topic");
    assert_same(&sets_of(&batches_of(&from_folders)), &one, "of folders");
    let run: serde_json::Value =
        serde_json::from_slice(&file_of(&from_topic, "run.json")).expect("JSON");
    assert_eq!((&run["state"], &run["experiment"]["name"]), (&"finished".into(), &"lab".into()));
    let said = built.gather_topic(&from_topic).expect_err("it exists").to_string();
    assert!(said.contains("exists already"), "{said}");
    missing_and_forged(&broker, &built, scratch.path());
}

/// Missing batches and forged commits are named, and leave no run.
fn missing_and_forged(broker: &Broker, built: &Built, scratch: &Path) {
    let parts: Vec<_> = std::fs::read_dir(&built.folders).expect("folders").flatten().collect();
    let first = parts.iter().map(|part| part.path()).min().expect("a part");
    let moved = scratch.join("moved");
    std::fs::rename(&first, &moved).expect("moved");
    let into = scratch.join("3");
    let said = built.gather_folders(&into).expect_err("a folder is missing").to_string();
    let expected = "batch 0 of partition 0, which builder-1 committed, is missing in";
    assert!(said.starts_with(expected) && said.contains("copy the folders"), "{said}");
    assert!(!into.exists() && !scratch.join("3.gathering").exists());
    std::fs::rename(&moved, &first).expect("moved back");

    broker.delete_records("a.events", 0, 12);
    let said = built.gather_topic(&into).expect_err("records are gone").to_string();
    assert!(said.contains("is missing in topic `a.events`; raise retention.ms"), "{said}");
    assert!(!into.exists());

    let forged = format!(
        "{{\"run\":{RUN},\"batch\":0,\"covers\":9,\"crc\":1,\"events\":1,\"packets\":1,\
         \"builder\":\"x\"}}"
    );
    broker.put("a.commits", 1, Some(&format!("{RUN}/1/0")), forged.as_bytes());
    let said = built.gather_folders(&into).expect_err("two commits").to_string();
    let expected = "partition 1: the log has two different commits of batch 0: another program \
                    writes to the topic of commits; let only builders write to it, and start a \
                    new run";
    assert_eq!(said, expected);

    broker.delete_records("a.commits", 0, 3);
    let said = built.committed().expect_err("commits are gone").to_string();
    assert!(said.contains("nobody knows which batches the run has"), "{said}");
}

#[test]
#[ignore = "all: a broker"]
fn large_events_forged_commits_fenced_builders_and_changed_partitions_are_named() {
    let broker = Broker::shared();
    let scratch = tempfile::tempdir().expect("a folder");
    // Records of at most 1 KiB: events of several packets do not fit.
    topics(&broker, "b");
    let built = Built::new(&broker, "b", scratch.path(), 3400);
    let into = scratch.path().join("1");
    let gathered = built.gather_topic(&into).expect("gathered");
    assert_eq!(gathered.events + gathered.refused, 300, "{gathered:?}");
    let run: serde_json::Value = serde_json::from_slice(&file_of(&into, "run.json")).expect("JSON");
    assert_eq!(run["status"], if gathered.refused > 0 { 7 } else { 0 }, "{gathered:?}");

    // A forged commit of the next batch: the builder does not make it, and says so.
    topics(&broker, "c");
    let forged = format!(
        "{{\"run\":{RUN},\"batch\":0,\"covers\":1,\"crc\":1,\"events\":1,\"packets\":1,\
         \"builder\":\"x\"}}"
    );
    broker.put("c.commits", 0, Some(&format!("{RUN}/0/0")), forged.as_bytes());
    let mut log = KafkaLog::open(&built.settings, "c", RUN).expect("the topics");
    read_out(&mut log, &built.sent);
    let bytes = log.open_events("c", 65536).expect("the topic");
    let mut to = outputs(None, "builder-1", bytes);
    let said = build(&mut log, 0, &mut to, "builder-1").expect_err("forged").to_string();
    assert!(said.contains("partition 0: batch 0 differs from the committed one"), "{said}");
    assert!(said.contains("or another program wrote to the topic of commits"), "{said}");

    // Two builders of one partition: the older one is fenced, and its records stay invisible.
    let mut older = KafkaLog::open(&built.settings, "c", RUN).expect("the topics");
    let claim = older.claim(1, "older").expect("claimed");
    log.claim(1, "newer").expect("claimed");
    assert!(claim.committed.is_empty());
    let said = build_with(&mut older, &claim).to_string();
    assert_eq!(said, "partition 1 belongs to another builder now; this one stops writing it");

    broker.delete_records("c.fragments", 1, 3);
    let said = build(&mut log, 1, &mut to, "builder-1").expect_err("a hole").to_string();
    assert!(said.contains("the records before offset 3 are gone, by the topic's retention"));

    broker.add_partitions("c.commits", PARTITIONS + 1);
    let said = KafkaLog::open(&built.settings, "c", RUN).err().expect("changed").to_string();
    assert!(said.contains("changed from 2 to 3 during run 77: keys would change"), "{said}");
    assert!(said.contains("`fluxline ctl … abandon 77` ends the run"), "{said}");
    let said = KafkaLog::open(&built.settings, "nothing", RUN).err().expect("none").to_string();
    assert!(said.contains("topic `nothing.fragments` does not exist"), "{said}");
    broker.create_topic("d.fragments", 1, &["min.insync.replicas=2"]);
    let said = KafkaLog::open(&built.settings, "d", RUN).err().expect("too few").to_string();
    assert!(said.contains("topic `d.fragments` has 1 replicas"), "{said}");
    let nobody = settings("127.0.0.1:1");
    let said = KafkaLog::open(&nobody, "d", RUN).err().expect("nobody").to_string();
    assert!(said.starts_with("no Kafka broker answers at 127.0.0.1:1 ("), "{said}");
}

/// Commits a batch by a claim that has ended.
fn build_with(log: &mut KafkaLog, claim: &fluxline_kafka::build::Claim) -> LogError {
    let mut commit = first_commit("older");
    commit.partition = claim.partition;
    log.commit_all(claim, &[Ready { commit, records: Vec::new() }]).expect_err("it is fenced")
}
