//! `ship` against a real broker: runs that are damaged, of clusters, or too large for the topic,
//! and transactions of others in the topic.
#![cfg(feature = "client")]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fluxline_daq::experiment::SinkSchema;
use fluxline_kafka::ship::{ShipConfig, ShipError, ship};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use support::broker::Broker;
use support::runs::{record, to_topic};

#[test]
fn run_of_a_cluster_on_one_machine_is_shipped_to_its_own_topic() {
    let broker = Broker::shared();
    let topic = "one.events";
    broker.create_topic(topic, 1, &[]);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    let address = &broker.address;
    let lines = format!(
        "[events]\nbuild = \"key\"\n[cluster]\nbrokers = \"{address}\"\nname = \"one\"\n\
         [node.r1]\nsources = [\"boards\"]\n\
         [sink.kafka]\nbrokers = \"{address}\"\ntopic = \"{topic}\"\n"
    );
    record(&run, 100, &lines);
    let again = ship(&ShipConfig { run: run.clone(), ..ShipConfig::default() });
    let again = again.expect("the run without --node is shipped");
    assert!(again.present > 0 && again.sent == 0, "{again:?}");

    // A gathered run is refused: the builders have sent its events under other keys.
    let file = run.join("run.json");
    let text = std::fs::read_to_string(&file).expect("run.json");
    let mut document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    document["gathered"] = serde_json::json!({ "run": 1 });
    std::fs::write(&file, document.to_string()).expect("written");
    let said = ship(&to_topic(&run, address, topic)).expect_err("refused").to_string();
    assert!(said.contains("the builders sent the events of"), "{said}");
}

/// Returns the events files of a run, in order.
fn event_files(run: &Path) -> Vec<PathBuf> {
    let is_events = |path: &PathBuf| path.extension().is_some_and(|of| of == "arrows");
    let entries = std::fs::read_dir(run).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_events).collect();
    files.sort();
    files
}

#[test]
fn damaged_run_sends_its_readable_part_and_says_what_is_missing() {
    let broker = Broker::shared();
    let topic = "damaged.events";
    broker.create_topic(topic, 1, &[]);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    record(&run, 300, "");
    let to = to_topic(&run, &broker.address, topic);
    let file = event_files(&run).pop().expect("an events file");
    let whole = std::fs::read(&file).expect("readable");
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0x55);
    std::fs::write(&file, damaged).expect("written");
    let first = ship(&to).expect("the readable part is sent");
    assert!(first.sent > 0 && !first.integrity.is_sound(), "{first:?}");
    assert!(first.integrity.missing.events > 0, "{first:?}");

    // With the files from a copy, the rest follows.
    std::fs::write(&file, whole).expect("written");
    let rest = ship(&to).expect("shipped");
    assert!(rest.sent > 0 && rest.present == first.sent, "{rest:?}");
    assert!(rest.integrity.is_sound(), "{rest:?}");
}

#[test]
fn messages_of_a_run_without_its_sources_or_descriptions_are_refused() {
    let broker = Broker::shared();
    let topic = "sourceless";
    broker.create_topic(topic, 1, &[]);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    record(&run, 100, "");
    let arrow = to_topic(&run, &broker.address, topic);
    let ess = ShipConfig { schema: Some(SinkSchema::Ess), ..arrow.clone() };
    let sources = run.join("sources.jsonl");
    let lines = std::fs::read(&sources).expect("sources");
    std::fs::write(&sources, "").expect("written");
    let error = ship(&ess).expect_err("no source");
    assert!(matches!(&error, ShipError::Files(said) if said.contains("sources.jsonl")), "{error}");
    std::fs::write(&sources, lines).expect("written");

    std::fs::rename(run.join("formats"), scratch.path().join("formats")).expect("moved");
    for config in [ess, arrow] {
        let error = ship(&config).expect_err("no descriptions");
        let is_named = matches!(&error, ShipError::Files(said) if said.contains("formats"));
        assert!(is_named, "{error:?}");
    }
    assert!(broker.records(topic).is_empty(), "nothing was sent");
}

/// Puts a record into a topic by a transaction that stays open for this time: its producer dies.
fn leave_open(broker: &Broker, topic: &str, time: Duration) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &broker.address)
        .set("transactional.id", format!("killed-{topic}"))
        .set("transaction.timeout.ms", time.as_millis().to_string())
        .set("message.timeout.ms", "1000")
        .create()
        .expect("a producer");
    producer.init_transactions(Duration::from_secs(30)).expect("a name");
    producer.begin_transaction().expect("begun");
    let record: BaseRecord<'_, str, str> = BaseRecord::to(topic).key("foreign").payload("x");
    producer.send(record).map_err(|(error, _)| error).expect("sent");
    producer.flush(Duration::from_secs(30)).expect("acknowledged");
}

#[test]
fn open_transaction_of_a_killed_program_doubles_no_record_and_delays_only() {
    // Transactions of `ship` end within the time that it waits for those of others.
    let broker = Broker::start_with_settings("transaction.max.timeout.ms=30000\n");
    let topic = "open.events";
    broker.create_topic(topic, 1, &[]);
    leave_open(&broker, topic, Duration::from_secs(5));
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    let address = &broker.address;
    let sink = format!("[sink.kafka]\nbrokers = \"{address}\"\ntopic = \"{topic}\"\n");
    let report = record(&run, 200, &sink);
    let its = report.ledger.sink.expect("a sink");
    assert_eq!((its.offered, its.acked), (800, 800), "{:?}", report.notes);
    let again = ship(&ShipConfig { run: run.clone(), ..ShipConfig::default() }).expect("shipped");
    assert_eq!((again.sent, again.present), (0, its.records_acked), "{again:?}");

    // A broker that dies meanwhile makes the run no worse: the same command works later.
    leave_open(&broker, topic, Duration::from_secs(30));
    let error = std::thread::scope(|scope| {
        let shipping = scope.spawn(|| ship(&to_topic(&run, address, topic)));
        std::thread::sleep(Duration::from_secs(4));
        broker.kill();
        shipping.join().expect("no panic").expect_err("nobody answers")
    });
    assert!(matches!(error, ShipError::Unread { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("nothing was sent") && said.contains("try again in a minute"), "{said}");
}

#[test]
fn refused_messages_of_start_and_stop_are_counted_and_the_run_ends_with_status_7() {
    let broker = Broker::shared();
    broker.create_topic("marks.events", 1, &[]);
    broker.create_topic("marks.runs", 1, &["max.message.bytes=100"]);
    let scratch = tempfile::tempdir().expect("a folder");
    let sink = format!(
        "[sink.kafka]\nbrokers = \"{}\"\ntopic = \"marks.events\"\nschema = \"ess\"\n\
         run-topic = \"marks.runs\"\n",
        broker.address
    );
    let report = record(&scratch.path().join("0001"), 20, &sink);
    let its = report.ledger.sink.clone().expect("a sink");
    assert_eq!((its.offered, its.acked, its.marks_lost), (80, 80, 2), "{:?}", report.notes);
    assert_eq!(report.verdict.status(), 7, "{:?}", report.verdict);
    let headline = report.ledger.headline();
    assert!(headline.contains("messages of start or stop lost 2"), "{headline}");
}

#[test]
fn records_that_the_topic_refuses_are_no_outage_of_the_broker() {
    let broker = Broker::shared();
    let topic = "small.events";
    broker.create_topic(topic, 1, &["max.message.bytes=2000"]);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    record(&run, 100, "");
    let error = ship(&to_topic(&run, &broker.address, topic)).expect_err("too large");
    let said = error.to_string();
    assert!(matches!(error, ShipError::Unsent { .. }), "{error:?}");
    assert!(said.contains("raise its max.message.bytes"), "{said}");
    assert!(!said.contains("when the broker is back"), "{said}");
}
