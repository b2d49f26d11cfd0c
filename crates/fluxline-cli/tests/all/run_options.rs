//! Options of `run` together with an experiment file: each does what it says, or is an error.

use std::path::{Path, PathBuf};

use crate::packets::{Board, MS, write_capture};
use crate::support::{call, call_json, number, refused, text};
use serde_json::Value;

/// Exit statuses; `fluxline --help` lists them.
const USAGE: i32 = 2;
const INPUT: i32 = 3;

/// Two boards of 100 events, of which the second lacks the last 40, in a capture and an experiment.
fn experiment(scratch: &Path) -> PathBuf {
    let mut packets = Board { board: 0, period: MS, latency: 0 }.packets(0..100);
    packets.extend(Board { board: 1, period: MS, latency: 1000 }.packets(0..60));
    write_capture(scratch, "boards.pcapng", packets);
    let file = scratch.join("experiment.toml");
    let experiment = "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.pcap]\n\
        file = 'boards.pcapng'\n[events]\nbuild = 'packet'\n";
    std::fs::write(&file, experiment).expect("written");
    file
}

fn run(file: &Path, options: &[&str]) -> Value {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    call_json(&[&["run", text(file), "--folder", text(&folder)], options].concat())
}

#[test]
fn options_of_events_override_the_experiment() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = experiment(scratch.path());
    let document = run(&file, &[]);
    assert_eq!(number(&document["totals"], "events_complete"), 160, "as the file says");
    let document = run(&file, &["--events", "key", "--require", "2", "--timeout-ms", "7"]);
    let totals = &document["totals"];
    assert_eq!(number(totals, "events_complete"), 60, "{totals}");
    assert_eq!(number(totals, "recorded"), 160, "{totals}");
    let events = &document["experiment"]["events"];
    assert_eq!((number(events, "timeout-ms"), number(events, "require")), (7, 2));
    let labels = "source_id=0,source_id=1";
    let document = run(&file, &["--events", "key", "--require", labels]);
    assert_eq!(number(&document["totals"], "events_complete"), 60);
}

#[test]
fn options_that_would_do_nothing_are_errors() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = experiment(scratch.path());
    for option in [["--port", "9"], ["--format", "counter"], ["--udp", "127.0.0.1:0"]] {
        let output = call(&[&["run", text(&file)], &option[..]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(USAGE), "{errors}");
        assert!(errors.contains(option[0]) && errors.contains("EXPERIMENT"), "{errors}");
    }
    let refuse =
        |options: &[&str]| refused(&call(&[&["run", text(&file)], options].concat()), INPUT);
    for (options, wanted) in [
        (&["--require", "2"][..], "--events key"),
        (&["--window-us", "2"], "--events window"),
        (&["--timeout-ms", "0"], "timeout-ms"),
        (&["--events", "key", "--bytes-max", "0"], "bytes-max"),
        (&["--set", "x"], "NAME=INTEGER"),
    ] {
        let message = refuse(options);
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn page_of_a_node_of_a_cluster_is_refused_and_the_sentence_names_what_shows_it() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = experiment(scratch.path());
    for options in [&["--serve"][..], &["--serve", "127.0.0.1:0", "--armed"]] {
        let arguments = [&["run", text(&file), "--node", "builder"], options].concat();
        let message = refused(&call(&arguments), USAGE);
        assert!(message.contains(options[0]) && message.contains("--node"), "{message}");
        assert!(message.contains("fluxline inspect kafka://"), "{message}");
        assert!(message.contains("fluxline ctl kafka://"), "{message}");
    }
}

#[test]
fn a_parameter_is_set_in_the_sources_that_have_it() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    write_capture(scratch.path(), "empty.pcapng", Vec::new());
    let source = |name: &str, format: &str| {
        let pcap = "[source.pcap]\nfile = 'empty.pcapng'\n";
        format!("[[source]]\nname = '{name}'\nformat = '{format}'\n{pcap}")
    };
    let sources = [source("a", "ouster"), source("b", "sls"), source("c", "srs-vmm3")];
    let file = scratch.path().join("experiment.toml");
    std::fs::write(&file, sources.concat()).expect("written");
    let document = run(
        &file,
        &[
            "--set",
            "packets_per_frame=32",
            "--set",
            "tick_ps=22500",
            "--accept",
            "nothing-received",
        ],
    );
    let set = |source: usize| document["experiment"]["source"][source]["parameters"].to_string();
    let packets = r#"{"packets_per_frame":32}"#;
    assert_eq!([set(0), set(1), set(2)], [packets, packets, r#"{"tick_ps":22500}"#]);
    let message = refused(&call(&["run", text(&file), "--set", "x=1"]), INPUT);
    for word in ["--set x", "packets_per_frame", "pixels", "tick_ps"] {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    let message = refused(&call(&["run", text(&file), "--set", "tick_ps=0"]), INPUT);
    assert!(message.contains("tick_ps"), "{message}");
}

#[test]
fn paths_are_relative_to_the_experiment_file() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("setup");
    std::fs::create_dir(&folder).expect("made");
    let file = experiment(&folder);
    let text_of = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, text_of.replace("'counter'", "'board.toml'")).expect("written");
    let shown =
        include_str!("../../../../formats/counter.toml").replace("\"counter\"", "\"board\"");
    std::fs::write(folder.join("board.toml"), shown).expect("written");
    let document = run(&file, &[]); // the program runs elsewhere
    assert_eq!(number(&document["totals"], "recorded"), 160);
    std::fs::remove_file(folder.join("board.toml")).expect("removed");
    let message = refused(&call(&["run", text(&file)]), INPUT);
    assert!(message.contains(text(&folder.join("board.toml"))), "{message}");
}

#[test]
fn one_capture_given_twice_is_named() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    experiment(scratch.path());
    let capture = scratch.path().join("boards.pcapng");
    let twice = ["run", "--pcap", text(&capture), "--pcap", text(&capture), "--format", "counter"];
    let message = refused(&call(&twice), INPUT);
    assert!(message.contains(text(&capture)), "{message}");
}
