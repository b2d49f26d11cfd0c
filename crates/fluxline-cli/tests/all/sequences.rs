//! Sequences of runs that are killed, stopped, started twice, or whose commands fail: what is
//! finished stays, and `--resume` does the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PATIENCE, PROGRAM, Running, refused, run_document, send_signal, text};

/// A folder with a sequence of three runs, whose command notes the values that it sets.
struct Scan {
    scratch: tempfile::TempDir,
}

impl Scan {
    /// Makes it; `stop` is the end of each run, and `command` sets a value.
    fn new(stop: &str, command: &str) -> Scan {
        let scan = Scan { scratch: tempfile::tempdir().expect("a scratch folder") };
        let experiment = format!(
            "name = 'scan'\nruns = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
             [source.emulator]\nlink = 'direct'\nsources = 2\nrate = 2000.0\npayload-bytes = 64\n\
             [events]\nbuild = 'key'\n",
            scan.path("runs").display()
        );
        scan.write("experiment.toml", &experiment);
        scan.write_scan(stop, command);
        scan
    }

    fn write_scan(&self, stop: &str, command: &str) {
        let scan = format!(
            "[sequence]\nexperiment = 'experiment.toml'\nstop = {{ {stop} }}\n\
             [[sequence.set]]\nname = 'hv'\nfrom = 1000\nto = 1200\nstep = 100\n\
             command = ['sh', '-c', '''{command}''']\n"
        );
        self.write("scan.toml", &scan);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// The command that notes its value.
    fn note(&self) -> String {
        format!("echo {{value}} >> {}", self.path("set").display())
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg("sequence").arg(self.path("scan.toml")).args(arguments);
        command.output().expect("the program starts")
    }

    fn spawn(&self) -> Running {
        Running::spawn(&["sequence", text(&self.path("scan.toml"))])
    }

    /// The steps of the progress: their names and runs.
    fn progress(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.path("sequence.jsonl")).unwrap_or_default();
        let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
        let steps = whole.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let of = line.as_object().expect("an object").iter();
            let (name, step) = of.clone().find(|(name, _)| *name != "at_ns").expect("a step");
            format!("{name} {}", step["run"]).replace(" null", "")
        });
        steps.collect()
    }

    fn wait_for_step(&self, step: &str) {
        let began = Instant::now();
        while !self.progress().iter().any(|of| of == step) {
            assert!(began.elapsed() < PATIENCE, "no `{step}`: {:?}", self.progress());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The tags of each run, by folder.
    fn tags(&self) -> Vec<String> {
        let list = crate::support::call_json(&["runs", text(&self.path("runs")), "--sort", "name"]);
        let words = |run: &Value| {
            let tags = run["tags"].as_array().expect("tags").iter();
            tags.map(|tag| tag.as_str().expect("a word")).collect::<Vec<_>>().join(" ")
        };
        list["runs"].as_array().expect("runs").iter().map(words).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_run_has_its_value_set_tagged_and_enough_events() {
    let scan = Scan::new("events = 200", "true");
    scan.write_scan("events = 200", &scan.note());
    let output = scan.call(&["--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(3));
    assert!(document["runs"][0]["events"].as_u64() >= Some(200), "{document}");
    assert_eq!(fs::read_to_string(scan.path("set")).expect("set"), "1000\n1100\n1200\n");
    assert_eq!(scan.tags(), ["hv=1000", "hv=1100", "hv=1200"]);
    let note = &run_document(&scan.path("runs/0001"))["control"]["remarks"][0]["text"];
    assert_eq!(note, "scan.toml: run 2 of 3 hv=1100");
    let again = scan.call(&["--resume"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(scan.tags().len(), 3, "nothing is left to do");
    assert!(scan.call(&[]).status.success(), "a finished sequence may begin again");
    assert_eq!(scan.tags().len(), 6);
}

#[test]
fn a_set_command_that_fails_ends_the_sequence_and_resume_goes_on_behind_the_finished_runs() {
    let scan = Scan::new("events = 50", "test {value} != 1100");
    let sentence = refused(&scan.call(&[]), 1);
    assert!(sentence.contains("run 2 of 3 was not started"), "{sentence}");
    assert!(sentence.contains("test 1100 != 1100` ended with exit status 1"), "{sentence}");
    assert_eq!(scan.tags(), ["hv=1000"]);
    let sentence = refused(&scan.call(&[]), 3);
    assert!(sentence.contains("1 of 3 runs are finished; go on with --resume"), "{sentence}");
    scan.write_scan("events = 50", "no-such-program-42 {value}");
    let sentence = refused(&scan.call(&["--resume"]), 1);
    assert!(sentence.contains("exit status 127"), "{sentence}");
    scan.write_scan("events = 50", &scan.note());
    assert!(scan.call(&["--resume"]).status.success());
    assert_eq!(fs::read_to_string(scan.path("set")).expect("set"), "1100\n1200\n");
    assert_eq!(scan.tags(), ["hv=1000", "hv=1100", "hv=1200"]);
}

#[test]
fn a_sequence_that_is_killed_repeats_the_run_that_was_cut_and_says_so() {
    let scan = Scan::new("events = 1000000000", "true {value}");
    let running = scan.spawn();
    scan.wait_for_step("started 1");
    send_signal(running.id(), "KILL");
    running.end();
    // A line that the kill has torn.
    let mut torn = fs::read(scan.path("sequence.jsonl")).expect("progress");
    torn.extend(b"{\"at_ns\":17,\"fini");
    fs::write(scan.path("sequence.jsonl"), torn).expect("torn");
    scan.write_scan("events = 50", "true {value}");
    let output = scan.call(&["--resume"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("run 1 was cut, and is repeated: "), "{}", said(&output));
    let tags = scan.tags();
    assert_eq!(tags.len(), 4);
    assert!(tags[0].contains("replaced"), "{tags:?}");
    assert_eq!(tags[1..], ["hv=1000", "hv=1100", "hv=1200"]);
    assert_eq!(scan.progress().last().map(String::as_str), Some("ended"));
}

#[test]
fn ctrl_c_ends_the_run_well_and_the_sequence_can_go_on() {
    let scan = Scan::new("events = 1000000000", "true {value}");
    let mut running = scan.spawn();
    running.wait_for("memory ");
    scan.wait_for_step("started 1");
    running.interrupt();
    let (status, errors) = running.end();
    let sentence = crate::support::sentence(status, &errors, 1);
    assert!(sentence.contains("stopped at run 1 of 3") && sentence.contains("--resume"));
    assert_eq!(run_document(&scan.path("runs/0000"))["state"], "finished");
    assert_eq!(scan.tags(), ["hv=1000 replaced"]);
    scan.write_scan("events = 50", "true {value}");
    assert!(scan.call(&["--resume"]).status.success());
    assert_eq!(scan.tags().len(), 4);
}

#[test]
fn two_sequences_at_once_are_refused_in_one_sentence_and_the_first_goes_on() {
    let scan = Scan::new("events = 50", "true {value}");
    let go = scan.path("go");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done; true {{value}}", go.display());
    scan.write_scan("events = 50", &wait);
    let first = scan.spawn();
    scan.wait_for_step("begin");
    let sentence = refused(&scan.call(&[]), 1);
    assert!(sentence.contains("another `fluxline sequence` works on"), "{sentence}");
    let other = scan.path("other.toml");
    fs::copy(scan.path("scan.toml"), &other).expect("copied");
    let second = crate::support::call(&["sequence", text(&other)]);
    assert!(refused(&second, 1).contains("sequence.jsonl"), "the same progress");
    fs::write(&go, "").expect("written");
    let (status, errors) = first.end();
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(scan.tags().len(), 3);
}

#[test]
fn a_command_that_hangs_or_never_becomes_stable_is_ended_after_its_time() {
    let scan = Scan::new("events = 50", "true {value}");
    let file = fs::read_to_string(scan.path("scan.toml")).expect("scan");
    let hangs = "command = ['sleep', '1000', '{value}']\nseconds = 0.2\n";
    let (head, _) = file.split_once("command").expect("a command");
    scan.write("scan.toml", &format!("{head}{hangs}"));
    let sentence = refused(&scan.call(&[]), 1);
    assert!(sentence.contains("took more than 0.2 s and was ended"), "{sentence}");
    let unstable = "command = ['true', '{value}']\nwait = { command = ['false'], seconds = 0.3 }\n";
    scan.write("scan.toml", &format!("{head}{unstable}"));
    let sentence = refused(&scan.call(&["--resume"]), 1);
    assert!(sentence.contains("`false` did not succeed within 0.3 s"), "{sentence}");
    assert!(!scan.path("runs").exists(), "no run was started");
}

#[test]
fn an_alarm_ends_or_repeats_as_the_file_says() {
    let scan = Scan::new("events = 50", "true {value}");
    let quiet = "name = 'quiet'\nruns = 'RUNS'\n[[source]]\nname = 'a'\nformat = 'counter'\n\
                 [source.udp]\nlisten = ['127.0.0.1:0']\n[events]\nbuild = 'packet'\n";
    scan.write("experiment.toml", &quiet.replace("RUNS", text(&scan.path("runs"))));
    let file = fs::read_to_string(scan.path("scan.toml")).expect("scan");
    let alarm = |word: &str| {
        let head = format!("[sequence]\non-alarm = '{word}'\n");
        let file = file.replace("[sequence]\n", &head).replace("events = 50", "seconds = 0.05");
        scan.write("scan.toml", &file);
    };
    alarm("stop");
    let sentence = refused(&scan.call(&[]), 7);
    assert!(sentence.contains("ends behind run 1"), "{sentence}");
    alarm("repeat");
    let sentence = refused(&scan.call(&["--resume"]), 7);
    assert!(sentence.contains("run 2 had an alarm in each of 3 tries"), "{sentence}");
    assert_eq!(scan.tags().iter().filter(|tags| tags.contains("hv=1100 replaced")).count(), 3);
    alarm("go-on");
    let sentence = refused(&scan.call(&["--resume"]), 7);
    assert!(sentence.contains("all 3 runs of the sequence are finished, and 2"), "{sentence}");
}

#[test]
fn a_wrong_sequence_starts_nothing_and_touches_no_other_file() {
    let scan = Scan::new("events = 50", "true {value}");
    scan.write("notes.txt", "my notes, without a line end");
    for progress in ["notes.txt", "scan.toml"] {
        let before = fs::read(scan.path(progress)).expect("a file");
        let path = scan.path(progress);
        let refused = scan.call(&["--progress", text(&path)]);
        assert!(matches!(refused.status.code(), Some(1 | 3)), "{}", said(&refused));
        assert_eq!(fs::read(path).expect("a file"), before);
    }
    scan.write_scan("", "true {value}");
    let sentence = refused(&scan.call(&[]), 3);
    assert!(sentence.contains("the runs never end"), "{sentence}");
    let plan = scan.call(&["--dry-run"]);
    assert_eq!(plan.status.code(), Some(3));
    scan.write_scan("events = 50", "true");
    let sentence = refused(&scan.call(&[]), 3);
    assert!(sentence.contains("set nothing"), "{sentence}");
    let missing = crate::support::call(&["sequence", text(&scan.path("none.toml"))]);
    assert!(refused(&missing, 3).contains("cannot be read"));
    assert!(!scan.path("runs").exists() && !scan.path("sequence.jsonl").exists());
}

#[test]
fn the_runs_of_a_sequence_have_one_page_with_one_token_and_say_their_number() {
    let scan = Scan::new("seconds = 600", "true {value}");
    let address = format!("127.0.0.1:{}", crate::support::free_port());
    let sequence = scan.path("scan.toml");
    let running = Running::spawn(&["sequence", text(&sequence), "--serve", &address]);
    let mut first = None;
    for number in 0..3 {
        let folder = scan.path(&format!("runs/{number:04}"));
        let url = wait_for_text(&folder.join("serve.url"));
        assert!(url.starts_with(&format!("http://{address}/#")), "{url}");
        assert_eq!(*first.get_or_insert_with(|| url.clone()), url);
        let note = format!("run {} of 3 hv={}", number + 1, 1000 + 100 * number);
        let began = Instant::now();
        loop {
            let state = crate::support::call_json(&["ctl", "--run", text(&folder), "status"]);
            let notes = state["remarks"].as_array().expect("notes").iter();
            if notes.filter_map(|remark| remark["text"].as_str()).any(|text| text.contains(&note)) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "no `{note}`: {state}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let stopped = crate::support::call(&["ctl", "--run", text(&folder), "stop"]);
        assert!(stopped.status.success(), "{}", said(&stopped));
    }
    let (status, said) = running.end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches(&format!("page     http://{address}/#")).count(), 3, "{said}");
    let taken = std::net::TcpListener::bind(&address).expect("the address is free again");
    let refusal = refused(&scan.call(&["--restart", "--serve", &address]), 6);
    assert!(refusal.contains("run 1 of 3"), "{refusal}");
    drop(taken);
    assert!(!scan.path("runs/0003").exists(), "no run was begun");
}

/// Waits for a file with a whole line.
fn wait_for_text(path: &Path) -> String {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_example_of_a_scan_runs() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scan/scan.toml");
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let progress = scratch.path().join("progress.jsonl");
    let mut command = Command::new(PROGRAM);
    command.current_dir(scratch.path()).arg("--json").arg("sequence").arg(example);
    let output = command.args(["--progress", text(&progress)]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let tags = document["runs"].as_array().expect("runs").iter().map(|run| &run["tags"][0]);
    assert_eq!(tags.collect::<Vec<_>>(), [&json!("hv=1000"), &json!("hv=1100"), &json!("hv=1200")]);
    assert!(scratch.path().join("runs/0002/run.json").exists());
}
