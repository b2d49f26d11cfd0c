//! The sink and `ship` against a real broker: every event of a run is in the topic exactly once,
//! whatever the broker does meanwhile.
#![cfg(feature = "client")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::SinkCounters;
use fluxline_daq::record::RunReader;
use fluxline_kafka::ship::{ShipConfig, ship};
use fluxline_kafka::{Pieces, RecordId, sink};
use fluxline_run::{Options, Report};
use support::broker::Broker;

const TOPIC: &str = "lab.events";

/// An experiment of emulated boards whose events go to `TOPIC`.
fn experiment(address: &str, packets: u32, lines: &str) -> String {
    format!(
        "name = \"lab\"\n[[source]]\nname = \"boards\"\nformat = \"counter\"\n\
         [source.emulator]\nsources = 4\nrate = 2000\npackets = {packets}\npayload-bytes = 1000\n\
         link = \"direct\"\n[record]\nbatch-ms = 50\n\
         [sink.kafka]\nbrokers = \"{address}\"\ntopic = \"{TOPIC}\"\n\
         record-bytes = 65536\n{lines}\n"
    )
}

fn options(folder: &Path) -> Options {
    Options { folder: Some(folder.to_owned()), open_sink: Some(sink::open), ..Options::default() }
}

fn run(text: &str, folder: &Path) -> Report {
    let experiment = fluxline_daq::experiment::Experiment::parse("e.toml", text).expect("valid");
    let report = fluxline_run::start_with(experiment, options(folder)).expect("it starts");
    let report = report.wait().expect("it ends");
    assert!(report.ledger.closes(), "{:?}", report.ledger.check());
    report
}

fn counters(report: &Report) -> SinkCounters {
    report.ledger.sink.clone().expect("a sink")
}

/// Returns the keys and streams that the files of a run make.
fn expected(run: &Path) -> BTreeSet<(String, Vec<u8>)> {
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("run.json")).expect("run.json"))
            .expect("JSON");
    let run_id = fluxline_kafka::run_id_of(&document).expect("a name");
    let mut pieces = Pieces::new("lab", &["counter".to_owned()], 65536);
    let mut all = BTreeSet::new();
    let mut reader = RunReader::open(run).expect("a run");
    while let Some(recorded) = reader.next_batch().expect("readable") {
        let mut batch = EventBatch::default();
        recorded.append_to(&mut batch).expect("rows");
        pieces.for_each(recorded.number(), &batch, |piece| {
            let batch = recorded.number();
            let id = RecordId { run: run_id.clone(), batch, piece: piece.number };
            all.insert((id.to_string(), piece.stream.expect("small").to_vec()));
        });
    }
    all
}

fn assert_once(broker: &Broker, run: &Path) {
    let found = broker.records(TOPIC);
    let set: BTreeSet<_> = found.iter().cloned().collect();
    assert_eq!(found.len(), set.len(), "a record is there twice");
    let expected = expected(run);
    assert!(expected.len() > 5, "{}", expected.len());
    let keys = |of: &BTreeSet<(String, Vec<u8>)>| of.iter().map(|its| its.0.clone()).collect();
    let (found_keys, expected_keys): (Vec<_>, Vec<_>) = (keys(&set), keys(&expected));
    assert_eq!(found_keys, expected_keys);
    assert!(set == expected, "records differ from the files");
}

fn ship_run(run: &Path) -> fluxline_kafka::ship::ShipReport {
    ship(&ShipConfig { run: run.to_owned(), ..ShipConfig::default() }).expect("shipped")
}

/// Reads the topic with programs that are not ours.
fn read_by_others(broker: &Broker) -> serde_json::Value {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/read_events.py");
    let output = std::process::Command::new(python)
        .arg(script)
        .args([&broker.address, TOPIC])
        .output()
        .expect("Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "run tools/kafka/test.sh, which installs the modules: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a folder"))
    }

    fn run(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[test]
fn events_arrive_once_live_and_shipping_again_sends_nothing() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    broker.create_topic(TOPIC, 3, &[]);
    let run_folder = scratch.run("0001");
    let report = run(&experiment(&broker.address, 1000, ""), &run_folder);
    let its = counters(&report);
    assert_eq!((its.offered, its.acked), (4000, 4000), "{:?}", report.notes);
    let headline = report.ledger.headline();
    assert!(headline.contains("The sink has acknowledged 4000 of 4000 events."), "{headline}");
    assert_once(&broker, &run_folder);
    let shipped = ship_run(&run_folder);
    assert_eq!((shipped.sent, shipped.present), (0, its.records_acked));
    let read = read_by_others(&broker);
    assert_eq!(read["events"], 4000, "{read}");
    assert_eq!(read["packets"], 4000);
    assert_eq!(read["bytes"], report.ledger.source_totals().bytes_recorded);
    assert_eq!(read["records"], its.records_acked);
    let keys: BTreeSet<String> = expected(&run_folder).into_iter().map(|of| of.0).collect();
    let printed = broker.keys_by_console_consumer(TOPIC);
    assert_eq!(printed, Vec::from_iter(keys), "Kafka's own consumer prints other keys");

    // A small memory: events that were left out are sent later, once.
    let small = scratch.run("0002");
    let report = run(&experiment(&broker.address, 50, "memory-bytes = 65536"), &small);
    let its = counters(&report);
    assert_eq!(its.acked + its.left_out, its.offered, "{its:?}");
    ship_run(&small);
    assert_eq!(ship_run(&small).sent, 0);
}

#[test]
fn memory_of_a_sink_without_brokers_is_bounded_and_the_rest_is_left_out() {
    let scratch = Scratch::new();
    // Many more records than the client gets at a time.
    let lines = "memory-bytes = 262144\ndelivery-timeout-ms = 60000";
    let text = experiment(&nobody(), 1000, lines).replace("= 65536", "= 8192");
    let report = run(&text, &scratch.run("0001"));
    let its = counters(&report);
    // Each event has 1000 bytes and more; what the memory kept times out at the end.
    assert!((100..=262).contains(&its.timed_out), "{its:?}");
    assert_eq!((its.offered, its.acked), (4000, 0), "{its:?}");
    assert_eq!(its.left_out, 4000 - its.timed_out, "{its:?}");
    let verdict = report.verdict.sentence().unwrap_or_default();
    assert!(verdict.contains(&format!("left out {}", its.left_out)), "{verdict}");
}

#[test]
fn events_larger_than_a_record_are_left_out_alone_and_stay_in_the_files() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    broker.create_topic(TOPIC, 2, &[]);
    let run_folder = scratch.run("0001");
    let large = "[[source]]\nname = \"large\"\nformat = \"counter\"\n[source.emulator]\n\
                 sources = 1\nrate = 200\npackets = 30\npayload-bytes = 9000\nlink = \"direct\"\n";
    let text = experiment(&broker.address, 100, large).replace("= 65536", "= 8192");
    let report = run(&text, &run_folder);
    let its = counters(&report);
    assert_eq!((its.offered, its.acked, its.too_large), (430, 400, 30), "{:?}", report.notes);
    let advice = "the topic lacks it; raise `record-bytes` under [sink.kafka]";
    assert!(report.notes.iter().any(|note| note.contains(advice)), "{:?}", report.notes);
    let verdict = report.verdict.sentence().unwrap_or_default();
    assert!(verdict.contains("did not acknowledge 30 of 430 events (too large 30"), "{verdict}");
    let read = read_by_others(&broker);
    assert_eq!((&read["events"], &read["records"]), (&400.into(), &its.records_acked.into()));
    let shipped = ship_run(&run_folder);
    assert_eq!((shipped.sent, shipped.too_large), (0, 30), "{shipped:?}");
}

#[test]
fn records_of_another_program_in_the_topic_are_counted_and_left_alone() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    broker.create_topic(TOPIC, 2, &[]);
    let foreign = [(0, None), (1, Some("a key")), (1, Some("a/b/c")), (0, Some("lab/1/2/3"))];
    let put = || {
        for (partition, key) in foreign {
            broker.put(TOPIC, partition, key, b"a record of another program");
        }
    };
    put();
    let run_folder = scratch.run("0001");
    let its = counters(&run(&experiment(&broker.address, 100, ""), &run_folder));
    assert_eq!((its.offered, its.acked), (400, 400), "{its:?}");
    put();
    let shipped = ship_run(&run_folder);
    assert_eq!((shipped.sent, shipped.foreign), (0, 8), "{shipped:?}");
    let records = broker.records(TOPIC);
    let ours = records.iter().filter(|(_, value)| value != b"a record of another program").count();
    assert_eq!((records.len() - ours, ours as u64), (8, its.records_acked));
    assert_eq!(read_by_others(&broker)["events"], 400);
}

/// Returns an address at which no broker answers.
fn nobody() -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
    port.expect("an address").to_string()
}

#[test]
fn broker_that_dies_loses_and_doubles_nothing() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    broker.create_topic(TOPIC, 2, &[]);
    let run_folder = scratch.run("0001");
    let text = experiment(&broker.address, 3000, "delivery-timeout-ms = 600");
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&text, &run_folder));
        std::thread::sleep(Duration::from_millis(600));
        broker.kill();
        running.join().expect("no panic")
    });
    let its = counters(&report);
    assert_eq!(its.offered, 12_000, "the recorder did not go on: {:?}", report.notes);
    assert!(its.timed_out > 0 && its.acked < its.offered, "{its:?}");
    assert!(report.notes.iter().any(|note| note.contains("fluxline ship")), "{:?}", report.notes);
    broker.restart();
    let shipped = ship_run(&run_folder);
    assert!(shipped.sent > 0, "{shipped:?}");
    assert_once(&broker, &run_folder);
    assert_eq!(ship_run(&run_folder).sent, 0);
}

#[test]
fn broker_that_pauses_delays_the_events_alone() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    broker.create_topic(TOPIC, 2, &[]);
    let run_folder = scratch.run("0001");
    let text = experiment(&broker.address, 2000, "");
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&text, &run_folder));
        std::thread::sleep(Duration::from_millis(300));
        broker.signal("-STOP");
        std::thread::sleep(Duration::from_millis(1500));
        broker.signal("-CONT");
        running.join().expect("no panic")
    });
    let its = counters(&report);
    assert_eq!((its.offered, its.acked), (8000, 8000), "{its:?} {:?}", report.notes);
    assert_once(&broker, &run_folder);
}

#[test]
fn two_shipments_at_a_time_send_nothing_twice() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    broker.create_topic(TOPIC, 2, &[]);
    let run_folder = scratch.run("0001");
    run(&experiment(&nobody(), 2000, "delivery-timeout-ms = 500"), &run_folder);
    let config = || ShipConfig {
        run: run_folder.clone(),
        brokers: Some(broker.address.clone()),
        ..ShipConfig::default()
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let ships: Vec<_> = (0..4).map(|_| scope.spawn(|| ship(&config()))).collect();
        ships.into_iter().map(|ship| ship.join().expect("no panic")).collect()
    });
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        let said = error.to_string();
        assert!(said.starts_with("another `fluxline ship` of") && said.contains("twice"), "{said}");
    }
    assert!(results.iter().any(Result::is_ok), "each shipment has stopped for another one");
    assert_once(&broker, &run_folder);
    assert_eq!(ship(&config()).expect("shipped").sent, 0);
}

#[test]
fn wrong_destinations_are_refused_in_one_sentence() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    let start = |text: &str, run: &str| {
        let experiment = fluxline_daq::experiment::Experiment::parse("e.toml", text);
        let started =
            fluxline_run::start_with(experiment.expect("valid"), options(&scratch.run(run)));
        started.err().map(|error| error.to_string())
    };
    let said = start(&experiment(&broker.address, 1, ""), "1").expect("no topic");
    assert!(said.contains("`lab.events` does not exist") && said.contains("--create"), "{said}");
    assert!(!scratch.run("1").exists(), "a run that does not start leaves no folder");

    broker.create_topic(TOPIC, 1, &["min.insync.replicas=2"]);
    let said = start(&experiment(&broker.address, 1, ""), "2").expect("too few replicas");
    assert!(said.contains("1 replicas") && said.contains("asks for 2"), "{said}");

    let wrong = "settings = { \"acks-of-the-lab\" = \"9\" }";
    let said = start(&experiment(&broker.address, 1, wrong), "3").expect("a wrong setting");
    assert!(said.contains("acks-of-the-lab"), "{said}");

    // Without any broker, the run is recorded, and says what to do.
    let nobody = nobody();
    let run_folder = scratch.run("4");
    let report = run(&experiment(&nobody, 20, "delivery-timeout-ms = 500"), &run_folder);
    let its = counters(&report);
    assert_eq!((its.offered, its.timed_out), (80, 80), "{its:?}");
    assert!(report.notes.iter().any(|note| note.contains("no Kafka broker answers at")));
    let config = ShipConfig { run: run_folder, ..ShipConfig::default() };
    let said = ship(&config).expect_err("nobody is there").to_string();
    assert!(said.contains(&nobody) && said.contains("check the address"), "{said}");
}
