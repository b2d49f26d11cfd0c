//! A cluster with a filter, a pause and a sink of ESS messages, on a real broker: a builder is
//! killed, and the topic still has exactly the events that the gathered run has.
#![cfg(feature = "kafka")]

#[path = "support/lab.rs"]
mod lab;

use lab::Lab;
use lab::process::until;
use serde_json::Value;

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

fn counts(lab: &Lab) -> Value {
    let (_, out, said) = lab.command(&["--json", "inspect", &lab.address()]);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn place(lab: &Lab, name: &str) -> u64 {
    counts(lab)["places"][name].as_u64().unwrap_or(0)
}

/// Returns true when a place has more packets than before.
fn grows(lab: &Lab, name: &str) {
    let before = place(lab, name);
    until(
        &format!("more packets: {name}"),
        || place(lab, name) > before + 30,
        || counts(lab).to_string(),
    );
}

#[test]
fn filter_pause_and_sink_lose_or_double_events_when_a_builder_is_killed() {
    let lab = Lab::new("output = \"both\"\nstart = \"ctl\"\n", EXPERIMENT);
    let address = lab.address();
    std::fs::write(lab.folder.path().join("slow.toml"), SLOW).expect("written");
    let (brokers, topic) = (lab.broker.address.clone(), "ess.detector");
    lab.append(&format!(
        "[sink.kafka]\nbrokers = \"{brokers}\"\ntopic = \"{topic}\"\nschema = \"ess\"\n\
         run-topic = \"ess.runs\"\n"
    ));
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
    let recorded = place(&lab, "in_batches");
    grows(&lab, "not_recorded");
    assert_eq!(place(&lab, "in_batches"), recorded, "a pause records events");
    lab.done(&["ctl", &address, "resume"]);
    grows(&lab, "in_batches");
    lab.done(&["ctl", &address, "shot", "5"]);
    lab.done(&["ctl", &address, "stop"]);
    readouts.into_iter().for_each(|readout| drop(lab::well(readout)));
    builders.into_iter().for_each(|builder| drop(lab::well(builder)));
    let (status, _, said) = lab.command(&["ctl", &address, "pause"]);
    assert!(status == Some(3) && said.contains("no run that goes on"), "{said}");
    let ledger = counts(&lab);
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

#[test]
fn run_of_which_the_filter_rejects_every_event_cannot_be_gathered() {
    let experiment = EXPERIMENT
        .replace("event.key % 3 != 0 || any(temperature >= 0)", "event.key < 0")
        .replace("rate = 100", "rate = 500, packets = 300");
    let lab = Lab::new("output = \"both\"\n", &experiment);
    std::fs::write(lab.folder.path().join("slow.toml"), SLOW).expect("written");
    let nodes = [("builder", "b1"), ("r1", "x"), ("r2", "y")].map(|(node, id)| lab.node(node, id));
    nodes.into_iter().for_each(|node| drop(node.end()));
    let (status, _, said) = lab.command(&["inspect", &lab.address()]);
    assert!(status == Some(7) && said.contains("the filter rejected all"), "{said}");
    assert_eq!(place(&lab, "filtered"), 1200);
    lab.done(&["gather", &lab.address(), "--into", "all"]);
    let text = std::fs::read_to_string(lab.folder.path().join("all/run.json")).expect("run.json");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&document["recorded"]["packets"], &document["left_out"]["filtered"]),
        (&0.into(), &1200.into()),
        "{document}"
    );
    assert!(lab.csv("all", "events.csv", "key,status,missing").is_empty());
}
