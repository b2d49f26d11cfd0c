//! One ledger over all nodes on a real broker: blocks and commits of others, a broker that is away,
//! a run of the past.
#![cfg(feature = "client")]

mod support;

use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{Expectation, Mode, Scope};
use fluxline_daq::experiment::Cluster;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{
    BuiltSource, NodeConfig, Output, OutputBatch, ReadoutNode, RunPlan, Step, Worker,
};
use fluxline_kafka::cluster::block::BLOCK_VERSION;
use fluxline_kafka::cluster::control_log::ControlLog;
use fluxline_kafka::cluster::record::{Begin, ControlRecord, Join};
use fluxline_kafka::cluster::topics;
use fluxline_kafka::cluster::{
    BuilderBlock, ClusterVerdict, LedgerError, LedgerReader, LedgerWriter, Life, NodeBlock,
    NodeState, PartitionBlock, ReadoutBlock, Role,
};
use fluxline_kafka::settings::Settings;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::json;
use support::broker::Broker;
use support::world::{MS, Packet, Weather, config, datagram, description, packets};

const PARTITIONS: u32 = 2;
const WITHIN: Duration = Duration::from_secs(60);

struct Nowhere;

impl Output for Nowhere {
    fn write(&mut self, _: u32, _: &[BuiltSource], _: &OutputBatch) -> Result<(), String> {
        Ok(())
    }
}

fn block(run: u64, node: &str, state: NodeState) -> NodeBlock {
    NodeBlock {
        version: BLOCK_VERSION,
        cluster: "lab".to_owned(),
        run,
        node: node.to_owned(),
        id: "a".to_owned(),
        incarnation: 1,
        host: "here".to_owned(),
        pid: std::process::id(),
        state,
        ..NodeBlock::default()
    }
}

/// Reads out all packets as one node, and publishes its blocks: some on the way, and the last one.
fn read_out(settings: &Settings, run: u64, packets: &[Packet]) {
    let config = NodeConfig {
        run,
        node: 0,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 16 << 10,
        record_age: Span::from_ms(20),
        memory_bytes: 64 << 20,
    };
    let mut log = KafkaLog::open(settings, "lab", run).expect("the topics");
    let mut writer = LedgerWriter::open(settings, "lab").expect("the topic");
    let inputs = vec![("boards".to_owned(), description())];
    let mut node = ReadoutNode::new(config, inputs, PARTITIONS);
    let publish = |writer: &mut LedgerWriter, node: &ReadoutNode, sequence, state| {
        let readout = Some(ReadoutBlock::of(node, &Expectation::Joined));
        let block = NodeBlock { sequence, readout, ..block(run, "crate-a", state) };
        match state {
            NodeState::Ended => writer.finish(&block, WITHIN).expect("stored"),
            _ => drop(writer.publish(&block)),
        }
    };
    for (sequence, packet) in (0..).zip(packets) {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
        node.hand_over(&mut log).expect("handed over");
        if sequence % 100 == 0 {
            publish(&mut writer, &node, sequence / 100, NodeState::Running);
        }
    }
    node.finish(Moment::from_ns(packets.last().expect("some").at + MS));
    node.hand_over(&mut log).expect("handed over");
    log.flush(WITHIN).expect("acknowledged");
    publish(&mut writer, &node, packets.len() as u64, NodeState::Ended);
}

/// Builds all partitions of a run, and publishes the last block.
fn build(settings: &Settings, run: u64) {
    let mut log = KafkaLog::open(settings, "lab", run).expect("the topics");
    let mut writer = LedgerWriter::open(settings, "lab").expect("the topic");
    let plan =
        RunPlan { run, name: "x".to_owned(), nodes: 1, partitions: PARTITIONS, builder: config() };
    let mut partitions = Vec::new();
    for partition in 0..PARTITIONS {
        let mut worker = Worker::claim(&mut log, &plan, partition, "b1").expect("claimed");
        let limit = Instant::now() + WITHIN;
        while worker.step(&mut log, &mut Nowhere).expect("a step") != Step::Over {
            assert!(Instant::now() < limit, "partition {partition} does not end");
        }
        partitions.push(PartitionBlock::of(partition, worker.partition()));
    }
    let role = Role::Builder;
    let builder = Some(BuilderBlock { partitions });
    let block = NodeBlock { role, builder, ..block(run, "builder", NodeState::Ended) };
    writer.finish(&block, WITHIN).expect("stored");
}

fn send(settings: &Settings, topic: &str, key: &str, payload: &[u8]) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        .create()
        .expect("a producer");
    producer
        .send(BaseRecord::to(topic).key(key).payload(payload))
        .map_err(|of| of.0)
        .expect("sent");
    producer.flush(WITHIN).expect("acknowledged");
}

fn world(seed: u64) -> Vec<Packet> {
    let weather = Weather { boards: 4, keys: 300, loss: 0.01, lives: false };
    packets(&mut Draw::new(seed), weather)
}

fn cluster() -> (Broker, Settings) {
    let broker = Broker::start();
    let settings = Settings { brokers: broker.address.clone(), ..Settings::default() };
    topics::prepare(&settings, &named(&settings, "lab")).expect("the topics are made");
    (broker, settings)
}

fn named(settings: &Settings, name: &str) -> Cluster {
    serde_json::from_value(json!({
        "brokers": settings.brokers, "name": name, "partitions": PARTITIONS, "replicas": 1,
    }))
    .expect("a cluster")
}

#[test]
fn topics_made_by_hand_forget_commits_and_requests_by_the_brokers_defaults() {
    let broker = Broker::start();
    let settings = Settings { brokers: broker.address.clone(), ..Settings::default() };
    let week = "retention.ms=604800000";
    let cases: [(&str, u32, &[&str], &str, &str); 5] = [
        ("control", 1, &[], week, "retention.ms=-1,message.timestamp.type=LogAppendTime`"),
        ("commits", PARTITIONS, &[], week, "--entity-name 1.commits --add-config retention.ms=-1`"),
        (
            "commits",
            PARTITIONS,
            &["cleanup.policy=compact,delete", "retention.ms=-1"],
            "has cleanup.policy=compact,delete, and",
            "--add-config cleanup.policy=delete`",
        ),
        (
            "fragments",
            PARTITIONS,
            &["cleanup.policy=compact"],
            "has cleanup.policy=compact, and",
            "--add-config cleanup.policy=delete`",
        ),
        (
            "ledger",
            1,
            &["message.timestamp.type=LogAppendTime"],
            "has cleanup.policy=delete, and",
            "--add-config cleanup.policy=compact`",
        ),
    ];
    for (name, (topic, partitions, options, found, needed)) in cases.into_iter().enumerate() {
        let cluster = named(&settings, &name.to_string());
        broker.create_topic(&cluster.topic(topic), partitions, options);
        let said = topics::prepare(&settings, &cluster).expect_err("refused").to_string();
        assert!(said.contains(found) && said.contains(needed), "{topic} {options:?}: {said}");
    }
    let cluster = named(&settings, "own");
    let kept = ["retention.ms=-1", "message.timestamp.type=LogAppendTime"];
    let compacted = ["cleanup.policy=compact,delete"];
    broker.create_topic("own.control", 1, &kept);
    broker.create_topic("own.fragments", PARTITIONS, &["retention.ms=3600000"]);
    broker.create_topic("own.commits", PARTITIONS, &kept);
    broker.create_topic("own.ledger", 1, &[compacted[0], kept[1]]);
    broker.create_topic("own.checkpoints", PARTITIONS, &compacted);
    let (partitions, made) = topics::prepare(&settings, &cluster).expect("they fit");
    assert_eq!((partitions, made.len()), (PARTITIONS, 0), "{made:?}");
}

#[test]
fn ledger_of_each_run_closes_whatever_others_write_into_its_topics() {
    let seed = test_seed!(71);
    let (_broker, settings) = cluster();
    let none = LedgerReader::open(&settings, "lab", None, WITHIN).err().expect("no run yet");
    assert!(none.to_string().contains("has had no run"), "{none}");
    let runs = [world(seed), world(seed + 1)];
    for (run, packets) in (1..).zip(&runs) {
        read_out(&settings, run, packets);
        build(&settings, run);
    }
    for (key, payload) in [
        ("x", b"nonsense".to_vec()),
        ("x", vec![b'{'; 800_000]),
        ("x", block(1, "crate-a", NodeState::Ended).to_bytes()),
    ] {
        send(&settings, "lab.ledger", key, &payload);
    }
    send(&settings, "lab.commits", "x", b"{\"run\":1}");
    for (run, packets) in (1..).zip(&runs) {
        let mut reader = LedgerReader::open(&settings, "lab", Some(run), WITHIN).expect("a ledger");
        let ledger = reader.ledger();
        assert_eq!(ledger.verdict(), ClusterVerdict::Complete, "{}", ledger.table());
        assert_eq!(ledger.received(), packets.len() as u64, "{}", ledger.table());
        assert_eq!(ledger.committed.packets, packets.len() as u64);
        assert_eq!(ledger.foreign, 4, "{}", ledger.table());
        reader.look(Duration::ZERO).expect("the broker is there");
        assert_eq!(reader.ledger().committed, ledger.committed, "a second look counts twice");
        println!("{}", ledger.table());
    }
    let newest = LedgerReader::open(&settings, "lab", None, WITHIN).expect("a ledger");
    assert_eq!(newest.run(), 2);
    let unknown = LedgerReader::open(&settings, "lab", Some(9), WITHIN).err().expect("no run 9");
    assert!(matches!(unknown, LedgerError::Unknown { .. }), "{unknown}");
    assert!(unknown.to_string().contains("no run 9 (found: 2, 1)"), "{unknown}");
}

/// Begins the next run of one readout node, as a process of `Role::Readout` that joins alone.
fn begin(control: &mut ControlLog, incarnation: u64) {
    let join = ControlRecord::Join(Join {
        node: "crate-a".to_owned(),
        id: "a".to_owned(),
        role: Role::Readout,
        incarnation,
        digest: "d".to_owned(),
        readouts: vec!["crate-a".to_owned()],
        at_ns: clock::now().as_ns(),
        ..Join::default()
    });
    control.append(&join).expect("stored");
    let begin = control.state().next_run().expect("every readout has joined");
    let offsets = || vec![0; PARTITIONS as usize];
    let begin = Begin { fragments: offsets(), commits: offsets(), ..begin };
    control.append(&ControlRecord::Begin(begin)).expect("stored");
}

#[test]
fn nodes_and_inspect_read_the_runs_of_the_past() {
    let (_broker, settings) = cluster();
    let mut control = ControlLog::open(&settings, "lab").expect("the topic");
    let mut writer = LedgerWriter::open(&settings, "lab").expect("the topic");
    let mut foreign = Vec::new();
    for run in 1..=2 {
        begin(&mut control, run);
        let readout = Some(ReadoutBlock::default());
        let block = NodeBlock { readout, ..block(run, "crate-a", NodeState::Running) };
        writer.finish(&block, WITHIN).expect("stored");
        for _ in 0..3 {
            send(&settings, "lab.ledger", "x", b"nonsense");
        }
        let record = control.state().run(run).expect("it began");
        let nodes = LedgerReader::open_nodes(&settings, "lab", record, WITHIN).expect("a ledger");
        let whole = LedgerReader::open(&settings, "lab", None, WITHIN).expect("a ledger");
        assert_eq!((nodes.ledger().nodes.len(), whole.ledger().nodes.len()), (1, 1));
        foreign.push((nodes.ledger().foreign, whole.ledger().foreign));
        control.append(&ControlRecord::Abandon { run }).expect("stored");
        // Times of records are whole milliseconds.
        std::thread::sleep(Duration::from_millis(5));
    }
    // Records of somebody else show from where a reader has read.
    assert_eq!(foreign, [(3, 3), (3, 3)]);
}

#[test]
fn broker_that_is_away_stops_no_node_and_makes_nobody_dead() {
    let (broker, settings) = cluster();
    let mut writer = LedgerWriter::open(&settings, "lab").expect("the topic");
    let readout = Some(ReadoutBlock::default());
    let block = NodeBlock { readout, ..block(1, "crate-a", NodeState::Running) };
    assert!(writer.publish(&block));
    let limit = Instant::now() + WITHIN;
    let mut reader = loop {
        match LedgerReader::open(&settings, "lab", None, WITHIN) {
            Ok(reader) => break reader,
            Err(error) => assert!(Instant::now() < limit, "{error}"),
        }
    };
    broker.kill();
    // The broker takes nothing: two blocks wait, all later ones are left out at once.
    for sequence in 1..10_000 {
        writer.publish(&NodeBlock { sequence, ..block.clone() });
    }
    assert!(writer.skipped() >= 9_997, "{} blocks were left out", writer.skipped());
    let said = reader.look(Duration::from_millis(10)).expect_err("the broker is away");
    assert!(said.to_string().contains("check the brokers"), "{said}");
    std::thread::sleep(Duration::from_secs(3));
    let _ = reader.look(Duration::from_millis(10));
    let life = |reader: &LedgerReader| reader.ledger().nodes[0].life;
    assert_eq!(life(&reader), Life::Alive, "no block could come");
    let last = NodeBlock { sequence: 10_000, state: NodeState::Ended, ..block };
    let said = writer.finish(&last, Duration::from_millis(200)).expect_err("the broker is away");
    assert!(said.to_string().contains("not stored"), "{said}");
    broker.restart();
    writer.finish(&last, WITHIN).expect("stored");
    let limit = Instant::now() + WITHIN;
    while life(&reader) != Life::Ended {
        assert!(Instant::now() < limit, "the last block does not come");
        let _ = reader.look(Duration::from_millis(100));
    }
}

#[test]
fn clock_that_drifts_during_a_run_is_not_noticed() {
    let (_broker, settings) = cluster();
    let block = block(1, "crate-a", NodeState::Running);
    let ahead_ms = |now: fn() -> Moment| {
        let mut writer = LedgerWriter::with_clock(&settings, "lab", now).expect("the topic");
        writer.finish(&block, WITHIN).expect("stored");
        writer.clock_ahead_ms()
    };
    let later = || Moment::from_ns(clock::now().as_ns() + 5_000_000_000);
    let earlier = || Moment::from_ns(clock::now().as_ns() - 5_000_000_000);
    assert_eq!(ahead_ms(clock::now), 0);
    // The records' way makes the bounds wider.
    let (later, earlier) = (ahead_ms(later), ahead_ms(earlier));
    assert!((2000..=5000).contains(&later), "{later}");
    assert!((-5000..=-2000).contains(&earlier), "{earlier}");
}

#[test]
fn transactions_that_end_during_a_look_make_the_observer_blind() {
    let (_broker, settings) = cluster();
    let mut writer = LedgerWriter::open(&settings, "lab").expect("the topic");
    let readout = Some(ReadoutBlock::default());
    let block = NodeBlock { readout, ..block(1, "crate-a", NodeState::Running) };
    writer.finish(&block, WITHIN).expect("stored");
    let mut reader = LedgerReader::open(&settings, "lab", None, WITHIN).expect("a ledger");
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        .set("transactional.id", "fluxline-test")
        .create()
        .expect("a producer");
    producer.init_transactions(WITHIN).expect("begun");
    for round in 0..8 {
        std::thread::scope(|scope| {
            // Its mark moves the end of the topic, and no record comes.
            let aborts = scope.spawn(|| {
                producer.begin_transaction().expect("begun");
                let record = BaseRecord::<str, str>::to("lab.commits").partition(0).payload("x");
                producer.send(record).expect("sent");
                producer.flush(WITHIN).expect("there");
                producer.abort_transaction(WITHIN).expect("ended");
            });
            while !aborts.is_finished() {
                let _ = reader.look(Duration::ZERO); // the next look counts
            }
        });
        reader.look(Duration::ZERO).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}
