//! Nodes of one run as processes of their own: what each says at its end, and what the files have.

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{call, fluxline, number, send_signal};

const NODES: [&str; 4] = ["builder-0", "builder-1", "readout-0", "readout-1"];

/// Writes an experiment of two sources, each with `packets` of two boards.
fn experiment(at: &Path, packets: u64) -> String {
    let mut text =
        "name = \"apart\"\n[events]\nbuild = \"key\"\n[nodes]\nreadout = { count = 2 }\n\
                    builder = { count = 2 }\n"
            .to_owned();
    for number in 0..2 {
        text.push_str(&format!(
            "[[source]]\nname = \"board-{number}\"\nformat = \"counter\"\n[source.emulator]\n\
             link = \"direct\"\nsources = 2\nrate = 2000\npackets = {packets}\nseed = {number}\n\
             payload-bytes = 32\n"
        ));
    }
    let path = at.join("apart.toml");
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// A node in a process; it is killed when a test fails.
pub struct Node(Option<Child>);

impl Node {
    pub fn start(experiment: &str, link: &str, node: &str, folder: &Path) -> Node {
        let mut command = fluxline();
        let child = command
            .args(["--json", "run", experiment, "--link", link, "--node", node, "--folder"])
            .arg(folder.join(node))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Node(Some(child.expect("the program starts")))
    }

    /// Returns its process.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    /// Returns true while it has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.0.as_mut().expect("it runs").try_wait().expect("waitable").is_none()
    }

    /// Kills it; nothing happens when it has ended.
    pub fn kill(&mut self) {
        self.0.as_mut().expect("it runs").kill().expect("killable");
    }

    /// Waits for its end, at most so long; returns its status and document.
    pub fn end_within(mut self, limit: Duration) -> Option<(Option<i32>, Value, String)> {
        let began = Instant::now();
        while self.is_alive() {
            if began.elapsed() > limit {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(self.end())
    }

    /// Waits for its end; returns its status and document.
    pub fn end(mut self) -> (Option<i32>, Value, String) {
        let child = self.0.take().expect("it runs");
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
        let document = serde_json::from_slice(&stdout).unwrap_or_default();
        (status.code(), document, String::from_utf8_lossy(&stderr).into_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Checks that all laws hold.
pub fn assert_laws(document: &Value) {
    for law in document["laws"].as_array().expect("laws") {
        assert_eq!(law["left"], law["right"], "{law}");
    }
}

fn run_apart(link: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 1000);
    let nodes = NODES.map(|node| Node::start(&experiment, link, node, folder.path()));
    let mut events = 0;
    for (name, node) in NODES.iter().zip(nodes) {
        let (status, document, errors) = node.end();
        assert_eq!(status, Some(0), "{name}: {errors}{document}");
        assert_laws(&document);
        let totals = &document["totals"];
        match name.starts_with("builder") {
            true => events += number(totals, "events_complete"),
            false => assert_eq!(number(totals, "datagrams"), 2000),
        }
        let inspected = call(&["inspect", &folder.path().join(name).display().to_string()]);
        assert!(inspected.status.success(), "{name}: {inspected:?}");
    }
    assert_eq!(events, 1000);
    gather(folder.path());
}

/// Runs the nodes of a loop as processes: the actuator counts what the builders wrote.
#[test]
fn a_loop_of_processes_loses_decisions_or_counts_them_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 300);
    let mut text = std::fs::read_to_string(&experiment).expect("written");
    text.push_str("[loop]\nvalues = [\"event.key\"]\nwaiting-max = 9999\ndeadline-us = 1e9\n");
    std::fs::write(&experiment, text).expect("written");
    let link = format!("shm:loop{}", std::process::id());
    let all = NODES.iter().chain(&["actuator-0"]);
    let nodes = all.map(|node| (node, Node::start(&experiment, &link, node, folder.path())));
    let (mut decided, mut arrived) = (0, 0);
    for (name, node) in nodes.collect::<Vec<_>>() {
        let (status, document, errors) = node.end();
        assert_eq!(status, Some(0), "{name}: {errors}{document}");
        assert_laws(&document);
        let counts = &document["loop"]["counts"];
        if name.starts_with("builder") {
            decided += number(counts, "decided");
            assert_eq!(counts["decided"], counts["handed_on"]);
        } else if *name == "actuator-0" {
            arrived += number(counts, "arrived");
            assert_eq!(document["loop"]["delays"]["sampled_to_written"]["writes"], 300);
        } else {
            assert!(document["loop"].is_null());
        }
    }
    assert_eq!((decided, arrived), (300, 300));
}

/// Writes marks, alarms and slow control values into the folders of nodes.
fn write_beside(folder: &Path) {
    let of = |name: &str| folder.join(name).display().to_string();
    for (node, tag) in [("readout-1", "first"), ("builder-0", "second"), ("readout-0", "first")] {
        assert!(call(&["runs", "tag", &of(node), tag]).status.success());
    }
    assert!(call(&["runs", "comment", &of("builder-1"), "a good night"]).status.success());
    for (node, at_ns) in [("builder-1", 20), ("readout-0", 10)] {
        let change = |change: &str, at_ns: u64| {
            format!(
                "{{\"at_ns\":{at_ns},\"change\":\"{change}\",\"name\":\"own/hot\",\
                 \"severity\":\"alarm\",\"sentence\":\"it is hot\",\"advice\":\"cool it\"}}\n"
            )
        };
        let text = change("raised", at_ns) + &change("cleared", at_ns + 15) + "{\"torn";
        std::fs::write(folder.join(node).join("alarms.jsonl"), text).expect("written");
    }
    std::fs::write(folder.join("builder-0/slow.arrows"), [7; 5000]).expect("written");
}

/// The gathered run has all of them, each once and in the order of time.
fn assert_beside(whole: &Path) {
    let whole_text = whole.display().to_string();
    let document = crate::support::call_json(&["inspect", &whole_text]);
    assert_eq!(document["marks"]["tags"], serde_json::json!(["first", "second"]));
    assert_eq!(document["marks"]["comment"], "a good night");
    let lines = std::fs::read_to_string(whole.join("alarms.jsonl")).expect("the alarms");
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let column = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("at_ns"), [10, 20, 25, 35]);
    let (one, other) = ("readout-0/own/hot", "builder-1/own/hot");
    assert_eq!(column("name"), [one, other, one, other]);
    assert_eq!(std::fs::read(whole.join("slow.arrows")).expect("copied"), [7; 5000]);
}

/// Gathers the folders of all nodes, then what is wrong to gather.
fn gather(folder: &Path) {
    let at = |name: &str| folder.join(name).display().to_string();
    let all = NODES.map(&at);
    let gather = |folders: &[String], into: &str| {
        let folders = folders.iter().map(String::as_str);
        let output = fluxline()
            .args(["--json", "gather"])
            .args(folders)
            .args(["--into", &at(into)])
            .output()
            .expect("the program starts");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), document, said)
    };
    write_beside(folder);
    let (status, document, said) = gather(&all, "whole");
    assert_eq!(status, Some(0), "{said}");
    assert_beside(&folder.join("whole"));
    assert_laws(&document);
    assert_eq!((number(&document, "events"), number(&document, "packets")), (1000, 4000));
    let edges = &document["ledger"]["edges"];
    assert_eq!((number(edges, "handed"), number(edges, "taken")), (4000, 4000));
    assert_eq!((number(edges, "came_in"), number(edges, "handed_on")), (0, 0));
    for source in document["ledger"]["sources"].as_array().expect("sources") {
        let label = source["label"].as_str().unwrap_or_default();
        assert!(label.starts_with("board-"), "a source without a name: {source}");
        assert_eq!(number(&source["counters"], "recorded"), 1000, "{label}");
    }
    let inspected = call(&["--json", "inspect", &at("whole")]);
    assert!(inspected.status.success(), "{inspected:?}");
    let inspected: Value = serde_json::from_slice(&inspected.stdout).expect("a document");
    assert_eq!(number(&inspected["readable"], "packets"), 4000);

    let (status, document, said) = gather(&all[1..], "part");
    assert_eq!(status, Some(7), "{said}");
    assert!(said.contains("no folder of builder-0 was given"), "{said}");
    assert_laws(&document);
    let twice = [all[0].clone(), all[0].clone()];
    std::fs::create_dir(at("empty")).expect("made");
    for (folders, into, says, ends) in [
        (&all[..], "whole", "exists", 1),
        (&twice, "twice", "are both of builder-0", 3),
        (&[all[0].clone(), at("whole")], "mixed", "not the folder of one node", 3),
        (&[all[0].clone(), at("empty")], "none", "run.json", 1),
    ] {
        let (status, _, said) = gather(folders, into);
        assert_eq!(status, Some(ends), "{said}");
        assert!(said.contains(says), "{says}: {said}");
        assert!(into == "whole" || !folder.join(into).exists(), "{into}");
    }
    forge(folder, |forged| gather(&[all[0].clone(), all[2].clone(), all[3].clone(), forged], "no"));
}

/// Changes the run.json of a node to what no program wrote.
fn forge(folder: &Path, gather: impl Fn(String) -> (Option<i32>, Value, String)) {
    let path = folder.join("builder-1").join("run.json");
    let text = std::fs::read_to_string(&path).expect("readable");
    let right: Value = serde_json::from_str(&text).expect("a document");
    type Change = fn(&mut Value);
    let changes: [(Change, i32, &str); 5] = [
        (|run| run["experiment"]["nodes"]["builder"]["count"] = u64::MAX.into(), 3, "experiments"),
        (|run| run["graph"]["edges"][0]["taken"] = u64::MAX.into(), 3, "different runs"),
        (|run| run["graph"]["builders"][0]["name"] = "../x".into(), 3, "one node"),
        (|run| run["ledger"] = "none".into(), 3, "no right ledger"),
        (
            |run| {
                let entry = serde_json::json!({ "source": 4_000_000_000_u32 });
                run["ledger"]["amendments"] = vec![entry].into();
            },
            3,
            "no right ledger",
        ),
    ];
    for (change, ends, says) in changes {
        let mut forged = right.clone();
        change(&mut forged);
        std::fs::write(&path, forged.to_string()).expect("written");
        let (status, _, said) = gather(folder.join("builder-1").display().to_string());
        assert_eq!(status, Some(ends), "{says}: {said}");
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn processes_on_shared_memory_lose_events() {
    run_apart(&format!("shm:apart{}", std::process::id()));
}

#[test]
fn processes_on_ethernet_lose_events() {
    run_apart("udp:127.0.0.1:23791");
}

/// Returns true once this builder has recorded events: then all readouts have come to it.
fn has_recorded(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut events = files.filter(|file| file.file_name().to_string_lossy().starts_with("events-"));
    events.any(|file| file.metadata().is_ok_and(|data| data.len() > 50_000))
}

/// Runs four nodes of which one is killed when all have met, and ends the readouts; returns the
/// ends of the others.
fn kill_one(victim: usize) -> Vec<(&'static str, Option<i32>, Value, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "[record]\nbatch-bytes = 20000\nsync = \"batch\"\n[nodes]\n";
    let experiment = experiment(folder.path(), 1_000_000);
    let text = std::fs::read_to_string(&experiment).expect("written").replace("[nodes]\n", long);
    std::fs::write(&experiment, text).expect("written");
    let link = format!("shm:kill{victim}-{}", std::process::id());
    let mut nodes: Vec<Node> =
        NODES.iter().map(|node| Node::start(&experiment, &link, node, folder.path())).collect();
    while !NODES[..2].iter().all(|builder| has_recorded(&folder.path().join(builder))) {
        for (name, node) in NODES.iter().zip(&mut nodes) {
            assert!(node.is_alive(), "{name} ended before all had met");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    nodes[victim].kill();
    // Packets come meanwhile, for the node that is dead or from those that live.
    std::thread::sleep(Duration::from_millis(700));
    let mut ends = Vec::new();
    for (_, node) in nodes.iter().enumerate().skip(2).filter(|of| of.0 != victim) {
        send_signal(node.id(), "INT");
    }
    for (number, node) in nodes.into_iter().enumerate() {
        let (status, document, errors) = node.end();
        if number != victim {
            assert_laws(&document);
            ends.push((NODES[number], status, document, errors));
        }
    }
    ends
}

#[test]
fn a_killed_readout_is_not_named_by_the_builders() {
    for (node, status, document, errors) in kill_one(2) {
        let sentence = document["sentence"].as_str().unwrap_or_default();
        match node.starts_with("builder") {
            true => {
                assert_eq!(status, Some(7), "{node}: {errors}");
                assert!(sentence.contains("readout-0 ended before"), "{node}: {sentence}");
            }
            false => assert_eq!(status, Some(0), "{node}: {sentence}{errors}"),
        }
    }
}

#[test]
fn packets_for_a_killed_builder_have_no_place() {
    for (node, status, document, errors) in kill_one(1) {
        let sentence = document["sentence"].as_str().unwrap_or_default();
        match node.starts_with("readout") {
            true => {
                assert_eq!(status, Some(7), "{node}: {errors}");
                assert!(sentence.contains("lost with a node"), "{node}: {sentence}");
            }
            false => assert_eq!(status, Some(0), "{node}: {sentence}{errors}"),
        }
    }
}

/// A readout that dies before it has met the builders leaves them waiting for good, without this.
#[test]
fn nodes_wait_for_one_that_never_comes_beyond_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 1000);
    let text = std::fs::read_to_string(&experiment).expect("written");
    let text = text.replace("[nodes]\n", "[nodes]\njoin-within-s = 4\n");
    std::fs::write(&experiment, text).expect("written");
    let link = format!("shm:never-{}", std::process::id());
    // builder-1 and readout-1 never come.
    let nodes = ["builder-0", "readout-0"]
        .map(|name| (name, Node::start(&experiment, &link, name, folder.path())));
    for (name, node) in nodes {
        let (status, document, errors) = node.end();
        assert_eq!(status, Some(7), "{name}: {errors}");
        let sentence = document["sentence"].as_str().unwrap_or_default();
        let (says, notes) = match name {
            "builder-0" => (
                "readout-1 ended before its last record, or never came",
                "builder-0 waits for readout-1: it has not come yet",
            ),
            _ => ("lost with a node", "builder-1 is gone (it never came)"),
        };
        assert!(sentence.contains(says), "{name}: {sentence}");
        assert!(errors.contains(notes), "{name}: {errors}");
        assert_laws(&document);
    }
}

#[test]
fn a_wrong_node_or_link_is_not_answered_with_what_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 10);
    for (link, node, says) in [
        ("shm:a", "builder-2", "builder-0 to builder-1"),
        ("shm:a", "recorder", "readout-0 to readout-1"),
        ("threads", "builder-0", "leave --node out"),
        ("ship:a", "builder-0", "write threads"),
    ] {
        let output = call(&["run", &experiment, "--link", link, "--node", node]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{link} {node}: {said}");
        assert!(said.contains(says), "{link} {node}: {said}");
    }
}
