//! Senders of raw datagrams as processes of their own, as a black box: who they are, what is left
//! when one is killed, and that none outlives its benchmark.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::{call_json, fluxline, sentence, text};
use serde_json::Value;

const FAILED: i32 = 1;
const BENCH: &[&str] = &["bench", "udp://127.0.0.1", "--only", "datagrams", "--quick"];
/// The longest wait for a prompt event on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each of these tests wants two cores for itself.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static CORES: Mutex<()> = Mutex::new(());
    if fluxline::pin::allowed_cores().len() < 2 {
        println!("skipped: two cores are needed");
        return None;
    }
    Some(CORES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The senders that `parent` has started and that have not ended. Source: proc_pid_stat(5).
fn senders_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    let is_sender = |process: &u32| {
        let read = |file| std::fs::read_to_string(format!("/proc/{process}/{file}"));
        let stat = read("stat").unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut words = after_name.split_whitespace();
        let lives = words.next().is_some_and(|state| state != "Z");
        let is_child = words.next() == Some(&parent.to_string());
        lives && is_child && read("cmdline").unwrap_or_default().contains("\0--send")
    };
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_sender)
        .collect()
}

/// Starts a benchmark of long trials; returns when that number of senders sends.
fn sending(report: &Path, senders: usize) -> (Child, Vec<u32>) {
    let mut command = fluxline();
    command.args(BENCH).args(["--sizes", "64..64", "--trial-seconds"]);
    // The first trials have one sender, and have to be over soon.
    command.arg(if senders == 1 { "600" } else { "3" }).args(["--report", text(report)]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bench = command.spawn().expect("it starts");
    let began = Instant::now();
    let found = loop {
        let found = senders_of(bench.id());
        if found.len() == senders {
            break found;
        }
        if began.elapsed() > PATIENCE {
            bench.kill().and_then(|()| bench.wait()).expect("it is gone");
            panic!("no {senders} senders: {found:?}");
        }
    };
    (bench, found)
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "process {process} is there");
}

#[test]
fn one_and_two_senders_are_processes_and_the_record_says_on_which_cores() {
    let Some(_alone) = alone() else { return };
    let few = ["--sizes", "64..64", "--trial-seconds", "0.1", "--json"];
    let document = call_json(&[BENCH, &few].concat());
    let done = &document["experiments"][0];
    assert_eq!(done["incomplete"], "", "{done}");
    let placements = done["placements"].as_array().expect("a list");
    for who in ["sender alone", "sender 1 of 2", "sender 2 of 2"] {
        let of = |placement: &&Value| placement["who"] == who;
        let placement = placements.iter().find(of).unwrap_or_else(|| panic!("{who}: {done}"));
        assert_eq!(placement["what"], "process", "{who}");
        assert_eq!(placement["cores"].as_array().map(Vec::len), Some(1), "{who}: {placement}");
    }
    assert!(placements.iter().any(|placement| placement["who"] == "receiver"), "{done}");
    let notes = done["notes"].as_array().expect("a list");
    let is_said =
        |note: &Value| note.as_str().is_some_and(|text| text.contains("process of its own"));
    assert!(notes.iter().any(is_said), "{notes:?}");
    let apart = done["series"].as_array().expect("a list").iter().filter(|series| {
        series["y_label"] == "first to last sender's beginning" && series["y_unit"] == "us"
    });
    assert_eq!(apart.count(), 2, "of both ways with two senders");
}

#[test]
fn a_sender_killed_in_the_middle_ends_it_and_what_was_measured_is_kept() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let (bench, senders) = sending(&report, 2);
    kill(senders[1]);
    let output = bench.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    let message = sentence(output.status.code(), &errors, FAILED);
    assert!(message.contains("of 2: process"), "{message}");
    assert!(message.contains("killed by signal 9") && message.contains("incomplete"), "{message}");
    assert!(!Path::new(&format!("/proc/{}", senders[0])).exists(), "the other sender is left");
    let json = std::fs::read_to_string(report.join("report.json")).expect("a report");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let done = &document["experiments"][0];
    assert!(done["facts"].as_array().is_some_and(|facts| !facts.is_empty()), "{done}");
    assert!(done["incomplete"].as_str().is_some_and(|why| why.contains("signal 9")), "{done}");
}

#[test]
fn a_killed_benchmark_leaves_no_sender_that_sends_on() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, senders) = sending(&folder.path().join("report"), 1);
    bench.kill().expect("it lives");
    bench.wait().expect("it ends");
    let began = Instant::now();
    let command_line = format!("/proc/{}/cmdline", senders[0]);
    // Once it has ended it has none, even while nobody takes note of its end.
    let is_there = || std::fs::read_to_string(&command_line).is_ok_and(|text| !text.is_empty());
    while is_there() {
        assert!(began.elapsed() < PATIENCE, "process {} sends on", senders[0]);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn orders_that_are_none_are_answered_with_a_sentence() {
    let mut command = fluxline();
    command.args(["bench", "--send"]).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let message = sentence(output.status.code(), &errors, FAILED);
    assert!(message.contains("before it said what to send"), "{message}");
}
