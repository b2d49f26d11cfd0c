//! The sink and `ship` against a real broker: every event of a run is in the topic exactly once,
//! whatever the broker does meanwhile.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::SinkCounters;
use fluxline_daq::record::RunReader;
use fluxline_kafka::ship::{ShipConfig, ship};
use fluxline_kafka::{Pieces, RecordId};
use fluxline_run::Report;

use crate::support::broker::Broker;
use crate::support::runs::{record_text, start};

const TOPIC: &str = "lab.events";
const FOREIGN: &[u8] = b"a record of another program";

/// An experiment of emulated boards whose events go to `TOPIC`.
fn experiment(address: &str, rate: u32, packets: u32, lines: &str) -> String {
    format!(
        "name = \"lab\"\n[[source]]\nname = \"boards\"\nformat = \"counter\"\n\
         [source.emulator]\nsources = 4\nrate = {rate}\npackets = {packets}\npayload-bytes = 1000\n\
         link = \"direct\"\n[record]\nbatch-ms = 50\n\
         [sink.kafka]\nbrokers = \"{address}\"\ntopic = \"{TOPIC}\"\n\
         record-bytes = 65536\n{lines}\n"
    )
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

/// Asserts that the topic has each record of these runs once.
fn assert_once(broker: &Broker, runs: &[&Path]) {
    let mut found = broker.records(TOPIC);
    found.retain(|(_, value)| value != FOREIGN);
    let set: BTreeSet<_> = found.iter().cloned().collect();
    assert_eq!(found.len(), set.len(), "a record is there twice");
    let expected: BTreeSet<_> = runs.iter().flat_map(|run| expected(run)).collect();
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

#[test]
#[ignore = "all: a broker"]
fn events_arrive_once_live_or_by_ship_although_the_broker_dies() {
    let (broker, scratch) = (Broker::start(), tempfile::tempdir().expect("a folder"));
    let first = scratch.path().join("0001");
    let text = experiment(&broker.address, 2000, 1000, "");
    let said = start(&first, &text).err().expect("no topic").to_string();
    assert!(said.contains("`lab.events` does not exist") && said.contains("--create"), "{said}");
    broker.create_topic(TOPIC, 3, &[]);
    let report = record_text(&first, &text);
    let its = counters(&report);
    assert_eq!((its.offered, its.acked), (4000, 4000), "{:?}", report.notes);
    let headline = report.ledger.headline();
    assert!(headline.contains("The sink has acknowledged 4000 of 4000 events."), "{headline}");
    let foreign = [(0, None), (1, Some("a key")), (1, Some("a/b/c")), (0, Some("lab/1/2/3"))];
    for (partition, key) in foreign {
        broker.put(TOPIC, partition, key, FOREIGN);
    }
    let shipped = ship_run(&first);
    assert_eq!((shipped.sent, shipped.present, shipped.foreign), (0, its.records_acked, 4));
    let read = read_by_others(&broker);
    assert_eq!((&read["events"], &read["packets"]), (&4000.into(), &4000.into()), "{read}");
    assert_eq!(read["bytes"], report.ledger.source_totals().bytes_recorded);

    // The broker dies when it has some events of the next run.
    let second = scratch.path().join("0002");
    let ends = || (0..3).map(|partition| broker.end(TOPIC, partition)).sum::<u64>();
    let before = ends();
    let text = experiment(&broker.address, 200, 2000, "delivery-timeout-ms = 600");
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| record_text(&second, &text));
        let began = Instant::now();
        while ends() == before {
            assert!(began.elapsed() < Duration::from_secs(120), "no event arrives");
        }
        broker.kill();
        running.join().expect("no panic")
    });
    let its = counters(&report);
    assert_eq!(its.offered, 8000, "the recorder did not go on: {:?}", report.notes);
    assert!(its.acked < its.offered, "{its:?}");
    assert!(report.notes.iter().any(|note| note.contains("fluxline ship")), "{:?}", report.notes);
    broker.restart();
    assert!(ship_run(&second).sent > 0);
    assert_once(&broker, &[&first, &second]);
    assert_eq!(ship_run(&second).sent, 0);
}
