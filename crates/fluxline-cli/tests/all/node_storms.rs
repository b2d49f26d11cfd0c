//! Nodes as processes that are killed and stopped at drawn moments, on shared memory and Ethernet.
//! Each packet that was sent is in the files once, or in a named row of the gathered ledger.
//!
//! The judge of the files is a program of Python that shares no code with ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fluxline_core::random::{Draw, test_count, test_seed};
use serde_json::Value;

use crate::nodes::{Node, assert_laws};
use crate::support::{PATIENCE, fluxline, number, send_signal};

/// Packets of each board; each input has two.
const PACKETS: u64 = 3000;
/// Memory for everything that a readout hands over, in which builders save several times.
const KEEP_BYTES: u64 = 2_000_000;
/// About the size of a packet in the files \[byte\].
const PACKET_BYTES: u64 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The node is killed.
    Kill,
    /// The node stands still for a time \[ms\].
    Stop(u64),
}

#[derive(Debug)]
struct Case {
    link: String,
    readouts: u64,
    builders: u64,
    /// Memory of readouts for the successors of builders.
    keep_bytes: u64,
    /// Victims by their places (builders, then readouts), and how full the files are by then \[%\].
    faults: Vec<Blow>,
}

#[derive(Debug)]
struct Blow {
    victim: u64,
    fault: Fault,
    at_percent: u64,
}

impl Case {
    fn draw(draw: &mut Draw, number: u64) -> Case {
        let (readouts, builders) = (1 + draw.below(2), 1 + draw.below(3));
        let link = match draw.below(2) {
            0 => format!("shm:storm{number}-{}", std::process::id()),
            _ => format!("udp:127.0.0.1:{}", crate::support::free_ports(5)),
        };
        let mut faults = Vec::new();
        for _ in 0..1 + draw.below(2) {
            let fault = match draw.below(2) {
                0 => Fault::Kill,
                _ => Fault::Stop(100 + draw.below(900)),
            };
            let victim = draw.below(readouts + builders);
            // From 20 % on, all nodes are connected.
            faults.push(Blow { victim, fault, at_percent: 20 + draw.below(80) });
        }
        faults.sort_by_key(|blow| blow.at_percent);
        let keep_bytes = if draw.chance(0.5) { KEEP_BYTES } else { 0 };
        Case { link, readouts, builders, keep_bytes, faults }
    }

    fn names(&self) -> Vec<String> {
        let builders = (0..self.builders).map(|number| format!("builder-{number}"));
        builders.chain((0..self.readouts).map(|number| format!("readout-{number}"))).collect()
    }

    fn sent(&self) -> u64 {
        self.readouts * 2 * PACKETS
    }

    /// Writes the experiment: an input of two boards for each readout.
    fn experiment(&self, at: &Path) -> String {
        let mut text = format!(
            "name = \"storm\"\n[events]\nbuild = \"key\"\n[nodes]\nreadout = {{ count = {}, keep-bytes = {} }}\n\
             builder = {{ count = {} }}\n[record]\nbatch-bytes = 100000\nsync = \"batch\"\n",
            self.readouts, self.keep_bytes, self.builders
        );
        for number in 0..self.readouts {
            text.push_str(&format!(
                "[[source]]\nname = \"input-{number}\"\nformat = \"counter\"\n\
                 [source.emulator]\nlink = \"direct\"\nsources = 2\nrate = 2000\n\
                 packets = {PACKETS}\nseed = {number}\npayload-bytes = 32\n"
            ));
        }
        let path = at.join("storm.toml");
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }
}

impl Case {
    /// Returns true when every builder that was killed has a successor that lives, with all that
    /// readouts keep.
    fn costs_nothing(&self, killed: &[String]) -> bool {
        let is_dead = |number: u64| killed.contains(&format!("builder-{number}"));
        let succeeds = |number: u64| !is_dead((number + 1) % self.builders);
        let readouts_live = !killed.iter().any(|name| name.starts_with("readout"));
        self.keep_bytes > 0
            && self.builders > 1
            && readouts_live
            && (0..self.builders).filter(|number| is_dead(*number)).all(succeeds)
    }
}

/// Returns the bytes of all event files.
fn recorded_bytes(folders: &[PathBuf]) -> u64 {
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let events = files
        .flatten()
        .filter(|file| file.file_name().to_str().is_some_and(|name| name.starts_with("events-")));
    events.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// The ends of the nodes, and their folders.
struct Outcome {
    at: tempfile::TempDir,
    /// By name; those that ended by themselves.
    ended: BTreeMap<String, (Option<i32>, Value, String)>,
    killed: Vec<String>,
}

impl Outcome {
    fn folder(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }
}

fn storm(case: &Case) -> Outcome {
    let at = tempfile::tempdir().expect("a folder");
    let experiment = case.experiment(at.path());
    let names = case.names();
    let folders: Vec<PathBuf> = names.iter().map(|name| at.path().join(name)).collect();
    let start = |name: &String| Node::start(&experiment, &case.link, name, at.path());
    let mut nodes: Vec<Node> = names.iter().map(start).collect();
    for Blow { victim, fault, at_percent } in &case.faults {
        let enough = case.sent() * PACKET_BYTES * at_percent / 100;
        let began = Instant::now();
        // A storm that killed a builder may never fill so much: then all others have ended.
        while recorded_bytes(&folders) < enough && nodes.iter_mut().any(Node::is_alive) {
            assert!(began.elapsed() < PATIENCE, "{case:?}: nothing goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        let node = &mut nodes[*victim as usize];
        match fault {
            Fault::Kill => node.kill(),
            Fault::Stop(ms) if node.is_alive() => {
                send_signal(node.id(), "STOP");
                std::thread::sleep(Duration::from_millis(*ms));
                send_signal(node.id(), "CONT");
            }
            Fault::Stop(_) => {}
        }
    }
    let mut outcome = Outcome { at, ended: BTreeMap::new(), killed: Vec::new() };
    for (name, node) in names.iter().zip(nodes) {
        match node.end_within(PATIENCE) {
            Some((None, _, _)) => outcome.killed.push(name.clone()),
            Some(end) => drop(outcome.ended.insert(name.clone(), end)),
            None => panic!("{case:?}: {name} does not end"),
        }
    }
    outcome
}

/// Returns what Python counts in some folders.
fn counted(python: &str, folders: &[PathBuf]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/node_storms.py");
    let packets = PACKETS.to_string();
    let output = Command::new(python).arg(script).arg(packets).args(folders).output();
    let output = output.expect("python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no counts: {said}"))
}

fn gather(outcome: &Outcome, case: &Case) -> (Option<i32>, Value) {
    let readout_was_killed =
        |name: &&String| name.starts_with("readout") && outcome.killed.contains(name);
    let names = case.names();
    let given = names.iter().filter(|name| !readout_was_killed(name));
    let output = fluxline()
        .args(["--json", "gather"])
        .args(given.map(|name| outcome.folder(name)))
        .arg("--into")
        .arg(outcome.folder("whole"))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{case:?}: no document: {said}"));
    (output.status.code(), document)
}

fn judge(case: &Case, outcome: &Outcome, python: &str) {
    let builders: Vec<PathBuf> =
        (0..case.builders).map(|number| outcome.folder(&format!("builder-{number}"))).collect();
    let found = counted(python, &builders);
    let (status, document) = gather(outcome, case);
    let whole = counted(python, &[outcome.folder("whole")]);
    let context = format!("{case:?}: killed {:?}; {found}; {}", outcome.killed, document["ledger"]);
    assert_laws(&document);
    // The files of a builder that was replaced have events that its successor has, too: `gather`
    // knows which.
    let is_raw = case.keep_bytes == 0 || outcome.killed.is_empty();
    assert_eq!(number(&whole, "doubled"), 0, "{context}");
    assert!(!is_raw || number(&found, "doubled") == 0, "{context}");
    for counts in [&found, &whole] {
        assert_eq!(number(counts, "strangers"), 0, "{context}");
    }
    let packets = number(&whole, "packets");
    assert!(!is_raw || number(&found, "packets") == packets, "{context}");
    assert_eq!(number(&document, "packets"), packets, "{context}");
    for (name, (_, document, _)) in &outcome.ended {
        assert_laws(document);
        let sentence = document["sentence"].as_str().unwrap_or_default();
        assert!(!outcome.killed.is_empty() || sentence.is_empty(), "{context}: {name}: {sentence}");
    }
    let readouts_died = outcome.killed.iter().any(|name| name.starts_with("readout"));
    if outcome.killed.is_empty() || case.costs_nothing(&outcome.killed) {
        assert_eq!((status, packets), (Some(0), case.sent()), "{context}");
        return;
    }
    assert_eq!(status, Some(7), "{context}");
    let lost = number(&document["ledger"]["edges"], "lost");
    match readouts_died {
        // What a readout took along was never counted; what the others handed over was.
        true => assert!(packets + lost <= case.sent(), "{context}"),
        false => assert_eq!(packets + lost, case.sent(), "{context}"),
    }
    let builders_died = outcome.killed.iter().any(|name| name.starts_with("builder"));
    for readout in 0..case.readouts {
        let is_whole = !builders_died && !outcome.killed.contains(&format!("readout-{readout}"));
        if is_whole {
            let of = number(&found["by_input"], &format!("input-{readout}"));
            assert_eq!(of, 2 * PACKETS, "{context}: input-{readout}");
        }
    }
}

/// Returns a Python that has pyarrow; `None`, said aloud, where there is none.
pub fn python() -> Option<String> {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let probe = Command::new(&python).args(["-c", "import pyarrow"]).output();
    if probe.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var_os("FLUXLINE_REQUIRE_TOOLS").is_some();
    assert!(!required, "{python} has no pyarrow, and FLUXLINE_REQUIRE_TOOLS is set");
    println!("skipped: {python} has no pyarrow; FLUXLINE_PYTHON names another");
    None
}

#[test]
fn a_packet_is_in_no_place_or_in_two_after_a_storm() {
    let Some(python) = python() else { return };
    let mut draw = Draw::new(test_seed!(33));
    for number in 0..test_count!(6) {
        let case = Case::draw(&mut draw, number);
        println!("{case:?}");
        judge(&case, &storm(&case), &python);
    }
}

#[test]
fn a_killed_builder_costs_packets_that_readouts_kept() {
    let Some(python) = python() else { return };
    for (victim, at_percent) in [(0, 30), (1, 60)] {
        let link = format!("shm:heir{victim}-{}", std::process::id());
        let faults = vec![Blow { victim, fault: Fault::Kill, at_percent }];
        let case = Case { link, readouts: 2, builders: 2, keep_bytes: KEEP_BYTES, faults };
        let outcome = storm(&case);
        assert_eq!(outcome.killed, [format!("builder-{victim}")], "it was killed too late");
        judge(&case, &outcome, &python);
        let successor = format!("builder-{}", 1 - victim);
        let said = &outcome.ended[&successor].1["notes"].to_string();
        assert!(said.contains(&format!("goes on with the keys of builder-{victim}")), "{said}");
    }
}
