//! `fluxline sim` as a black box: the same seed gives the same bytes, mistakes are named, and files
//! are there whole or not at all.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::support::{call, call_json, fluxline, refused, text};

const INPUT: i32 = 3;

/// A few points of a small network, in a moment.
const SMALL: &str = "title = \"a small </script> network\"\n[network]\nkind = \"torus\"\nside = 3\n\
    [run]\nloads = [0.05, 0.1, 0.2]\nsaturation = false\nwarm-up-us = 1.0\n\
    warm-up-max-us = 4.0\nduration-us = 4.0\n";

/// More than anybody waits for.
const ENDLESS: &str = "[network]\nkind = \"torus\"\nside = 16\n[run]\nloads = [0.1, 0.2]\n\
    duration-us = 1e7\n";

fn scenario(folder: &Path, content: &str) -> String {
    let file = folder.join("scenario.toml");
    std::fs::write(&file, content).expect("written");
    text(&file).to_string()
}

/// Every file of a folder with its bytes, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("a file"))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_thread_and_on_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = scenario(folder.path(), SMALL);
    let mut all = Vec::new();
    for (report, threads) in [("one", "1"), ("two", "2"), ("again", "2")] {
        let report = folder.path().join(report);
        let arguments = ["sim", "run", &file, "--threads", threads, "--report", text(&report)];
        let output = call(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        all.push(files(&report));
    }
    let names: Vec<&str> = all[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "latency.parquet",
            "links.parquet",
            "nodes.parquet",
            "points.parquet",
            "report.html",
            "results.json"
        ]
    );
    assert!(all[0] == all[1], "threads change the files");
    assert!(all[1] == all[2], "two runs differ");
    assert!(
        all[0]
            .iter()
            .filter(|(name, _)| name.ends_with("parquet"))
            .all(|(_, bytes)| { bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") })
    );
    let html = String::from_utf8(all[0][4].1.clone()).expect("UTF-8");
    assert!(html.contains("a small &lt;/script&gt; network") && html.ends_with("</html>\n"));
}

#[test]
fn another_seed_gives_another_fingerprint_and_points_follow_their_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = scenario(folder.path(), SMALL);
    let one = call_json(&["sim", "run", &file, "--seed", "1"]);
    let two = call_json(&["sim", "run", &file, "--seed", "2"]);
    assert_ne!(one["results"]["fingerprint"], two["results"]["fingerprint"]);
    assert_eq!(two["scenario"]["seed"], 2);
    let points = one["results"]["points"].as_array().expect("points");
    assert_eq!(points.len(), 3);
    let offered: Vec<f64> =
        points.iter().map(|point| point["offered_mb_s"].as_f64().expect("a number")).collect();
    // 16 B/ns: a load of 0.05 is 800 MB/s a node; 9 nodes and 4 us make some 450 messages.
    assert!((640.0..960.0).contains(&offered[0]), "{offered:?}");
    assert!(offered[2] > 2.5 * offered[0], "{offered:?}");
}

#[test]
fn a_trace_is_json_with_the_entries_of_its_time_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for content in ["[network]\nnodes = 4", "[network]\nkind = \"torus\"\nside = 3"] {
        let file = scenario(folder.path(), &format!("{content}\n[run]\nloads = [0.05]"));
        let out = folder.path().join("trace.json");
        let out = out.to_str().expect("UTF-8");
        call_json(&["sim", "run", &file, "--quick", "--trace", out, "--trace-us", "5"]);
        let text = std::fs::read_to_string(out).expect("a file");
        let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        let times: Vec<f64> = events.iter().filter_map(|event| event["ts"].as_f64()).collect();
        assert!(times.len() > 10, "{} entries", times.len());
        assert!(times.is_sorted() && times.iter().all(|&us| us <= 5.0), "{times:?}");
        assert!(!text.contains("unknown"), "each kind has a name");
    }
}

#[test]
fn mistakes_in_a_scenario_are_named_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = scenario(folder.path(), "seed = 1\n[network]\nnods = 4\n");
    let message = refused(&call(&["sim", "run", &file]), INPUT);
    assert!(
        message.contains("scenario.toml:3:1: `nods` is not a key here; did you mean `nodes`?"),
        "{message}"
    );
    let file = scenario(folder.path(), "[network]\nnodes = 1\n");
    let message = refused(&call(&["sim", "run", &file]), INPUT);
    assert!(message.contains("`nodes` must give 2 to 65520"), "{message}");
    let file = scenario(folder.path(), "[network]\nkind = \"torus\"\nbuffer-bytes = 3\n");
    let output = call(&["sim", "run", &file]);
    let message = refused(&output, 1);
    assert!(message.contains("a buffer of 3 bytes holds no packet"), "{message}");
    let message = refused(&call(&["sim", "run", "no/such/file.toml"]), INPUT);
    assert!(message.contains("no/such/file.toml cannot be read"), "{message}");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_anything_is_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = scenario(folder.path(), ENDLESS);
    let message = refused(&call(&["sim", "run", &file, "--report", &file]), 1);
    assert!(message.contains("scenario.toml"), "{message}");
}

#[test]
fn whoever_is_interrupted_leaves_no_half_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = scenario(folder.path(), ENDLESS);
    for signal in ["TERM", "KILL"] {
        let report = folder.path().join(signal);
        let mut child = fluxline()
            .args(["sim", "run", &file, "--report", text(&report)])
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        while !report.exists() {
            assert!(child.try_wait().expect("waitable").is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        let number = child.id().to_string();
        let killed = std::process::Command::new("kill").args(["-s", signal, &number]).status();
        assert!(killed.expect("kill starts").success());
        assert!(!child.wait().expect("waitable").success());
        assert_eq!(files(&report), []);
    }
}
