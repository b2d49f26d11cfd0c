//! Distributed building on a real broker: nodes and builders die, come back from the dead, and the
//! broker is killed; the events are those of one process, each in one committed batch.
#![cfg(feature = "client")]

mod support;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::event::EventBatch;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{
    BuiltSource, CheckpointPolicy, Log, LogError, NodeConfig, Output, OutputBatch, ReadoutNode,
    RunPlan, Step, WorkError, Worker,
};
use fluxline_kafka::settings::Settings;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use support::broker::Broker;
use support::world::{
    BEGIN, MS, Packet, RUN, Weather, config, datagram, description, events_of, one_process, packets,
};

const PARTITIONS: u32 = 3;

/// Batches by partition and number.
type Written = BTreeMap<(u32, u64), Vec<OutputBatch>>;

/// The batches that all builders wrote, committed or not.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<Written>>);

impl Output for Files {
    fn write(
        &mut self,
        partition: u32,
        _sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        let mut written = self.0.lock().expect("no panic");
        written.entry((partition, batch.number)).or_default().push(batch.clone());
        Ok(())
    }
}

struct Cluster {
    settings: Settings,
    plan: RunPlan,
    files: Files,
    over: AtomicBool,
    /// Builders fight for partitions and die.
    storm: AtomicBool,
    fenced: AtomicU64,
    takeovers: AtomicU64,
    /// Offset of the next record of each partition, and its time in the run \[ms\].
    reached: Mutex<[(u64, u64); PARTITIONS as usize]>,
    ended: [AtomicBool; PARTITIONS as usize],
}

/// Time without any progress after which the builders are stuck; the broker takes some after each
/// of its deaths.
const STUCK_AFTER: Duration = Duration::from_secs(180);

impl Cluster {
    /// Waits until all partitions have ended, however long that takes.
    ///
    /// # Panics
    /// Panics when the builders make no progress any more.
    fn wait_for_end(&self) {
        let (mut reached, mut progress) = (self.reached(), Instant::now());
        while !self.ended.iter().all(|ended| ended.load(Ordering::Relaxed)) {
            let now = self.reached();
            if now != reached {
                (reached, progress) = (now, Instant::now());
            }
            let is_stuck = progress.elapsed() > STUCK_AFTER;
            if is_stuck {
                self.over.store(true, Ordering::Relaxed);
            }
            assert!(!is_stuck, "the builders do not go on behind {reached:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.over.store(true, Ordering::Relaxed);
    }

    fn reached(&self) -> [(u64, u64); PARTITIONS as usize] {
        *self.reached.lock().expect("no panic")
    }

    fn note(&self, partition: u32, worker: &Worker) {
        let built = worker.partition();
        let at = (built.next_offset(), built.now().as_ns().saturating_sub(BEGIN) / MS);
        let mut reached = self.reached.lock().expect("no panic");
        let its = &mut reached[partition as usize];
        *its = at.max(*its);
    }

    fn log(&self) -> KafkaLog {
        loop {
            match KafkaLog::open(&self.settings, "lab", RUN) {
                Ok(log) => return log,
                Err(error) => eprintln!("{error}"),
            }
        }
    }

    /// Sends the packets of one node, at the speed of their times.
    fn read_out(&self, node: u16, packets: &[Packet]) {
        let config = NodeConfig {
            run: RUN,
            node,
            start: 0,
            mode: Mode::Key(Scope::Global),
            record_bytes: 16 << 10,
            record_age: Span::from_ms(20),
            memory_bytes: 64 << 20,
        };
        let inputs = vec![("boards".to_owned(), description())];
        let mut log = self.log();
        let mut readout = ReadoutNode::new(config, inputs, log.partitions());
        let began = Instant::now();
        for packet in packets.iter().filter(|packet| packet.board % 2 == node) {
            let due = Duration::from_nanos(packet.at - BEGIN);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            let now = Moment::from_ns(packet.at);
            assert!(readout.take(0, now, &datagram(packet)), "the memory is full");
            let _ = readout.hand_over(&mut log);
        }
        readout.finish(Moment::from_ns(packets.last().expect("some").at + MS));
        while readout.hand_over(&mut log).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        log.flush(Duration::from_secs(60)).expect("the broker is back");
    }

    /// Builds partitions until all have ended. In the storm it takes any partition, and dies early.
    fn build(&self, builder: u32, seed: u64) {
        let mut draw = Draw::new(seed);
        while !self.over.load(Ordering::Relaxed) {
            let (partition, life) = match self.storm.load(Ordering::Relaxed) {
                true => (draw.below(PARTITIONS.into()) as u32, 300 + draw.below(2500)),
                false => (builder, 60_000),
            };
            if self.ended[partition as usize].load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            } else {
                let name = format!("builder-{builder}");
                self.work(partition, &name, Duration::from_millis(life), &mut draw);
            }
        }
    }

    fn work(&self, partition: u32, name: &str, life: Duration, draw: &mut Draw) {
        let mut log = self.log();
        let mut files = self.files.clone();
        let Ok(worker) = Worker::claim(&mut log, &self.plan, partition, name) else { return };
        let age = Span::from_ms(draw.below(1500));
        let policy = CheckpointPolicy { bytes: 100_000, times_its_size: 0, age };
        let mut worker = worker.with_checkpoints(policy);
        assert_eq!(worker.notes(), [""; 0]);
        self.takeovers.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        while began.elapsed() < life {
            self.note(partition, &worker);
            if draw.chance(0.001) {
                std::thread::sleep(Duration::from_millis(draw.below(1200)));
            }
            match worker.step(&mut log, &mut files) {
                Ok(Step::Worked | Step::Idle) => {}
                Ok(Step::Over) => {
                    self.ended[partition as usize].store(true, Ordering::Relaxed);
                    return;
                }
                Err(WorkError::Log(LogError::Fenced { .. })) => {
                    self.fenced.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(WorkError::Log(LogError::Away(_))) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns true if the storm that began then goes on: on a busy machine it is longer, for a
    /// storm without takeovers shows nothing.
    fn is_due(&self, began: Instant) -> bool {
        let lasts = Duration::from_secs(seconds());
        let did_nothing = self.takeovers.load(Ordering::Relaxed) <= u64::from(PARTITIONS);
        let is_patient = began.elapsed() < lasts + Duration::from_secs(120);
        began.elapsed() < lasts || (did_nothing && is_patient)
    }

    /// Returns the committed batches.
    fn committed(&self) -> Vec<EventBatch> {
        let files = self.files.0.lock().expect("no panic");
        let mut batches = Vec::new();
        for partition in 0..PARTITIONS {
            let commits = self.log().commits(partition).expect("commits");
            for (number, commit) in (0..).zip(commits) {
                assert_eq!(commit.batch, number);
                let written = &files[&(partition, number)];
                let same = written.iter().all(|batch| batch.events == written[0].events);
                assert!(same, "two builders made different batches of one number");
                assert_eq!(commit.packets, written[0].events.packets.len() as u64);
                batches.push(written[0].events.clone());
            }
        }
        batches
    }
}

/// Seconds that the storm lasts: `SECONDS_OF_STORM` of the environment, or 8.
fn seconds() -> u64 {
    std::env::var("SECONDS_OF_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn storm_on_a_real_broker_changes_no_event() {
    let seed = test_seed!(21);
    let mut draw = Draw::new(seed);
    let keys = seconds() * 1000;
    let weather = Weather { boards: 6, keys, loss: 0.01, lives: true };
    let packets = packets(&mut draw, weather);
    let broker = Broker::start();
    broker.create_topic("lab.fragments", PARTITIONS, &[]);
    broker.create_topic("lab.commits", PARTITIONS, &[]);
    broker.create_topic("lab.checkpoints", PARTITIONS, &["cleanup.policy=compact"]);
    let cluster = Cluster {
        settings: Settings { brokers: broker.address.clone(), ..Settings::default() },
        plan: RunPlan {
            run: RUN,
            name: "x".to_owned(),
            nodes: 2,
            partitions: PARTITIONS,
            // A transaction for each batch: fewer than in the tests in memory. After a long storm,
            // the builders have most of the run before them.
            builder: BuilderConfig {
                batch_bytes: 64 << 10,
                batch_age: Span::from_ms(500),
                ..config()
            },
        },
        files: Files::default(),
        over: AtomicBool::new(false),
        storm: AtomicBool::new(true),
        fenced: AtomicU64::new(0),
        takeovers: AtomicU64::new(0),
        reached: Mutex::default(),
        ended: Default::default(),
    };
    std::thread::scope(|scope| {
        for node in 0..2 {
            let (cluster, packets) = (&cluster, &packets);
            scope.spawn(move || cluster.read_out(node, packets));
        }
        for builder in 0..PARTITIONS {
            let cluster = &cluster;
            scope.spawn(move || cluster.build(builder, seed + u64::from(builder)));
        }
        let (began, mut deaths) = (Instant::now(), 0);
        while cluster.is_due(began) {
            std::thread::sleep(Duration::from_millis(1500));
            broker.signal("-STOP");
            std::thread::sleep(Duration::from_millis(500));
            broker.signal("-CONT");
            std::thread::sleep(Duration::from_millis(1500));
            broker.kill();
            broker.restart();
            deaths += 1;
        }
        cluster.storm.store(false, Ordering::Relaxed);
        let (took, reached) = (began.elapsed(), cluster.reached());
        println!("{took:.1?} of storm, {deaths} deaths of the broker; built up to {reached:?}");
        cluster.wait_for_end();
        println!("ended after {:.1?}", began.elapsed());
    });
    let batches = cluster.committed();
    let stored: usize = batches.iter().map(|batch| batch.packets.len()).sum();
    assert_eq!(stored, packets.len(), "a packet is lost or doubled");
    let (takeovers, fenced) = (&cluster.takeovers, &cluster.fenced);
    println!(
        "{} takeovers, {} builders fenced",
        takeovers.load(Ordering::Relaxed),
        fenced.load(Ordering::Relaxed)
    );
    assert!(takeovers.load(Ordering::Relaxed) > u64::from(PARTITIONS));
    let (many, one) = (events_of(&batches), events_of(&one_process(&packets)));
    let keys = |events: &[support::world::Event]| -> BTreeMap<(u32, u64), usize> {
        let mut keys = BTreeMap::new();
        for event in events {
            *keys.entry((event.generation, event.key)).or_default() += event.packets.len();
        }
        keys
    };
    assert_eq!(keys(&many), keys(&one));
}

/// Hands all records over; the client takes more of them when the broker has the ones before.
fn hand_over_all(node: &mut ReadoutNode, log: &mut KafkaLog) {
    let began = Instant::now();
    while let Err(error) = node.hand_over(log) {
        assert!(began.elapsed() < Duration::from_secs(60), "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Deletes the records before an offset, as retention does.
fn delete_before(broker: &Broker, topic: &str, offset: u64) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &broker.address)
        .create()
        .expect("a client for administration");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset as i64)).expect("a partition");
    let options = AdminOptions::new();
    let mut deleted = pin!(admin.delete_records(&list, &options));
    let mut context = Context::from_waker(Waker::noop());
    let deleted = loop {
        match deleted.as_mut().poll(&mut context) {
            Poll::Ready(deleted) => break deleted.expect("an answer"),
            Poll::Pending => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    deleted.elements()[0].error().expect("deleted");
}

#[test]
fn takeover_on_a_real_broker_needs_deleted_records() {
    let seed = test_seed!(23);
    let weather = Weather { boards: 6, keys: 6000, loss: 0.01, lives: true };
    let packets = packets(&mut Draw::new(seed), weather);
    let broker = Broker::start();
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
    let mut log = open();
    let config = NodeConfig {
        run: RUN,
        node: 0,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 64 << 10,
        record_age: Span::from_ms(20),
        memory_bytes: 64 << 20,
    };
    let mut node = ReadoutNode::new(config, vec![("boards".to_owned(), description())], 1);
    for packet in &packets {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
    }
    hand_over_all(&mut node, &mut log);
    let read = node.counts().records;
    let files = Files::default();
    let policy = CheckpointPolicy { bytes: 1 << 40, times_its_size: 0, age: Span::from_ms(500) };
    let finish = |worker: Worker, log: &mut KafkaLog, until: u64| {
        let (mut worker, limit) = (worker.with_checkpoints(policy), Instant::now());
        while worker.partition().next_offset() < until && !worker.is_over() {
            worker.step(log, &mut files.clone()).expect("the records are there");
            assert!(limit.elapsed() < Duration::from_secs(120), "the builder does not go on");
        }
        worker
    };
    finish(Worker::claim(&mut log, &plan, 0, "first").expect("claimed"), &mut log, read);
    let found = open().claim(0, "nobody").expect("claimed").checkpoints;
    let (newest, older) = (&found[0], &found[1]);
    assert!(newest.offset > older.offset && newest.offset <= read);
    assert!(newest.bytes.len() > 2_000_000, "{} bytes are in one piece", newest.bytes.len());
    delete_before(&broker, "lab.fragments", newest.offset);

    node.finish(Moment::from_ns(packets.last().expect("some").at + MS));
    let (mut log, began) = (open(), Instant::now());
    hand_over_all(&mut node, &mut log);
    let worker = Worker::claim(&mut log, &plan, 0, "second").expect("claimed");
    println!("{} bytes of state: claimed in {:?}", newest.bytes.len(), began.elapsed());
    assert_eq!(worker.notes(), [""; 0]);
    assert_eq!(worker.partition().next_offset(), newest.offset);
    let worker = finish(worker, &mut log, u64::MAX);
    let batches: Vec<EventBatch> =
        files.0.lock().expect("no panic").values().map(|list| list[0].events.clone()).collect();
    assert_eq!(log.commits(0).expect("commits").len(), batches.len());
    let stored: usize = batches.iter().map(|batch| batch.packets.len()).sum();
    assert_eq!(stored, packets.len(), "a packet is lost or doubled");

    // Behind the end, no record is needed.
    delete_before(&broker, "lab.fragments", worker.partition().next_offset());
    let mut worker = Worker::claim(&mut open(), &plan, 0, "third").expect("claimed");
    assert_eq!(worker.step(&mut open(), &mut files.clone()), Ok(Step::Over));
}
