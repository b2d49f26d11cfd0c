//! A cluster whose topics get more partitions during a run, and two builders of one name: every
//! process ends with a sentence that names the cause and the way out.
#![cfg(feature = "kafka")]

#[path = "support/lab.rs"]
mod lab;

use lab::Lab;
use lab::process::{Process, until};
use serde_json::Value;

const EXPERIMENT: &str = r#"
name = "beam"
[events]
build = "key"
[record]
batch-ms = 200
[[source]]
name = "a"
format = "counter"
emulator = { sources = 2, rate = 100, payload-bytes = 64 }
[node.r1]
sources = ["a"]
"#;

/// Lines of `[cluster]`: clients learn of new partitions soon.
const CLUSTER: &str =
    "output = \"both\"\nsettings = { \"topic.metadata.refresh.interval.ms\" = \"1000\" }\n";

/// The sentence of a process that finds more partitions than its run had.
const CHANGED: &str = "the number of partitions changed from 2 to 4 during run 1: keys would \
                       change their builder; `fluxline ctl … abandon 1` ends the run";

/// Waits until builders have committed packets of the run that goes on.
fn wait_for_commits(lab: &Lab) {
    let counts = || lab.command(&["--json", "inspect", &lab.address()]).1;
    let committed = || -> u64 {
        let counts: Value = serde_json::from_str(&counts()).unwrap_or_default();
        counts["committed"]["packets"].as_u64().unwrap_or(0)
    };
    let begun = || committed() > 30 && lab.status()["run"]["state"] == "running";
    until("committed packets", begun, counts);
}

/// Waits for the end of a node that must fail with these words; returns its standard error.
fn fails(node: Process, words: &str) -> String {
    let name = node.name.clone();
    let (status, _, said) = node.end();
    assert!(status.is_some_and(|status| status > 0), "{name} ends with {status:?}: {said}");
    assert!(said.contains(words), "{name}: {said}");
    for wrong in ["refuses its settings", "delete it"] {
        assert!(!said.contains(wrong), "{name}: {said}");
    }
    said
}

fn document(lab: &Lab, run: &str) -> Value {
    let text = std::fs::read_to_string(lab.path(run).join("run.json")).expect("run.json");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn partitions_added_during_a_run_leave_it_without_an_end_or_its_events_out_of_reach() {
    let lab = Lab::of(2, CLUSTER, EXPERIMENT);
    let address = lab.address();
    let (builder, readout) = (lab.node("builder", "b1"), lab.node("r1", "x"));
    wait_for_commits(&lab);
    lab.broker.add_partitions("lab.fragments", 4);
    // The builder that gets a new partition; nodes that start now.
    fails(builder, CHANGED);
    fails(lab.node("builder", "b2"), CHANGED);
    lab.broker.add_partitions("lab.commits", 4);
    fails(lab.node("builder", "b3"), CHANGED);
    assert!(readout.ended().is_none(), "{}", readout.said());
    lab.done(&["ctl", &address, "abandon", "1"]);
    fails(readout, "`fluxline ctl … abandon 1` ended run 1");

    // Events that were committed before are there.
    for (into, place) in [("1", vec![address.as_str()]), ("2", folders(&lab, &address))] {
        let arguments = [&["gather"], &place[..], &["--run", "1", "--into", into]].concat();
        let (status, _, said) = lab.command(&arguments);
        assert!(status == Some(7) && said.contains("run 1 was abandoned"), "{status:?}: {said}");
        let run = document(&lab, into);
        assert_eq!(run["status"], 7, "{run}");
        assert!(run["recorded"]["packets"].as_u64() > Some(30), "{run}");
    }
    // Without a run, the sentence says how the topics become usable.
    let words = "topic `lab.checkpoints` has 2 partitions, and topic `lab.fragments` has 4; give \
                 both the same number with";
    fails(lab.node("r1", "y"), words);
    lab.broker.add_partitions("lab.checkpoints", 4);
    lab.broker.add_partitions("lab.events", 4);
    let nodes = [lab.node("builder", "b4"), lab.node("r1", "z")];
    wait_for_commits(&lab);
    lab.done(&["ctl", &address, "stop"]);
    nodes.into_iter().for_each(|node| drop(lab::well(node)));
    lab.done(&["gather", &address, "--into", "3"]);
    assert_eq!(document(&lab, "3")["gathered"]["run"], 2);
}

/// Returns the arguments of `gather` for the builders' folders.
fn folders<'a>(lab: &'a Lab, address: &'a str) -> Vec<&'a str> {
    let runs = lab.path("runs");
    assert!(runs.is_dir(), "no builder wrote files");
    vec!["runs", "--from", address]
}

#[test]
fn two_builders_of_one_name_share_the_partitions_or_none_says_which_one_stays() {
    let lab = Lab::of(2, CLUSTER, EXPERIMENT);
    let (older, readout) = (lab.node("builder", "b1"), lab.node("r1", "x"));
    wait_for_commits(&lab);
    let arguments = ["--json", "run", "e.toml", "--node", "builder", "--id", "b1"];
    let newer = lab.start(&arguments, "builder", "b1-again");
    let said = fails(older, "two nodes have the same name: `builder/b1` was started again as ");
    let members = lab.status()["nodes"].to_string();
    let pid = said.split("as process ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(pid.is_some_and(|pid| members.contains(pid)), "{said} {members}");
    newer.wait_for("builder `b1` builds");
    lab.done(&["ctl", &lab.address(), "stop"]);
    [newer, readout].into_iter().for_each(|node| drop(lab::well(node)));
}
