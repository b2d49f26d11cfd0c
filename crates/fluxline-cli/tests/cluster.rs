//! An experiment over several processes on a real broker: readouts, builders, deaths, takeovers,
//! and the operator's requests. The events are those of one machine.
#![cfg(feature = "kafka")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything; a busy machine is slow.
const WITHIN: Duration = Duration::from_secs(180);

/// One broker at a time: each takes 300 MB and half a core.
static ALONE: Mutex<()> = Mutex::new(());

struct Broker {
    _alone: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
    address: String,
}

fn broker_sh(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/broker.sh");
    let output = Command::new(script).args(arguments).output().expect("broker.sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "broker.sh {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Broker {
    fn start() -> Broker {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let address = broker_sh(&["start", &folder.path().display().to_string()]);
        Broker { _alone: alone, folder, address }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        broker_sh(&["stop", &self.folder.path().display().to_string()]);
    }
}

/// A process of the program; killed when it is dropped.
struct Node {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Returns standard error so far.
    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn wait_for(&self, words: &str) {
        until(&format!("{}: {words}", self.name), || self.said().contains(words), || self.said());
    }

    /// Waits for the end; returns the exit status and the document on standard output.
    fn end(mut self) -> (Option<i32>, Value, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(began.elapsed() < WITHIN, "{} does not end: {}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut text = String::new();
        let out = self.child.stdout.as_mut().expect("a pipe");
        out.read_to_string(&mut text).expect("text");
        let document = serde_json::from_str(&text).unwrap_or(Value::Null);
        (status.code(), document, self.said())
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    }
}

fn until(words: &str, mut is_true: impl FnMut() -> bool, said: impl Fn() -> String) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < WITHIN, "waited in vain for {words}: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A folder with an experiment, whose nodes run in it.
struct Lab {
    broker: Broker,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new(sources: &str) -> Lab {
        let (broker, folder) = (Broker::start(), tempfile::tempdir().expect("a folder"));
        let text = format!(
            "name = \"beam\"\n[cluster]\nbrokers = \"{}\"\nname = \"lab\"\npartitions = 3\n\
             [node.r1]\nsources = [\"a\"]\n[node.r2]\nsources = [\"b\"]\n[events]\nbuild = \
             \"key\"\n{sources}",
            broker.address
        );
        std::fs::write(folder.path().join("e.toml"), text).expect("written");
        Lab { broker, folder }
    }

    fn address(&self) -> String {
        format!("kafka://{}/lab", self.broker.address)
    }

    fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_fluxline"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("the program");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (status, out, said) = self.command(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        out
    }

    fn node(&self, node: &str, id: &str) -> Node {
        let name = format!("{node} {id}");
        let said = self.folder.path().join(format!("{node}-{id}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_fluxline"))
            .args(["--json", "run", "e.toml", "--node", node, "--id", id])
            .current_dir(self.folder.path())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&said).expect("a log"))
            .spawn()
            .expect("the program");
        Node { name, child, said }
    }

    fn status(&self) -> Value {
        let text = self.done(&["--json", "ctl", &self.address(), "status"]);
        serde_json::from_str(&text).expect("JSON")
    }

    /// Returns the rows of a run that do not depend on the machine: sorted, without the numbers of
    /// rows and sources, and without the time of building.
    fn rows(&self, run: &str) -> Vec<String> {
        let to = format!("{run}-rows");
        let columns = "key,generation,status,missing,first_time,last_time,packets,bytes,event_key,\
                       source_name,sequence,packet_time,packet_number,event_number,amplitude";
        self.done(&["export", run, "--to", "csv", "--columns", columns, "--into", &to]);
        let mut rows = Vec::new();
        for table in ["events.csv", "counter-data.csv"] {
            let path = self.folder.path().join(&to).join(table);
            let text = std::fs::read_to_string(path).expect("a table");
            rows.extend(text.lines().map(|row| format!("{table} {}", with_sorted_words(row))));
        }
        rows.sort();
        rows
    }
}

/// Sorts the sentences about missing parts: their order follows the numbers of the sources.
fn with_sorted_words(row: &str) -> String {
    let cell = |cell: &str| {
        let mut words: Vec<&str> = cell.split("; ").collect();
        words.sort_unstable();
        words.join("; ")
    };
    row.split(',').map(cell).collect::<Vec<_>>().join(",")
}

fn well(node: Node) -> Value {
    let name = node.name.clone();
    let (status, document, said) = node.end();
    assert_eq!(status, Some(0), "{name}: {said}");
    document
}

const CAPTURES: &str = "[[source]]\nname = \"a\"\nformat = \"counter\"\npcap = { file = \
                        \"a.pcapng\", speed = \"recorded\" }\n[[source]]\nname = \"b\"\nformat = \
                        \"counter\"\npcap = { file = \"b.pcapng\", speed = \"recorded\" }\n";

#[test]
fn events_are_those_of_one_machine_although_a_builder_is_killed() {
    let lab = Lab::new(CAPTURES);
    for (file, seed) in [("a.pcapng", "1"), ("b.pcapng", "2")] {
        lab.done(&[
            "emulate",
            "counter",
            "--to",
            file,
            "--sources",
            "3",
            "--rate",
            "100",
            "--packets",
            "800",
            "--drop",
            "0.01",
            "--seed",
            seed,
        ]);
    }
    lab.done(&["run", "e.toml", "--folder", "alone"]);
    let (one, two) = (lab.node("builder", "b1"), lab.node("builder", "b2"));
    one.wait_for("waiting for");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    until("a batch", || has_events(lab.folder.path()), || one.said() + &two.said());
    one.signal("-KILL");
    drop(one);
    let three = lab.node("builder", "b3");
    let mut handed = 0;
    for readout in readouts {
        handed += well(readout)["counters"]["handed"].as_u64().expect("a count");
    }
    let builders = [well(two), well(three)];
    assert!(builders.iter().all(|document| document["over"] == true), "{builders:?}");
    let address = lab.address();
    lab.done(&[
        "gather",
        "runs/lab-0001-b1",
        "runs/lab-0001-b2",
        "runs/lab-0001-b3",
        "--from",
        &address,
        "--into",
        "together",
    ]);
    let (alone, together) = (lab.rows("alone"), lab.rows("together"));
    let packets = alone.iter().filter(|row| row.starts_with("counter-data")).count() as u64;
    assert_eq!(packets, handed + 1, "one row for each packet, and the names");
    let differ = alone.iter().zip(&together).filter(|(one, other)| one != other).count();
    assert!(alone == together, "{differ} of {} rows differ", alone.len());
}

/// Returns true when a builder has written events.
fn has_events(folder: &Path) -> bool {
    let builders = std::fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let parts =
        builders.flat_map(|of| std::fs::read_dir(of.path()).into_iter().flatten().flatten());
    let mut files =
        parts.flat_map(|of| std::fs::read_dir(of.path()).into_iter().flatten().flatten());
    files.any(|file| {
        let is_events = file.file_name().to_string_lossy().starts_with("events");
        is_events && file.metadata().is_ok_and(|of| of.len() > 10_000)
    })
}

const LIVE: &str = "[[source]]\nname = \"a\"\nformat = \"counter\"\nemulator = { sources = 2, rate \
                    = 100 }\n[[source]]\nname = \"b\"\nformat = \"counter\"\nemulator = { sources \
                    = 2, rate = 100 }\n";

#[test]
fn a_readout_that_dies_starts_again_or_is_ended_and_a_second_one_replaces_it() {
    let lab = Lab::new(LIVE);
    let address = lab.address();
    let (status, _, said) = lab.command(&["run", "e.toml", "--node", "r3"]);
    assert!(status == Some(3) && said.contains("`r1`, `r2` or `builder`"), "{said}");
    let builder = lab.node("builder", "b1");
    builder.wait_for("made the topics");
    let (status, _, said) = lab.command(&["ctl", &address, "stop"]);
    assert!(status == Some(3) && said.contains("no run that goes on"), "{said}");
    let (status, _, said) = lab.command(&["ctl", &address, "start"]);
    assert!(status == Some(3) && said.contains("every readout node"), "{said}");
    let (first, other) = (lab.node("r1", "x1"), lab.node("r2", "y1"));
    first.wait_for("reads out");
    other.wait_for("reads out");
    lab.done(&["ctl", &address, "shot", "42"]);
    lab.done(&["ctl", &address, "note", "beam on"]);
    // A readout is killed and started again: the others see it.
    first.signal("-KILL");
    other.wait_for("node `r1` (process");
    other.wait_for("silent for 3 s");
    let state = lab.status();
    assert_eq!((&state["run"]["shot"], &state["run"]["number"]), (&42.into(), &1.into()));
    let dead = |of: &&Value| of["node"] == "r1" && of["life"] == "dead";
    assert!(state["nodes"].as_array().expect("nodes").iter().any(|of| dead(&of)), "{state}");
    drop(first);
    let again = lab.node("r1", "x2");
    again.wait_for("start 1 of this node");
    // A second process of the same name: the older one stops.
    let third = lab.node("r1", "x3");
    third.wait_for("start 2 of this node");
    let (status, _, said) = again.end();
    assert!(status == Some(1) && said.contains("two nodes have the same name"), "{said}");
    assert!(said.contains("`r1` was started again as process"), "{said}");
    // A readout that is dead for good is ended by the operator.
    other.signal("-KILL");
    third.wait_for("node `r2` (process");
    third.wait_for(&format!("fluxline ctl {address} end r2"));
    drop(other);
    let (status, _, said) = lab.command(&["ctl", &address, "end", "r9"]);
    assert!(status == Some(3) && said.contains("it has r1, r2"), "{said}");
    lab.done(&["ctl", &address, "end", "r2"]);
    let (status, _, said) = lab.node("r2", "y2").end();
    assert!(status == Some(1) && said.contains("already ended in run 1"), "{said}");
    lab.done(&["ctl", &address, "stop"]);
    well(third);
    let document = well(builder);
    let counters = &document["counters"];
    assert_eq!((&document["over"], &counters["records_missing"]), (&true.into(), &0.into()));
    assert!(counters["taken"].as_u64() > Some(500), "{counters}");
    // A second run on the same topics.
    let builder = lab.node("builder", "b1");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    readouts.iter().for_each(|readout| readout.wait_for("run 2 goes on"));
    builder.wait_for("run 2 goes on");
    readouts.iter().for_each(|readout| readout.signal("-INT"));
    let handed: u64 = readouts
        .map(|readout| well(readout)["counters"]["handed"].as_u64().expect("a count"))
        .iter()
        .sum();
    assert_eq!(well(builder)["counters"]["taken"], handed);
}
