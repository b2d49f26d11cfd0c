//! `fluxline bench` on links and between processes as a black box: the report and its files, how
//! it ends when the other side does, and comparing two reports.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::{call, call_json, fluxline, refused, text};
use serde_json::Value;

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const INPUT: i32 = 3;
const LINK: i32 = 6;

/// Few sizes, one round: what is tested is not how fast.
const FEW: &[&str] = &["--quick", "--rounds", "1", "--sizes", "1..64"];

/// Each of these tests wants two cores for itself.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static CORES: Mutex<()> = Mutex::new(());
    if fluxline::pin::allowed_cores().len() < 2 {
        println!("skipped: two cores are needed");
        return None;
    }
    Some(CORES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn one_command_leaves_a_page_that_stands_alone_and_a_document() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let arguments = ["bench", "udp://127.0.0.1", "--only", "pingpong,integrity", "--report"];
    let output = call(&[&arguments[..], &[text(&report)], FEW].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let document: Value = serde_json::from_str(&read(&report.join("report.json"))).expect("JSON");
    assert_eq!(document["link"], "udp://127.0.0.1");
    assert_eq!(document["experiments"][0]["name"], "pingpong");
    assert_eq!(document["experiments"][0]["incomplete"], "");
    for side in ["near", "far"] {
        assert!(document["environment"][side]["kernel"].is_string(), "{side}");
    }
    let html = read(&report.join("report.html"));
    for foreign in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!html.contains(foreign), "the page needs {foreign}");
    }
    // Held against itself nothing differs.
    let file = report.join("report.json");
    let same = call_json(&["bench", "--compare", text(&file), text(&file)]);
    let rows = same["rows"].as_array().expect("a list");
    assert!(rows.len() > 20, "{same}");
    assert!(rows.iter().all(|row| row["verdict"] != "slower"), "{same}");
}

#[test]
fn netpipes_format_is_all_that_is_printed() {
    let Some(_alone) = alone() else { return };
    let arguments = ["bench", "tcp://127.0.0.1", "--only", "pingpong", "--format", "netpipe"];
    let output = call(&[&arguments[..], FEW].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("text");
    let sizes: Vec<&str> =
        lines.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(sizes[..6], ["1", "2", "3", "4", "6", "8"], "{lines}");
}

#[test]
fn every_mode_of_netpipe_prints_its_file_on_a_simulated_link() {
    let modes =
        [("pingpong", 1), ("stream", 1), ("bidirectional", 2), ("cold", 1), ("integrity", 5)];
    for (mode, first) in modes {
        let arguments = ["bench", "sim:atoll?grid=2x1", "--only", mode, "--format", "netpipe"];
        let output = call(&[&arguments[..], FEW].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("text");
        let columns: Vec<&str> = lines.lines().next().expect("a line").split_whitespace().collect();
        assert_eq!(columns[0], first.to_string(), "{mode}: {lines}");
        assert_eq!(columns.len(), if mode == "integrity" { 2 } else { 3 }, "{mode}: {lines}");
    }
    let two = ["bench", "sim:atoll?grid=2x1", "--only", "pingpong,stream", "--format", "netpipe"];
    let message = refused(&call(&[&two[..], FEW].concat()), FAILED);
    assert!(message.contains("prints one experiment"), "{message}");
}

#[test]
fn networks_and_published_curves_are_on_one_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let (curves, page) = (folder.path().join("curves.csv"), folder.path().join("compare.html"));
    std::fs::write(&curves, "# measured once\nbytes,giga,mega\n8,4.7,0\n64,16,8\n")
        .expect("written");
    let giga = format!("{}:giga", text(&curves));
    let links = ["bench", "--compare", "sim:sci?nodes=2&model=lc2", "sim:atoll?grid=2x1"];
    let more = ["--curve", &giga, "-o", text(&page), "--report", text(folder.path())];
    let document = call_json(&[&links[..], &more, FEW].concat());
    let names: Vec<&str> = document["networks"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|network| network["name"].as_str())
        .collect();
    assert_eq!(names, ["sim:sci?nodes=2&model=lc2", "sim:atoll?grid=2x1", "giga"]);
    let figures = &document["networks"][0];
    assert!(figures["latency_us"].as_f64().expect("a number") > 1.0, "{figures}");
    assert!(document["networks"][2]["latency_us"].is_null(), "its rates are rounded");
    let html = read(&page);
    assert!(names.iter().all(|name| html.contains(&name.replace('&', "&amp;"))), "{names:?}");
    let stored = folder.path().join("compare.json");
    assert_eq!(serde_json::from_str::<Value>(&read(&stored)).expect("JSON"), document);
    // The same links in a table: the columns line up.
    let output = call(&[&links[..], FEW].concat());
    let table = String::from_utf8(output.stdout).expect("text");
    let ends: Vec<Option<usize>> = table
        .lines()
        .map(|line| {
            let bytes = line.find("origin").or(line.find("simulated"))?;
            Some(line[..bytes].chars().count())
        })
        .collect();
    assert_eq!(ends.len(), 3, "{table}");
    assert!(ends.iter().all(|end| end.is_some() && *end == ends[0]), "{table}");
}

#[test]
fn wrong_networks_and_curves_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let curves = folder.path().join("curves.csv");
    std::fs::write(&curves, "bytes,giga\n8,x\n").expect("written");
    let refuse =
        |arguments: &[&str]| refused(&call(&[&["bench", "--compare"], arguments].concat()), INPUT);
    assert!(refuse(&["ib://here", "shm:"]).contains("ib://here: this names no link"));
    let named = format!("{}:mega", text(&curves));
    assert!(refuse(&["shm:", "--curve", text(&curves)]).contains("line 2: \"x\" is not a number"));
    std::fs::write(&curves, "bytes,giga\n8,1\n").expect("written");
    assert!(refuse(&["shm:", "--curve", &named]).contains("\"mega\" is not a curve of the file"));
    assert!(refuse(&["shm:", "--curve", "/no/such.csv"]).contains("cannot be read"));
    assert!(refuse(&["/no/such.json"]).contains("/no/such.json"));
}

/// A side that serves, killed when dropped, and where.
struct Serving(Child, String);

impl Serving {
    fn start(arguments: &[&str]) -> Serving {
        let mut command = fluxline();
        command.args(["bench", "--serve", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = loop {
            let line = lines.next().expect("it says where").expect("text");
            if let Some((_, address)) = line.split_once("Listening on ") {
                break address.to_owned();
            }
        };
        // Read on, or what it says would block it.
        std::thread::spawn(move || lines.for_each(drop));
        Serving(child, address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_side_that_serves_takes_who_has_the_key_and_nobody_else() {
    let Some(_alone) = alone() else { return };
    let serving = Serving::start(&["--key", "right"]);
    let bench = |key: &str| {
        let arguments = ["bench", "udp://127.0.0.1", "--only", "integrity", "--json"];
        call(&[&arguments[..], &["--peer", &serving.1, "--key", key], FEW].concat())
    };
    let wrong = bench("wrong");
    assert_eq!(wrong.status.code(), Some(LINK));
    let message = String::from_utf8_lossy(&wrong.stderr);
    assert!(message.contains("the key is wrong"), "{message}");
    for _ in 0..2 {
        let output = bench("right");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_cannot_be_measured_is_answered_with_a_sentence() {
    let bench = |arguments: &[&str]| call(&[&["bench"], arguments].concat());
    let message = refused(&bench(&["udp://127.0.0.1", "--peer", "127.0.0.1:1", "--quick"]), LINK);
    assert!(message.contains("nobody serves at 127.0.0.1:1"), "{message}");
    let message = refused(&bench(&["tcp://127.0.0.1", "--only", "load"]), FAILED);
    assert!(message.contains("not possible on tcp://"), "{message}");
    let message = refused(&bench(&["udp://127.0.0.1", "--only", "nonsense"]), FAILED);
    assert!(message.contains("pingpong"), "{message}");
    let message = refused(&bench(&["udp://127.0.0.1", "--cores", "100000,100001"]), FAILED);
    assert!(message.contains("100000"), "{message}");
    let message = refused(&bench(&["--compare", "/no/such.json", "/no/such.json"]), INPUT);
    assert!(message.contains("/no/such.json"), "{message}");
    for wrong in [
        &["udp://127.0.0.1", "--sizes", "64..1"][..],
        &["udp://127.0.0.1", "--sizes", "0..8"],
        &["udp://127.0.0.1", "--trial-seconds", "0"],
        &["udp://nowhere"],
        &[],
    ] {
        assert_eq!(bench(wrong).status.code(), Some(USAGE), "{wrong:?}");
    }
    let listed = String::from_utf8(bench(&["--list"]).stdout).expect("text");
    for name in ["stream", "pingpong", "load", "integrity"] {
        assert!(listed.contains(&format!("{name} (")), "{listed}");
    }
}

#[test]
fn one_core_alone_is_refused_with_what_to_do() {
    let core = fluxline::pin::allowed_cores()[0].to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", &core, crate::support::PROGRAM, "bench", "udp://127.0.0.1"]);
    let message = refused(&command.output().expect("taskset starts"), FAILED);
    assert!(message.contains("two cores") && message.contains("taskset"), "{message}");
}
