//! `fluxline bench` as a black box: its rows, and that it ends well or badly without leaving
//! anything in shared memory.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::{call, fluxline, refused, sentence, serving_child_of, text};
use serde_json::Value;

const FAILED: i32 = 1;
const USAGE: i32 = 2;

/// Each of these tests wants two cores for itself.
fn alone() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if there are the two cores that a benchmark needs; otherwise prints it.
fn has_two_cores() -> bool {
    let enough = fluxline::pin::allowed_cores().len() >= 2;
    if !enough {
        println!("skipped: two cores are needed");
    }
    enough
}

fn start(arguments: &[&str]) -> Child {
    let mut command = fluxline();
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Files of this process's benchmark in shared memory.
fn left_of(process: u32) -> Vec<PathBuf> {
    let entries = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = |path: &PathBuf| path.display().to_string().contains(&format!("/bench-{process}-"));
    entries("/dev/shm")
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("fluxline-"))
        .flat_map(|base| std::fs::read_dir(base.path()).into_iter().flatten().flatten())
        .map(|group| group.path())
        .filter(ours)
        .collect()
}

/// Waits until the other process is there and has files in shared memory.
fn other_of(bench: &mut Child) -> u32 {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        assert!(bench.try_wait().expect("waitable").is_none(), "it ended before it was disturbed");
        if let Some(other) =
            serving_child_of(bench.id()).filter(|_| !left_of(bench.id()).is_empty())
        {
            return other;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never starts the other process");
}

fn signal(name: &str, process: u32) {
    let arguments = [format!("-{name}"), process.to_string()];
    assert!(Command::new("kill").args(&arguments).status().expect("kill starts").success());
}

#[test]
fn every_row_has_a_positive_number_and_nothing_is_left_in_shared_memory() {
    let _alone = alone();
    if !has_two_cores() {
        return;
    }
    let only = ["--only", "pingpong,stream", "--sizes", "8..64", "--rounds", "1"];
    let bench = start(&[&["bench", "shm://", "--quick", "--json"][..], &only].concat());
    let process = bench.id();
    let output = bench.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "no bar where there is no terminal");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    for experiment in document["experiments"].as_array().expect("a list") {
        assert_eq!(experiment["incomplete"], "");
        let facts = experiment["facts"].as_array().expect("a list");
        assert!(!facts.is_empty(), "{experiment}");
        for fact in facts {
            let samples = fact["samples"].as_array().expect("a list");
            assert_eq!(samples.len(), 1, "one round: {fact}");
            assert!(samples[0].as_f64().is_some_and(|value| value > 0.0), "{fact}");
            assert!(fact["unit"].is_string(), "{fact}");
        }
    }
    assert_eq!(left_of(process), Vec::<PathBuf>::new());
}

/// Disturbs a benchmark in the middle; what it says as its last sentence, with status 1.
fn disturbed(disturb: impl FnOnce(&Child, u32)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = start(&["bench", "shm://", "--rounds", "100", "--report", text(folder.path())]);
    let (process, other) = (bench.id(), other_of(&mut bench));
    disturb(&bench, other);
    let output = bench.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "one sentence: {errors}");
    assert_eq!(left_of(process), Vec::<PathBuf>::new());
    sentence(output.status.code(), &errors, FAILED)
}

#[test]
fn the_other_process_killed_in_the_middle_ends_it_with_one_sentence() {
    let _alone = alone();
    if has_two_cores() {
        let message = disturbed(|_, other| signal("KILL", other));
        assert!(message.contains("was killed by signal 9"), "{message}");
    }
}

#[test]
fn an_interrupt_ends_both_processes_and_cleans_up() {
    let _alone = alone();
    if has_two_cores() {
        let message = disturbed(|bench, _| signal("INT", bench.id()));
        assert!(message.contains("interrupted"), "{message}");
    }
}

#[test]
fn the_other_process_ends_and_cleans_up_when_the_one_that_measures_is_killed() {
    let _alone = alone();
    if !has_two_cores() {
        return;
    }
    let mut bench = start(&["bench", "shm://", "--rounds", "100"]);
    let (process, other) = (bench.id(), other_of(&mut bench));
    signal("KILL", process);
    bench.wait().expect("it ends");
    let began = Instant::now();
    let lives = || std::path::Path::new(&format!("/proc/{other}/exe")).read_link().is_ok();
    while lives() || !left_of(process).is_empty() {
        let left = left_of(process);
        assert!(began.elapsed() < Duration::from_secs(30), "left: {left:?}, lives: {}", lives());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn wrong_links_and_flags_say_what_to_write() {
    for (link, words) in [("foo://", "write shm://"), ("shm://lab", "write shm:// alone")] {
        let output = call(&["bench", link]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{errors}");
        assert!(errors.contains(words) && errors.contains(link), "{errors}");
    }
    for arguments in [&["--rounds", "0"], &["--rounds", "many"]] {
        let output = call(&[&["bench", "shm://"][..], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{errors}");
        assert!(errors.contains("--rounds"), "{errors}");
    }
}

#[test]
fn one_core_alone_is_refused_with_what_to_do() {
    let core = fluxline::pin::allowed_cores()[0].to_string();
    let mut command = Command::new("taskset");
    let output = command.args(["-c", &core, crate::support::PROGRAM, "bench", "shm://"]);
    let message = refused(&output.output().expect("taskset starts"), FAILED);
    assert!(message.contains("two cores") && message.contains("taskset"), "{message}");
}
