//! Topics into which other runs go on writing while one run is read, and topics from which somebody
//! has deleted records: reading comes to an end, and says what is gone.
#![cfg(feature = "client")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{
    CheckpointPolicy, Outputs, RunPlan, Step, TopicConfig, TopicOutput, Worker,
};
use fluxline_kafka::gather::GatherError;
use fluxline_kafka::gather::committed::{Committed, committed_from};
use fluxline_kafka::gather::topic::gather_topic;
use fluxline_kafka::settings::Settings;
use support::broker::Broker;
use support::built::readout;
use support::world::{MS, RUN, Weather, config, datagram, packets};

/// Time for which the other run writes at most; reading must end long before.
const OTHER_RUN: Duration = Duration::from_secs(60);
/// Time in which a short run must be read on a busy machine.
const WITHIN: Duration = Duration::from_secs(30);

fn settings(broker: &Broker) -> Settings {
    Settings { brokers: broker.address.clone(), ..Settings::default() }
}

fn plan() -> RunPlan {
    RunPlan { run: RUN, name: "lab".to_owned(), nodes: 1, partitions: 1, builder: config() }
}

fn topics(broker: &Broker, cluster: &str) {
    for topic in ["fragments", "commits", "checkpoints", "events"] {
        broker.create_topic(&format!("{cluster}.{topic}"), 1, &[]);
    }
}

/// Reads out and builds a run into the topic of events, with a checkpoint after every few batches.
fn build(broker: &Broker, cluster: &str) {
    let weather = Weather { boards: 4, keys: 400, loss: 0.0, lives: false };
    let packets = packets(&mut Draw::new(test_seed!(91)), weather);
    let mut log = KafkaLog::open(&settings(broker), cluster, RUN).expect("the topics");
    let mut node = readout(0, 0, 1);
    for packet in &packets {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
    }
    node.finish(Moment::from_ns(packets.last().expect("some").at + MS));
    while node.hand_over(&mut log).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    log.flush(WITHIN).expect("the broker is there");
    let record_bytes = log.open_events(cluster, 64 << 10).expect("the topic");
    let config = TopicConfig { run: RUN, record_bytes, ..TopicConfig::default() };
    let mut outputs = Outputs { files: None, topic: Some(TopicOutput::new(config)), sink: None };
    let often = CheckpointPolicy { bytes: 20_000, times_its_size: 0, age: Span::from_ms(30) };
    let worker = Worker::claim(&mut log, &plan(), 0, "builder-1").expect("claimed");
    let mut worker = worker.with_checkpoints(often);
    while worker.step(&mut log, &mut outputs).expect("it works") != Step::Over {}
}

/// Calls `work` while another run writes into a topic without a pause; returns its result.
///
/// # Panics
/// Panics when `work` ends only with the other run.
fn beside_another_run<T>(broker: &Broker, topic: &str, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let began = Instant::now();
            while !is_over.load(Ordering::Relaxed) && began.elapsed() < OTHER_RUN {
                broker.put_many(topic, 0, b"a record of another run", 20);
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        let began = Instant::now();
        let result = work();
        let took = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("no panic");
        assert!(took < WITHIN, "reading `{topic}` took {took:?}: it waits for the other run");
        result
    })
}

fn committed(broker: &Broker, cluster: &str, begin: u64) -> Result<Committed, GatherError> {
    committed_from(&settings(broker), cluster, RUN, &[begin])
}

#[test]
fn reading_a_run_waits_for_another_run_that_goes_on_writing() {
    let broker = Broker::shared();
    topics(&broker, "busy");
    build(&broker, "busy");
    let batches = committed(&broker, "busy", 0).expect("commits").commits.batches();
    assert!(batches > 5, "{batches} batches are a weak test");
    let busy = beside_another_run(&broker, "busy.commits", || committed(&broker, "busy", 0));
    let busy = busy.expect("commits");
    assert_eq!(busy.commits.batches(), batches);

    let scratch = tempfile::tempdir().expect("a folder");
    let gather =
        |into: &Path| gather_topic(&settings(&broker), "busy", &busy, into, &mut |_, _| {});
    let into = scratch.path().join("1");
    let gathered = beside_another_run(&broker, "busy.events", || gather(&into));
    assert_eq!(gathered.expect("gathered").batches, batches);
    // The last batch is gone with the others: the search for it ends, too.
    broker.delete_records("busy.events", 0, broker.end("busy.events", 0));
    let said = beside_another_run(&broker, "busy.events", || gather(&scratch.path().join("2")));
    let said = said.expect_err("the batches are gone").to_string();
    assert!(said.starts_with("batch 0 of partition 0"), "{said}");
}

#[test]
fn deleted_commits_are_taken_for_a_run_without_batches() {
    let broker = Broker::shared();
    topics(&broker, "gone");
    build(&broker, "gone");
    broker.delete_records("gone.commits", 0, 3);
    let said = committed(&broker, "gone", 0).expect_err("commits are gone").to_string();
    let expected = "partition 0: the commits before offset 3 of topic `gone.commits` are gone, by \
                    retention or deleted records, so nobody knows which batches the run has; let \
                    the topic keep its records (retention.ms=-1)";
    assert_eq!(said, expected);
    committed(&broker, "gone", 3).expect("a run that began behind them lacks none");
    // A builder goes on from its newest checkpoints, which need later commits only.
    let mut log = KafkaLog::open(&settings(&broker), "gone", RUN).expect("the topics");
    Worker::claim(&mut log, &plan(), 0, "builder-2").expect("claimed");
    broker.delete_records("gone.checkpoints", 0, broker.end("gone.checkpoints", 0));
    let said = Worker::claim(&mut log, &plan(), 0, "builder-2").err().expect("gone").to_string();
    assert_eq!(said, expected);
}

#[test]
fn run_with_the_number_of_an_earlier_one_goes_on_from_its_checkpoints() {
    let broker = Broker::shared();
    topics(&broker, "again");
    build(&broker, "again");
    let ends = ["fragments", "commits"].map(|topic| broker.end(&format!("again.{topic}"), 0));
    let log = KafkaLog::open(&settings(&broker), "again", RUN).expect("the topics");
    let mut log = log.begin_at(vec![ends[0]], vec![ends[1]]);
    let worker = Worker::claim(&mut log, &plan(), 0, "builder-2").expect("claimed");
    assert_eq!((worker.partition().next_offset(), worker.partition().next_batch()), (ends[0], 0));
    let notes = worker.notes();
    let reason = "an earlier run with the same number wrote it";
    assert!(!notes.is_empty() && notes.iter().all(|note| note.contains(reason)), "{notes:?}");
}
