//! A cluster on three brokers, of which one dies for good with its disk: no packet is lost.
#![cfg(feature = "kafka")]

#[path = "support/lab.rs"]
mod lab;

use lab::process::until;
use lab::{Lab, well};
use serde_json::Value;

const EXPERIMENT: &str = r#"
name = "beam"
[events]
build = "key"
[[source]]
name = "a"
format = "counter"
emulator = { sources = 2, rate = 200, payload-bytes = 64 }
[[source]]
name = "b"
format = "counter"
emulator = { sources = 2, rate = 200, payload-bytes = 64 }
[node.r1]
sources = ["a"]
[node.r2]
sources = ["b"]
"#;

/// Returns the ledger; null while no broker gives it.
fn counts(lab: &Lab) -> Value {
    let (_, out, _) = lab.command(&["--json", "inspect", &lab.address()]);
    serde_json::from_str(&out).unwrap_or_default()
}

/// Waits for more committed packets than before.
fn goes_on(lab: &Lab) {
    let committed = |counts: &Value| counts["committed"]["packets"].as_u64().unwrap_or(0);
    let before = committed(&counts(lab));
    until(
        "more committed packets",
        || committed(&counts(lab)) > before + 400,
        || counts(lab).to_string(),
    );
}

#[test]
fn broker_that_dies_with_its_disk_takes_packets_with_it() {
    let lab = Lab::on_three("output = \"both\"\n", EXPERIMENT);
    let builder = lab.node("builder", "b1");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    goes_on(&lab);
    lab.broker.lose(3);
    goes_on(&lab);
    goes_on(&lab);
    lab.done(&["ctl", &lab.address(), "stop"]);
    readouts.into_iter().for_each(|readout| drop(well(readout)));
    well(builder);
    let ledger = counts(&lab);
    assert_eq!((&ledger["state"], &ledger["status"]), (&"ended".into(), &0.into()), "{ledger}");
    assert_eq!(ledger["committed"]["packets"], ledger["received"], "{ledger}");
    lab.done(&["gather", &lab.address(), "--into", "all"]);
}
