//! A run whose events go to a topic in the ESS schemas, read by the Python package of ESS, and
//! compared with the run's files: live, and shipped later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fluxline_daq::experiment::SinkSchema;
use fluxline_export::{ExportConfig, ExportFormat, export};
use fluxline_kafka::ship::{ShipConfig, ship};

use crate::support::broker::Broker;
use crate::support::ess::identifier;
use crate::support::runs::record_text;

const TOPIC: &str = "ess.events";

const SLOW: &str = r#"
name = "slow"
about = "A thermometer"
reference = "this test"
byte-order = "big"
[[packet]]
name = "data"
fields = [
  { name = "board", type = "u16" }, { name = "count", type = "u32" },
  { name = "temperature", type = "u16", unit = "mK" },
]
source = ["board"]
sequence = { value = "count" }
[[packet.ess.f144]]
source-name = "T{board}"
value = "temperature"
[packet.emulate]
fields = { board = "source", temperature = "sequence * 7919 % 65536" }
payload-bytes = 0
"#;

/// An experiment with detector events, waveforms and a thermometer.
fn experiment(slow: &Path, sink: &str) -> String {
    let mut text = "name = \"lab\"\n".to_owned();
    let slow = slow.display().to_string();
    for (name, format, bytes) in [("a", "counter", 600), ("b", "srs-vmm3", 1200), ("c", &slow, 0)] {
        text += &format!(
            "[[source]]\nname = \"{name}\"\nformat = \"{format}\"\n[source.emulator]\nsources = 2\n\
             rate = 2000\npackets = 400\npayload-bytes = {bytes}\nlink = \"direct\"\n"
        );
    }
    text + "[record]\nbatch-ms = 50\n" + sink
}

fn sink_of(broker: &Broker, lines: &str) -> String {
    format!(
        "[sink.kafka]\nbrokers = \"{}\"\ntopic = \"{TOPIC}\"\nschema = \"ess\"\n\
         record-bytes = 16384\n{lines}\n",
        broker.address
    )
}

/// Compares the topic with the exported run, by programs that are not ours.
fn compare(broker: &Broker, run: &Path) -> serde_json::Value {
    let exported: PathBuf = run.with_extension("parquet");
    if !exported.exists() {
        export(run, &ExportConfig::new(ExportFormat::Parquet, exported.clone())).expect("exported");
    }
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/read_ess.py");
    let output = std::process::Command::new(python)
        .arg(script)
        .args([&broker.address, TOPIC, &exported.display().to_string()])
        .output()
        .expect("Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "run tools/kafka/test.sh, which installs the modules: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn events_of(broker: &Broker, topic: &str) -> BTreeSet<(String, Vec<u8>)> {
    let found = broker.records(topic);
    let is_event = |of: &&(String, Vec<u8>)| !matches!(identifier(&of.1), "pl72" | "6s4t");
    found.iter().filter(is_event).cloned().collect()
}

#[test]
#[ignore = "all: a broker"]
fn messages_have_the_values_of_the_files_and_ship_makes_the_same_again() {
    let scratch = tempfile::tempdir().expect("a folder");
    let slow = scratch.path().join("slow.toml");
    std::fs::write(&slow, SLOW).expect("written");
    let broker = Broker::start();
    broker.create_topic(TOPIC, 2, &[]);
    broker.create_topic("ess.again", 2, &[]);
    broker.create_topic("ess.runs", 1, &[]);
    let folder = scratch.path().join("0001");
    let report = record_text(&folder, &experiment(&slow, &sink_of(&broker, "")));
    let its = report.ledger.sink.clone().expect("a sink");
    assert_eq!(its.acked, its.offered, "{its:?} {:?}", report.notes);
    assert_eq!((its.unmapped, its.misfits), (0, 0));
    let read = compare(&broker, &folder);
    assert_eq!((&read["f144"], &read["pl72"], &read["6s4t"]), (&800.into(), &1.into(), &1.into()));
    assert_eq!(read["samples"], 800 * 300, "{read}");
    assert!(read["hits"].as_u64().is_some_and(|hits| hits > 1000), "{read}");

    // Everything is there; into another topic, the same messages are made again from the files.
    let again = ShipConfig { run: folder.clone(), ..ShipConfig::default() };
    let shipped = ship(&again).expect("shipped");
    assert_eq!((shipped.sent, shipped.present), (0, its.records_acked), "{shipped:?}");
    let other = ShipConfig { topic: Some("ess.again".to_owned()), ..again.clone() };
    ship(&other).expect("shipped");
    assert!(events_of(&broker, TOPIC) == events_of(&broker, "ess.again"), "messages differ");
    let arrow = ShipConfig { schema: Some(SinkSchema::Arrow), ..again };
    let said = ship(&arrow).expect_err("two schemas in one topic").to_string();
    assert!(said.contains("another schema") && said.contains("--topic"), "{said}");

    // A run that was recorded without a sink, and one whose starts and stops have their own topic.
    let folder = scratch.path().join("0002");
    let sink = sink_of(&broker, "run-topic = \"ess.runs\"");
    record_text(&folder, &experiment(&slow, &sink));
    let marks = broker.records("ess.runs");
    let kinds: Vec<_> = marks.iter().map(|(_, message)| identifier(message)).collect();
    assert_eq!(kinds, ["pl72", "6s4t"]);
}
