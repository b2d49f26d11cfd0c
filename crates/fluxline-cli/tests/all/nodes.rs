//! Nodes of one run as processes of their own: what each says at its end, and what the files have.

use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::support::{call, fluxline, number};

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
struct Node(Option<Child>);

impl Node {
    fn start(experiment: &str, link: &str, node: &str, folder: &Path) -> Node {
        let mut command = fluxline();
        let child = command
            .args(["--json", "run", experiment, "--link", link, "--node", node, "--folder"])
            .arg(folder.join(node))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Node(Some(child.expect("the program starts")))
    }

    fn kill(&mut self) {
        self.0.as_mut().expect("it runs").kill().expect("it runs");
    }

    /// Waits for its end; returns its status and document.
    fn end(mut self) -> (Option<i32>, Value, String) {
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

fn assert_laws(document: &Value) {
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
}

#[test]
fn processes_on_shared_memory_lose_events() {
    run_apart(&format!("shm:apart{}", std::process::id()));
}

#[test]
fn processes_on_ethernet_lose_events() {
    run_apart("udp:127.0.0.1:23791");
}

/// Runs four nodes of which one is killed; returns the ends of the others.
fn kill_one(victim: usize) -> Vec<(&'static str, Option<i32>, Value, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 4000);
    let link = format!("shm:kill{victim}-{}", std::process::id());
    let mut nodes: Vec<Node> =
        NODES.iter().map(|node| Node::start(&experiment, &link, node, folder.path())).collect();
    // It has begun when its folder is there.
    while !folder.path().join(NODES[victim]).join("run.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    nodes[victim].kill();
    let mut ends = Vec::new();
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
