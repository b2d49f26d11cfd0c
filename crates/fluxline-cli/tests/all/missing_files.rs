//! Files of a run that are deleted, spoilt or replaced: `inspect`, `export` and `recover` say so
//! first, do what they can with the rest, and end with status 8.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Running, call, call_json, fluxline, number, refused, text};
use serde_json::Value;

/// 400 packets in several files of several batches.
fn recorded(scratch: &Path) -> PathBuf {
    let file = scratch.join("experiment.toml");
    let experiment = "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\n\
                      sources = 4\npackets = 100\nrate = 0\nlink = 'direct'\nseed = 1\n\
                      payload-bytes = 512\n[record]\nbatch-bytes = 20000\nfile-bytes = 60000\n";
    std::fs::write(&file, experiment).expect("written");
    let folder = scratch.join("run");
    call_json(&["run", text(&file), "--folder", text(&folder)]);
    folder
}

fn events_file(run: &Path, number: u32) -> PathBuf {
    run.join(format!("events-{number:06}.arrows"))
}

/// The three commands say it, in text and in JSON; what is left is exported.
fn assert_named(run: &Path, clause: &str, left: u64) {
    let into = run.join("exported");
    let arguments: [&[&str]; 3] = [
        &["inspect", text(run)],
        &["export", text(run), "--to", "csv", "--into", text(&into), "--overwrite"],
        &["recover", text(run)],
    ];
    for command in arguments {
        let output = call(command);
        let said = refused(&output, 8);
        assert!(said.contains(clause), "{command:?}: {said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!printed.contains("is in exactly one place"), "{printed}");
        let output = fluxline().arg("--json").args(command).output().expect("it starts");
        assert_eq!(output.status.code(), Some(8));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(number(&document, "status"), 8);
        assert!(document["sentence"].as_str().is_some_and(|said| said.contains(clause)));
        assert_eq!(number(&document["integrity"]["missing"], "packets"), 400 - left);
    }
    let table = std::fs::read_to_string(into.join("packets.csv")).expect("a table");
    assert_eq!(table.lines().count() as u64, 1 + left, "what is readable is exported");
}

fn packets_in(run: &Path) -> u64 {
    let output = fluxline().args(["--json", "inspect", text(run)]).output().expect("it starts");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    number(&document["readable"], "packets")
}

#[test]
fn deleted_events_files_are_missed() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    assert_eq!(packets_in(&run), 400);
    std::fs::remove_file(events_file(&run, 1)).expect("it was there");
    let left = packets_in(&run);
    assert!(left > 0 && left < 400);
    assert_named(&run, "events-000001.arrows is missing", left);
    for number in 0.. {
        if std::fs::remove_file(events_file(&run, number)).is_err() && number > 1 {
            break;
        }
    }
    assert_named(&run, "400 of 400 packets that were recorded cannot be read", 0);
}

#[test]
fn flipped_bits_and_a_cut_file_are_missed() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    let file = events_file(&run, 0);
    let mut bytes = std::fs::read(&file).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, &bytes).expect("written");
    let left = packets_in(&run);
    assert!(left > 0 && left < 400);
    assert_named(&run, "events-000000.arrows is damaged at byte", left);
    let file = events_file(&run, 1);
    let bytes = std::fs::read(&file).expect("readable");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    assert_named(&run, "packets that were recorded cannot be read", packets_in(&run));
}

#[test]
fn named_pipe_as_an_events_file_is_refused_at_once() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    let file = events_file(&run, 1);
    std::fs::remove_file(&file).expect("it was there");
    let left = packets_in(&run);
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo").success());
    let inspect = Running::spawn(&["inspect", text(&run)]);
    let (status, errors) = inspect.end();
    assert_eq!(status, Some(8), "{errors}");
    assert_named(&run, "is a named pipe, not a file", left);
}

#[test]
fn run_json_or_a_description_that_is_gone_is_missed() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    std::fs::remove_file(run.join("formats/counter.toml")).expect("it was there");
    assert_named(&run, "formats/counter.toml is missing", 400);
    let run_json = run.join("run.json");
    std::fs::remove_file(&run_json).expect("it was there");
    let said = refused(&call(&["inspect", text(&run)]), 8);
    assert!(said.contains("run.json is missing"), "{said}");
}
