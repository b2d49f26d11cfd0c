//! Folders of runs that are damaged, growing, numerous or hostile: the list has every run, and tags
//! and comments change nothing else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Running, call, call_json, refused, run_document, text};

/// Writes a folder of a run that has ended.
fn run(runs: &Path, name: &str, began_s: u64, change: impl FnOnce(&mut Value)) {
    let mut document = json!({
        "state": "finished", "status": 0, "sentence": null,
        "began_ns": began_s * 1_000_000_000, "ended_ns": (began_s + 90) * 1_000_000_000,
        "experiment": { "name": "calorimeter", "sources": [] },
        "control": { "shot": null, "remarks": [] },
        "totals": { "lost": 3, "events_complete": 100, "events_incomplete": 7,
                    "events_stopped": 1, "recorded": 500 },
        "ledger": { "paused": { "lost": 1, "events_complete": 10, "events_incomplete": 2 } },
    });
    change(&mut document);
    let folder = runs.join(name);
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("run.json"), document.to_string()).expect("written");
    fs::write(folder.join("events-000000.arrows"), [0; 1000]).expect("written");
}

/// The names of a list.
fn names(list: &Value) -> Vec<&str> {
    let runs = list["runs"].as_array().expect("a list").iter();
    runs.map(|run| run["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_damaged_or_missing_run_json_is_one_row_and_the_list_goes_on() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let runs = scratch.path().join("runs");
    for (number, name) in ["0000", "0001", "0002", "0003", "0004", "0005"].iter().enumerate() {
        run(&runs, name, 1_700_000_000 + number as u64, |_| {});
    }
    fs::write(runs.join("0001/run.json"), "{\"state\": \"fin").expect("torn");
    fs::remove_file(runs.join("0002/run.json")).expect("lost");
    let hole = fs::File::create(runs.join("0003/run.json")).expect("made");
    hole.set_len(1 << 40).expect("a hole of a terabyte");
    fs::write(runs.join("0004/run.json"), "{\"began_ns\": \"noon\"}").expect("wrong");
    fs::create_dir(runs.join("export")).expect("a folder beside the runs");
    std::os::unix::fs::symlink(runs.join("0000"), runs.join("link")).expect("a link");
    let list = call_json(&["runs", text(&runs), "--sort", "name"]);
    assert_eq!(names(&list), ["0000", "0001", "0002", "0003", "0004", "0005"]);
    assert_eq!((&list["all"], &list["links"]), (&json!(6), &json!(1)));
    for (number, words) in [(1, "line 1"), (2, "not there"), (3, "larger than"), (4, "noon")] {
        let row = &list["runs"][number];
        assert_eq!(row["verdict"], "damaged", "{row}");
        assert!(row["fault"].as_str().is_some_and(|fault| fault.contains(words)), "{row}");
        assert_eq!(row["bytes"], 1000);
    }
    let sound = &list["runs"][0];
    assert_eq!((&sound["events"], &sound["incomplete"]), (&json!(96), &json!(6)));
    assert_eq!((&sound["lost"], &sound["seconds"]), (&json!(2), &json!(90.0)));
    let table = call(&["runs", text(&runs)]);
    let table = String::from_utf8(table.stdout).expect("text");
    assert_eq!(table.lines().count(), 7, "{table}");
    assert!(
        table.lines().any(|line| line.starts_with("0001") && line.contains("run.json, line 1"))
    );
}

#[test]
fn runs_are_found_by_words_tags_times_and_verdicts_in_any_order() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let runs = scratch.path().join("runs");
    run(&runs, "0000", 1_700_000_000, |_| {});
    run(&runs, "0001", 1_700_086_400, |run| {
        run["control"]["remarks"] = json!([{ "at_ns": 1, "text": "Beam is back" }]);
        run["control"]["shot"] = json!(4711);
    });
    run(&runs, "0002", 1_700_172_800, |run| {
        (run["status"], run["sentence"]) = (json!(7), json!("2 datagrams were rejected."));
        run["totals"]["lost"] = json!(99);
    });
    run(&runs, "0003", 1_700_259_200, |run| run["state"] = json!("running"));
    let tagged = call_json(&["runs", "tag", text(&runs.join("0002")), "good", "hv=1100"]);
    assert_eq!(tagged["tags"], json!(["good", "hv=1100"]));
    call_json(&["runs", "comment", text(&runs.join("0000")), "the BEAM,\nwas \"low\""]);
    let listed = |arguments: &[&str]| {
        let list = call_json(&[&["runs", text(&runs)], arguments].concat());
        names(&list).join(" ")
    };
    assert_eq!(listed(&[]), "0003 0002 0001 0000");
    assert_eq!(listed(&["--reverse", "--limit", "2"]), "0000 0001");
    assert_eq!(listed(&["--search", "beam"]), "0001 0000");
    assert_eq!(listed(&["--search", "HV=11"]), "0002");
    assert_eq!(listed(&["--tag", "good", "--tag", "hv=1100"]), "0002");
    assert_eq!(listed(&["--tag", "hv"]), "");
    assert_eq!(listed(&["--status", "look", "--status", "no-end"]), "0003 0002");
    assert_eq!(listed(&["--sort", "lost"]), "0002 0003 0001 0000");
    assert_eq!(listed(&["--sort", "shot", "--limit", "1"]), "0001");
    let (since, until) = ("2023-11-15T22:13:20Z", "2023-11-16T22:13:20Z");
    assert_eq!(listed(&["--since", since, "--until", until]), "0001");
    let csv = call(&["runs", text(&runs), "--csv", "--search", "beam,"]);
    let csv = String::from_utf8(csv.stdout).expect("text");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert!(lines[1].starts_with("0000,calorimeter,,2023-11-1"), "{csv}");
    assert!(lines[1].ends_with(",90.000,96,6,2,1000,complete,,\"the BEAM,\""), "{csv}");
    let untagged = call_json(&["runs", "tag", "--remove", text(&runs.join("0002")), "good"]);
    assert_eq!(untagged["tags"], json!(["hv=1100"]));
}

#[test]
fn a_tag_with_a_line_end_or_hostile_bytes_is_refused_and_a_torn_line_is_left_out() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let runs = scratch.path().join("runs");
    run(&runs, "0000", 1_700_000_000, |run| run["experiment"]["name"] = json!("\u{1b}[2Jname"));
    let folder = runs.join("0000");
    let before = fs::read(folder.join("run.json")).expect("run.json");
    let long = "x".repeat(10_000);
    for tag in ["a\nb", "two words", "\u{1b}[31m", "a,b", "", &long] {
        let sentence = refused(&call(&["runs", "tag", text(&folder), "good", tag]), 3);
        assert!(sentence.contains("the tag") && sentence.len() < 400, "{sentence}");
    }
    refused(&call(&["runs", "comment", text(&folder), "\u{7}"]), 3);
    refused(&call(&["runs", "comment", text(&folder), &long]), 3);
    assert!(!folder.join("marks.jsonl").exists(), "nothing was written");
    call_json(&["runs", "tag", text(&folder), "first"]);
    let mut torn = fs::read(folder.join("marks.jsonl")).expect("marks");
    torn.extend(b"{\"at_ns\":1,\"user\":\"x\",\"tag\":\"hal");
    fs::write(folder.join("marks.jsonl"), torn).expect("torn");
    let tags = |list: Value| list["runs"][0]["tags"].clone();
    assert_eq!(tags(call_json(&["runs", text(&runs)])), json!(["first"]));
    call_json(&["runs", "tag", text(&folder), "second"]);
    assert_eq!(tags(call_json(&["runs", text(&runs)])), json!(["first", "second"]));
    assert_eq!(fs::read(folder.join("run.json")).expect("run.json"), before);
    let table = String::from_utf8(call(&["runs", text(&runs)]).stdout).expect("text");
    assert!(table.contains("\\u001b[2Jname") && !table.contains('\u{1b}'), "{table}");
}

#[test]
fn a_folder_without_runs_or_a_run_in_its_place_is_a_sentence() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let runs = scratch.path().join("runs");
    let sentence = refused(&call(&["runs", text(&runs)]), 3);
    assert!(sentence.contains("give the folder that has the runs"), "{sentence}");
    run(&runs, "0000", 1_700_000_000, |_| {});
    let sentence = refused(&call(&["runs", text(&runs.join("0000"))]), 3);
    assert!(sentence.contains("is a run, not a folder of runs"), "{sentence}");
    let sentence = refused(&call(&["runs", "tag", text(&runs), "good"]), 3);
    assert!(sentence.contains("is not a run folder"), "{sentence}");
    let wrong = call(&["runs", text(&runs), "--since", "yesterday"]);
    assert_eq!(wrong.status.code(), Some(2));
    let empty = scratch.path().join("empty");
    fs::create_dir(&empty).expect("made");
    assert_eq!(call_json(&["runs", text(&empty)])["runs"], json!([]));
}

#[test]
fn a_run_that_goes_on_is_listed_first_and_keeps_the_tags_that_it_gets_meanwhile() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let runs = scratch.path().join("runs");
    run(&runs, "zz", 20_000_000_000 / 10 * 9, |_| {});
    let folder = runs.join("0000");
    let sized = ["--format", "counter", "--accept", "nothing-received", "--folder", text(&folder)];
    let (running, _) = Running::listen(&sized);
    call_json(&["runs", "tag", text(&folder), "while-running"]);
    let list = call_json(&["runs", text(&runs)]);
    assert_eq!(names(&list), ["0000", "zz"]);
    assert_eq!(list["runs"][0]["verdict"], "running");
    assert!(list["runs"][0]["seconds"].is_f64() && list["runs"][0]["events"].is_null());
    running.interrupt();
    let (status, said) = running.end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(run_document(&folder)["state"], "finished");
    call_json(&["runs", "comment", text(&folder), "no beam"]);
    let row = &call_json(&["runs", text(&runs), "--tag", "while-running"])["runs"][0];
    assert_eq!((&row["verdict"], &row["comment"]), (&json!("complete"), &json!("no beam")));
    let shown = String::from_utf8(call(&["inspect", text(&folder)]).stdout).expect("text");
    for line in ["began    20", "ended    20", "tags     while-running", "comment  no beam ("] {
        assert!(shown.lines().any(|of| of.starts_with(line)), "{line}: {shown}");
    }
    assert_eq!(call_json(&["inspect", text(&folder)])["marks"]["comment"], "no beam");
}
