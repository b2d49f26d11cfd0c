//! The feedback loop on every link: the same decisions, each in its place, and delays that a seed
//! repeats. Nodes, functions and actuators that die are named, and the recording goes on.
//!
//! Decisions are read from `loop.csv` in the run folder, and compared by the event's key.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fluxline_daq::event::EventView;
use fluxline_daq::experiment::Experiment;
use fluxline_run::feedback::{Decide, MakeDecide};
use fluxline_run::{Options, Report, Verdict};
use serde_json::Value;

use crate::same_events::{SIMULATED, folder};

/// An experiment of eight boards whose loop has these lines.
fn experiment(packets: u64, of_loop: &str) -> Experiment {
    let mut text = format!(
        "name = \"loop\"\n[events]\nbuild = \"key\"\nrequire = 8\n\
         timeout-ms = 60000\n[nodes]\nreadout = {{ count = 2, \
         record-ms = 0.1 }}\nbuilder = {{ count = 2 }}\n[loop]\n{of_loop}\n"
    );
    for number in 0..2 {
        text.push_str(&format!(
            "[[source]]\nname = \"coil-{number}\"\nformat = \"counter\"\n[source.emulator]\n\
             link = \"direct\"\nsources = 4\nrate = 2000\npackets = {packets}\nseed = {}\n\
             payload-bytes = 64\npattern = \"noise\"\n",
            number + 5
        ));
    }
    Experiment::parse("loop.toml", &text).expect("a right experiment")
}

const VALUES: &str = "values = [\"mean(amplitude)\", \"max(amplitude)\", \"event.key\"]\n\
                      waiting-max = 9999\nsampled = \"sensor\"\ndeadline-us = 1e6";

fn run_with(experiment: Experiment, link: &str, at: &Path, decide: Option<MakeDecide>) -> Report {
    fluxline_sim::register();
    let (folder, link) = (Some(at.to_path_buf()), Some(link.to_owned()));
    let options = Options { folder, link, decide, ..Options::default() };
    let report = fluxline_run::start_with(experiment, options).expect("it starts").wait();
    let report = report.expect("it ends");
    for law in report.ledger.check() {
        assert!(law.holds(), "{law:?}\n{}", report.ledger.table());
    }
    report
}

fn run(experiment: Experiment, link: &str, at: &Path) -> Report {
    run_with(experiment, link, at, None)
}

/// The decisions of a run by the event's key.
fn decisions(folder: &Path) -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string(folder.join("loop.csv")).expect("a file");
    let mut decisions = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let before = decisions.insert(cells[2].parse().expect("a key"), cells[8].to_owned());
        assert_eq!(before, None, "a decision that came twice: {line}");
    }
    decisions
}

fn count(report: &Report, name: &str) -> u64 {
    report.document["loop"]["counts"][name].as_u64().expect("a count")
}

fn compare(packets: u64, links: &[&str]) {
    let at = folder();
    let mut expected: Option<BTreeMap<u64, String>> = None;
    for (number, link) in links.iter().enumerate() {
        let path = at.path().join(number.to_string());
        let report = run(experiment(packets, VALUES), link, &path);
        assert_eq!(report.verdict, Verdict::Complete, "{link}: {}", report.ledger.table());
        let found = decisions(&path);
        assert_eq!(found.len() as u64, packets, "{link}: {}", report.document["loop"]);
        for (name, value) in [("decided", packets), ("arrived", packets), ("lost", 0)] {
            assert_eq!(count(&report, name), value, "{link}: {name}");
        }
        assert_eq!(report.document["loop"]["delays"]["sampled_to_written"]["writes"], packets);
        match &expected {
            None => expected = Some(found),
            Some(expected) => {
                let differ = found.iter().find(|(key, of)| expected.get(key) != Some(of));
                assert_eq!(differ, None, "{link}: decided otherwise");
            }
        }
    }
    let one = expected.and_then(|all| all.into_values().next()).expect("a decision");
    assert_eq!(one.len(), 3 * 16, "three floats of 8 bytes in hexadecimal");
}

#[test]
fn decisions_differ_between_threads_shared_memory_and_ethernet() {
    let group = format!("shm:loop{}", std::process::id());
    compare(300, &["threads", &group, "udp:127.0.0.1:24871", "sim:ethernet"]);
}

#[test]
fn decisions_differ_between_simulated_networks() {
    compare(100, &SIMULATED);
}

#[test]
fn the_delays_of_a_simulated_loop_differ_from_run_to_run() {
    let at = folder();
    let run = |name: &str, link: &str, extra: &str| {
        let path = at.path().join(name);
        let report = run(experiment(100, &format!("{VALUES}\n{extra}")), link, &path);
        let text = std::fs::read_to_string(path.join("loop.csv")).expect("a file");
        (report.document["loop"].clone(), text)
    };
    let (one, other) = (run("one", "sim:sci?seed=3", ""), run("other", "sim:sci?seed=3", ""));
    assert_eq!(one, other);
    let p50 = |of: &Value, part: &str| of["delays"][part]["p50_ns"].as_u64().expect("a delay");
    assert_eq!(one.0["clock"], "virtual time");
    assert!(p50(&one.0, "decided_to_written") < 100_000, "{}", one.0);
    // A decision takes the time that the file gives it, to the thousandth of the histogram.
    let slow = run("slow", "sim:sci?seed=3", "decision-ns = 70000").0;
    let took = p50(&slow, "closed_to_decided");
    assert!((70_000..=70_070).contains(&took), "{took}");
    assert!(p50(&slow, "sampled_to_written") > p50(&one.0, "sampled_to_written") + 60_000);
}

#[test]
fn a_function_that_is_behind_skips_the_newest_events_or_skips_them_in_silence() {
    let at = folder();
    // 2,000 events a second at two builders, and 5 ms for each: 400 decisions a second.
    let of_loop = "values = [\"event.key\"]\nwaiting-max = 2\ndecision-ns = 5000000";
    let path = at.path().join("run");
    let report = run(experiment(400, of_loop), "sim:ethernet", &path);
    assert_eq!(report.ledger.builder.events_complete, 400, "{}", report.ledger.table());
    let (decided, skipped) = (count(&report, "decided"), count(&report, "skipped"));
    assert_eq!(decided + skipped, 400);
    assert!((60..140).contains(&decided), "{decided}");
    let decisions = decisions(&path);
    let newest = decisions.keys().next_back().copied();
    assert!(newest >= Some(398), "the last events are decided on: {newest:?}");
    assert!(report.document["loop"]["deadline_us"].is_null());
}

#[test]
fn a_write_after_the_deadline_is_not_counted_as_late() {
    let at = folder();
    let late = |us: &str, name: &str| {
        let of_loop = format!("values = [\"event.key\"]\nwaiting-max = 9999\ndeadline-us = {us}");
        count(&run(experiment(100, &of_loop), "sim:sci", &at.path().join(name)), "late")
    };
    assert_eq!((late("0.5", "short"), late("1e6", "long")), (100, 0));
}

/// A function that fails, or wants nothing written, by the event's key.
struct Moody;

impl Decide for Moody {
    fn decide(&mut self, event: &EventView<'_>, decision: &mut Vec<u8>) -> Result<(), String> {
        let key = event.row.key.expect("a key");
        match key % 4 {
            0 => panic!("four"),
            1 => return Err("one".to_owned()),
            2 => {}
            _ => decision.extend(key.to_le_bytes()),
        }
        Ok(())
    }
}

#[test]
fn a_function_that_fails_takes_the_recording_along() {
    let at = folder();
    for (number, link) in ["threads", "sim:qsnet"].into_iter().enumerate() {
        let make: MakeDecide = Arc::new(|_| Box::new(Moody));
        let (path, of_loop) = (at.path().join(number.to_string()), "waiting-max = 9999");
        let report = run_with(experiment(200, of_loop), link, &path, Some(make));
        assert_eq!(report.ledger.source_totals().recorded, 1600);
        let counts = ["undecided", "declined", "decided"].map(|name| count(&report, name));
        assert_eq!(counts, [100, 50, 50], "{link}");
        assert!(decisions(&path).keys().all(|key| key % 4 == 3));
        let sentence = report.verdict.sentence().unwrap_or_default();
        assert!(sentence.contains("the function of [loop] at builder-"), "{sentence}");
        assert_eq!(report.verdict.status(), 7);
    }
}

/// Bytes of an event of eight boards as a program gets it: a head, and packets with heads.
const EVENT_BYTES: u64 = 4 + 24 + 8 * (8 + 32 + 64);

#[test]
fn a_program_gets_other_bytes_than_the_packets_or_its_answer_is_lost() {
    let at = folder();
    // What `cat` answers is the event behind its length.
    let of_loop = "program = [\"cat\"]\nbytes-max = 4096\nwaiting-max = 9999";
    let (mut all, links) = (Vec::new(), ["threads", "sim:sci"]);
    for (number, link) in links.into_iter().enumerate() {
        let path = at.path().join(number.to_string());
        let report = run(experiment(50, of_loop), link, &path);
        assert_eq!(report.verdict, Verdict::Complete, "{link}: {:?}", report.notes);
        all.push(decisions(&path));
    }
    for (key, decision) in &all[1] {
        assert_eq!(decision.len() as u64, 2 * (EVENT_BYTES - 4));
        let first: String = key.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(decision.starts_with(&first), "{decision}");
        assert_eq!(decision.matches("464c5843").count(), 8, "packets begin with FLXC: {decision}");
    }
    assert!(all.iter().all(|decisions| decisions.keys().copied().eq(0..50)));
}

#[test]
fn a_program_that_ends_hangs_or_talks_too_much_is_not_named_or_takes_the_recording_along() {
    let at = folder();
    let one = format!("head -c {EVENT_BYTES}; exec sleep 1000");
    for (number, (program, more, says, decided)) in [
        (vec!["true"], "", "it ended (exit status: 0)", 0),
        (vec!["sh", "-c", "exit 3"], "", "it ended (exit status: 3)", 0),
        (vec!["sh", "-c", &one], "answer-ms = 300", "did not answer within 300 ms", 2),
        (vec!["cat"], "bytes-max = 20", "its answer has 856 bytes, and bytes-max is 20", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = if more.contains("bytes-max") { "" } else { "bytes-max = 4096" };
        let of_loop = format!("program = {program:?}\nwaiting-max = 9999\n{more}\n{bytes}");
        let path = at.path().join(number.to_string());
        let report = run(experiment(60, &of_loop), "sim:ethernet", &path);
        let sentence = report.verdict.sentence().unwrap_or_default();
        assert!(sentence.contains(says), "{program:?}: {sentence}");
        assert_eq!(report.ledger.source_totals().recorded, 480, "{program:?}");
        assert_eq!(count(&report, "decided"), decided, "{program:?}");
        assert_eq!(count(&report, "undecided"), 60 - decided, "{program:?}");
    }
}

#[test]
fn an_actuator_or_a_builder_that_dies_in_virtual_time_leaves_decisions_without_a_place() {
    let at = folder();
    for (number, what) in ["actuator-0", "builder-1"].into_iter().enumerate() {
        let link = format!("sim:ethernet?fault=host:{what}@60ms&seed=2");
        let path = at.path().join(number.to_string());
        let of_loop = "values = [\"event.key\"]\nwaiting-max = 9999";
        let report = run(experiment(200, of_loop), &link, &path);
        let sentence = report.verdict.sentence().unwrap_or_default().to_owned();
        assert_eq!(report.verdict.status(), 7, "{what}: {sentence}");
        assert!(report.notes.iter().any(|note| note.contains(what)), "{what}: {:?}", report.notes);
        let arrived = count(&report, "arrived");
        assert_eq!(arrived, decisions(&path).len() as u64, "{what}");
        assert!((1..200).contains(&arrived), "{what}: {}", report.document["loop"]);
        if what == "actuator-0" {
            assert_eq!(report.ledger.source_totals().recorded, 1600, "{}", report.ledger.table());
            assert!(count(&report, "not_written") + count(&report, "lost") > 0);
        }
    }
}

#[test]
fn a_function_from_nowhere_or_twice_is_taken() {
    let at = folder();
    for (of_loop, gives, says) in [
        ("", false, "[loop] has no function"),
        ("values = [\"event.key\"]", true, "remove one of them"),
        ("program = [\"./no-such-program\"]", false, "cannot be started"),
        ("program = [\"no-such-program\"]", false, "cannot be started"),
    ] {
        let make: MakeDecide = Arc::new(|_| Box::new(Moody));
        let path = at.path().join("never");
        let (folder, decide) = (Some(path.clone()), gives.then_some(make));
        let options = Options { folder, decide, ..Options::default() };
        let said = match fluxline_run::start_with(experiment(10, of_loop), options) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{of_loop} is accepted"),
        };
        assert!(said.contains(says), "{of_loop}: {said}");
        assert!(!path.exists(), "{of_loop}");
    }
}
