//! Builders and nodes on a real broker: a takeover from a checkpoint, brokers that refuse, topics
//! that somebody made by hand, and nodes in a program.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluxline_cluster::ReadoutNode;
use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::Cluster;
use fluxline_kafka::TopicError;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::log::hand_over;
use fluxline_kafka::build::{CheckpointPolicy, Log, LogError, RunPlan, Step, Worker};
use fluxline_kafka::cluster::topics;
use fluxline_kafka::settings::Settings;
use fluxline_kafka::ship::{ShipError, ship};
use serde_json::json;

use crate::support::broker::Broker;
use crate::support::cluster::Files;
use crate::support::runs::{record, to_topic};
use crate::support::world::{MS, RUN, Weather, config, datagram, packets, readout, sets_of};

/// Longest wait for anything; a busy machine is slow.
const WITHIN: Duration = Duration::from_secs(240);

/// Hands all records over; the client takes more of them when the broker has the ones before.
fn hand_over_all(node: &mut ReadoutNode, log: &mut KafkaLog) {
    let began = Instant::now();
    while let Err(error) = hand_over(node, log) {
        assert!(began.elapsed() < WITHIN, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "all: a broker"]
fn takeover_goes_on_from_a_checkpoint_without_the_records_before() {
    let weather = Weather { boards: 6, keys: 6000, loss: 0.01, lives: true };
    let packets = packets(&mut Draw::new(test_seed!(23)), weather).packets;
    let broker = Broker::shared();
    for topic in ["lab.fragments", "lab.commits"] {
        broker.create_topic(topic, 1, &[]);
    }
    broker.create_topic("lab.checkpoints", 1, &["cleanup.policy=compact"]);
    let settings = Settings { brokers: broker.address.clone(), ..Settings::default() };
    // Events wait for the board that dies, so that the state is longer than a record may be.
    let builder = BuilderConfig {
        time_out: Span::from_ms(60_000),
        batch_bytes: 64 << 10,
        batch_age: Span::from_ms(300),
        ..config()
    };
    let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes: 1, partitions: 1, builder };
    let open = || KafkaLog::open(&settings, "lab", RUN).expect("the topics are there");
    let (mut log, mut node) = (open(), readout(0, 0, 1));
    for packet in &packets {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
    }
    hand_over_all(&mut node, &mut log);
    let read = node.counts().records;
    let mut files = Files::default();
    let policy = CheckpointPolicy { bytes: 1 << 40, times_its_size: 0, age: Span::from_ms(500) };
    let mut finish = |worker: Worker, log: &mut KafkaLog, until: u64| {
        let (mut worker, began) = (worker.with_checkpoints(policy), Instant::now());
        while worker.partition().next_offset() < until && !worker.is_over() {
            worker.step(log, &mut files).expect("the records are there");
            assert!(began.elapsed() < WITHIN, "the builder does not go on");
        }
    };
    finish(Worker::claim(&mut log, &plan, 0, "first").expect("claimed"), &mut log, read);
    let found = open().claim(0, "nobody").expect("claimed").checkpoints;
    let (newest, older) = (&found[0], &found[1]);
    assert!(newest.offset > older.offset && newest.offset <= read);
    assert!(newest.bytes.len() > 2_000_000, "{} bytes are in one piece", newest.bytes.len());
    broker.delete_records("lab.fragments", 0, newest.offset);

    node.finish(Moment::from_ns(packets.last().expect("some").at + MS));
    let mut log = open();
    hand_over_all(&mut node, &mut log);
    let worker = Worker::claim(&mut log, &plan, 0, "second").expect("claimed");
    assert_eq!(worker.notes(), [""; 0]);
    assert_eq!(worker.partition().next_offset(), newest.offset);
    finish(worker, &mut log, u64::MAX);
    assert_eq!(log.commits(0).expect("commits").len(), files.written.len());
    let batches: Vec<EventBatch> = files.written.values().cloned().collect();
    let stored: usize = sets_of(&batches).values().map(|set| set.len()).sum();
    assert_eq!(stored, packets.len(), "a packet is lost or doubled");

    // Behind the end, no record is needed.
    broker.delete_records("lab.fragments", 0, broker.end("lab.fragments", 0));
    let mut worker = Worker::claim(&mut open(), &plan, 0, "third").expect("claimed");
    assert_eq!(worker.step(&mut open(), &mut files), Ok(Step::Over));
}

const RIGHTS: &str = "allow.everyone.if.no.acl.found=true\nauthorizer.class.name=\
                      org.apache.kafka.metadata.authorizer.StandardAuthorizer\n";

/// The sentence of a shipment that the brokers refuse.
fn refusal(error: ShipError) -> String {
    assert!(matches!(&error, ShipError::Topic(TopicError::Transactions(_))), "{error:?}");
    error.to_string()
}

#[test]
#[ignore = "all: a broker"]
fn missing_right_is_named() {
    let broker = Broker::start_with_settings(RIGHTS);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    record(&run, 100, "");
    let prefixed = ["--resource-pattern-type", "prefixed", "--transactional-id"];
    let names = |start: &'static str| [&prefixed[..], &[start]].concat();
    broker.create_topic("named", 1, &[]);
    broker.allow_only(&["Describe"], &names("fluxline-ship-named-"));
    let said = ship(&to_topic(&run, &broker.address, "named")).map_err(refusal);
    let said = said.expect_err("the name is denied");
    assert!(said.contains("names that begin with `fluxline-`"), "{said}");
    for topic in ["fragments", "commits", "checkpoints"] {
        broker.create_topic(&format!("one.{topic}"), 1, &[]);
    }
    broker.allow_only(&["Describe"], &names("fluxline-one.commits-"));
    let settings = Settings { brokers: broker.address.clone(), options: BTreeMap::new() };
    let mut log = KafkaLog::open(&settings, "one", 1).expect("opened");
    let error = log.claim(0, "b").expect_err("the name is denied");
    assert!(matches!(error, LogError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("names that begin with `fluxline-`"), "{error}");
}

fn named(settings: &Settings, name: &str) -> Cluster {
    serde_json::from_value(json!({
        "brokers": settings.brokers, "name": name, "partitions": 1, "replicas": 1,
    }))
    .expect("a cluster")
}

#[test]
#[ignore = "all: a broker"]
fn topics_made_by_hand_with_other_options_are_refused_with_the_remedy() {
    let broker = Broker::shared();
    let settings = Settings { brokers: broker.address.clone(), ..Settings::default() };
    let week = "retention.ms=604800000";
    let cases: [(&str, &[&str], &str, &str); 3] = [
        ("control", &[], week, "retention.ms=-1,message.timestamp.type=LogAppendTime`"),
        (
            "fragments",
            &["cleanup.policy=compact"],
            "has cleanup.policy=compact, and",
            "--add-config cleanup.policy=delete`",
        ),
        (
            "ledger",
            &["message.timestamp.type=LogAppendTime"],
            "has cleanup.policy=delete, and",
            "--add-config cleanup.policy=compact`",
        ),
    ];
    for (name, (topic, options, found, needed)) in cases.into_iter().enumerate() {
        let cluster = named(&settings, &name.to_string());
        broker.create_topic(&cluster.topic(topic), 1, options);
        let said = topics::prepare(&settings, &cluster).expect_err("refused").to_string();
        assert!(said.contains(found) && said.contains(needed), "{topic} {options:?}: {said}");
    }
    let cluster = named(&settings, "own");
    let (_, made) = topics::prepare(&settings, &cluster).expect("they are made");
    assert!(!made.is_empty());
    let (partitions, made) = topics::prepare(&settings, &cluster).expect("they fit");
    assert_eq!((partitions, made.len()), (1, 0), "{made:?}");
}
