//! `fluxline bench` as a black box: the crossover that is stored and used, and a soak.

use crate::support::{call, fluxline, refused, text};
use serde_json::Value;

const FAILED: i32 = 1;
const INPUT: i32 = 3;

/// Few sizes, one round: what is tested is not how fast.
const FEW: &[&str] = &["--quick", "--rounds", "1", "--sizes", "8..4096"];

fn has_two_cores() -> bool {
    let has = fluxline::pin::allowed_cores().len() >= 2;
    if !has {
        println!("skipped: two cores are needed");
    }
    has
}

#[test]
fn the_crossover_is_kept_where_it_was_asked_for_and_read_again() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, report) = (folder.path().join("links.toml"), folder.path().join("report"));
    let arguments = ["bench", "shm://", "--only", "stores", "--save", text(&file)];
    let output = call(&[&arguments[..], &["--report", text(&report)], FEW].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let measured = fluxline::measured::Measured::read(&file).expect("ours");
    let bytes = measured.of("shm").expect("it was measured");
    assert!(bytes <= 4096, "{bytes}");
    assert!(said.contains(&format!("stores take less up to {bytes} B on shm://")), "{said}");
}

#[test]
fn a_bad_file_of_measurements_and_a_save_of_nothing_are_a_sentence_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("fluxline");
    std::fs::create_dir(&place).expect("a folder of ours");
    std::fs::write(place.join("links.toml"), "[shm]\ncrossover_bytes = a lot\n").expect("ours");
    let arguments = ["bench", "shm://", "--only", "integrity", "--quick"];
    let output = fluxline().args(arguments).env("XDG_CONFIG_HOME", folder.path()).output();
    let message = refused(&output.expect("it starts"), INPUT);
    assert!(message.contains("line 2") && message.contains("--save"), "{message}");

    let nothing = call(&["bench", "shm://", "--only", "integrity", "--save"]);
    assert!(refused(&nothing, FAILED).contains("add --only stores"));
    let no_window = call(&["bench", "udp://127.0.0.1", "--only", "stores", "--save"]);
    assert!(refused(&no_window, FAILED).contains("measure shm://"));
}

#[test]
fn a_soak_lasts_as_long_as_asked_and_its_report_says_what_was_compared() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let arguments = ["bench", "udp://127.0.0.1", "--only", "soak", "--seconds", "1", "--seed", "3"];
    let output = call(&[&arguments[..], &["--report", text(&report)]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = std::fs::read_to_string(report.join("report.json")).expect("a report");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let soak = &document["experiments"][0];
    assert_eq!((&soak["name"], &soak["incomplete"]), (&"soak".into(), &"".into()));
    assert_eq!(document["environment"]["plan"]["soak_seconds"], 1.0);
    let facts = soak["facts"].as_array().expect("a list");
    let is_agreed = |fact: &&Value| fact["label"] == "slices whose ledgers agree";
    let agreed = facts.iter().find(is_agreed).expect("the ledgers' fact");
    assert!(agreed["samples"][0].as_f64() >= Some(1.0), "{agreed}");
}
