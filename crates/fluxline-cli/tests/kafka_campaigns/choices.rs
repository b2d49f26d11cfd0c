//! A cluster with a filter, a pause and a sink of ESS messages, on a real broker: a builder is
//! killed, and the topic still has exactly the events that the gathered run has.

use serde_json::Value;

use crate::lab::{Lab, well};
use crate::process::until;

const EXPERIMENT: &str = r#"
name = "beam"
[events]
build = "key"
[record]
batch-ms = 200
[filter]
keep = "event.key % 3 != 0 || any(temperature >= 0)"
mark = "event.key % 2 == 0"
[[source]]
name = "a"
format = "counter"
emulator = { sources = 2, rate = 100, payload-bytes = 64 }
[[source]]
name = "b"
format = "slow.toml"
parameters = { offset = 7 }
emulator = { sources = 2, rate = 100 }
[node.r1]
sources = ["a"]
[node.r2]
sources = ["b"]
"#;

/// A thermometer whose values have no event key.
const SLOW: &str = r#"
name = "slow"
about = "A thermometer"
reference = "this test"
byte-order = "big"
[parameters]
offset = { default = 0, min = 0, max = 100, help = "Added to the temperature." }
[[packet]]
name = "data"
fields = [
  { name = "board", type = "u16" }, { name = "count", type = "u32" },
  { name = "temperature", type = "u16", unit = "mK" },
]
computed = [{ name = "corrected", value = "temperature + offset" }]
source = ["board"]
sequence = { value = "count" }
[[packet.ess.f144]]
source-name = "T{board}"
value = "temperature"
[packet.emulate]
fields = { board = "source", temperature = "sequence * 7919 % 65536" }
payload-bytes = 0
"#;

fn place(lab: &Lab, name: &str) -> u64 {
    lab.ledger()["places"][name].as_u64().unwrap_or(0)
}

/// Returns true when a place has more packets than before.
fn grows(lab: &Lab, name: &str) {
    let before = place(lab, name);
    until(
        &format!("more packets: {name}"),
        || place(lab, name) > before + 30,
        || lab.ledger().to_string(),
    );
}

#[test]
fn filter_pause_and_sink_lose_or_double_events_when_a_builder_is_killed() {
    let lab = Lab::new("output = \"both\"\nstart = \"ctl\"\n", EXPERIMENT);
    let address = lab.address();
    std::fs::write(lab.folder.path().join("slow.toml"), SLOW).expect("written");
    let (brokers, topic) = (lab.broker.address.clone(), "ess.detector");
    let file = lab.path("e.toml");
    let text = std::fs::read_to_string(&file).expect("the experiment");
    let sink = format!(
        "[sink.kafka]\nbrokers = \"{brokers}\"\ntopic = \"{topic}\"\nschema = \"ess\"\n\
         run-topic = \"ess.runs\"\n"
    );
    std::fs::write(file, text + &sink).expect("written");
    let (status, _, said) = lab.node("builder", "b0").end();
    assert!(status == Some(6) && said.contains("topic `ess.detector` does not exist"), "{said}");
    lab.broker.create_topic(topic, 2);
    lab.broker.create_topic("ess.runs", 1);
    let mut builders = vec![lab.node("builder", "b1"), lab.node("builder", "b2")];
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    builders[0].wait_for(&format!("fluxline ctl {address} start"));
    lab.done(&["ctl", &address, "start"]);
    let (status, _, said) = lab.command(&["ctl", &address, "resume"]);
    assert_eq!(status, Some(0), "what is so already changes nothing: {said}");
    grows(&lab, "in_batches");
    grows(&lab, "filtered");
    assert_eq!(place(&lab, "not_recorded"), 0);
    lab.done(&["ctl", &address, "pause"]);
    assert_eq!(lab.status()["run"]["state"], "paused");
    // A builder dies in the pause: its successor is in the pause, too.
    builders.remove(0).kill();
    builders.push(lab.node("builder", "b3"));
    grows(&lab, "not_recorded");
    lab.done(&["ctl", &address, "resume"]);
    grows(&lab, "in_batches");
    lab.done(&["ctl", &address, "shot", "5"]);
    lab.done(&["ctl", &address, "stop"]);
    readouts.into_iter().for_each(|readout| drop(well(readout)));
    builders.into_iter().for_each(|builder| drop(well(builder)));
    let (status, _, said) = lab.command(&["ctl", &address, "pause"]);
    assert!(status == Some(3) && said.contains("no run that goes on"), "{said}");
    let ledger = lab.ledger();
    assert_eq!((&ledger["state"], &ledger["status"]), (&"ended".into(), &0.into()), "{ledger}");
    lab.done(&["gather", &address, "--into", "all"]);
    check_gathered(&lab, &ledger);
    assert!(has_parameters(&lab));
    check_topic(&lab, topic, &ledger);
}

/// Compares the gathered run with the filter and the ledger.
fn check_gathered(lab: &Lab, ledger: &Value) {
    let text = std::fs::read_to_string(lab.folder.path().join("all/run.json")).expect("run.json");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let states = document["control"]["states"].as_array().expect("states");
    let states: Vec<&str> = states.iter().filter_map(|of| of["state"].as_str()).collect();
    assert_eq!(states, ["running", "paused", "running"], "{document}");
    assert_eq!(document["control"]["shot"], 5);
    let (left_out, places) = (&document["left_out"], &ledger["places"]);
    assert_eq!(left_out["filtered"], places["filtered"], "{document}");
    assert_eq!(left_out["not_recorded"], places["not_recorded"]);
    assert_eq!(document["recorded"]["packets"], places["in_batches"]);
    let rows = lab.csv("all", "events.csv", "key,status,missing");
    assert!(rows.len() > 50, "{} events", rows.len());
    for row in &rows {
        let cells: Vec<&str> = row.split(',').collect();
        let Ok(key) = cells[0].parse::<u64>() else { continue };
        assert!(!key.is_multiple_of(3), "{row}");
        let is_marked = row.contains("filter: marked");
        assert!(is_marked == key.is_multiple_of(2) || row.contains("late"), "{row}");
    }
}

/// Returns true when the gathered run has the parameters of the description.
fn has_parameters(lab: &Lab) -> bool {
    let rows = lab.csv("all", "slow-data.csv", "temperature,corrected");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    rows.iter()
        .filter_map(|row| row.split_once(','))
        .all(|(raw, value)| number(value) == number(raw) + 7)
        && rows.len() > 50
}

/// Compares the topic with the gathered run, by programs that are not ours.
fn check_topic(lab: &Lab, topic: &str, ledger: &Value) {
    lab.done(&["export", "all", "--to", "parquet", "--into", "parquet"]);
    let read =
        lab.python("read_ess.py", &[&lab.broker.address, &format!("{topic},ess.runs"), "parquet"]);
    assert_eq!((&read["pl72"], &read["6s4t"]), (&1.into(), &1.into()), "{read}");
    assert!(read["da00"].as_u64() > Some(50) && read["f144"].as_u64() > Some(50), "{read}");
    let sink = &ledger["sink"];
    assert_eq!(sink["sent"], ledger["committed"]["events"], "{ledger}");
    let (status, _, said) = lab.command(&["ship", "all"]);
    assert!(status == Some(3) && said.contains("during the run"), "{said}");
}
