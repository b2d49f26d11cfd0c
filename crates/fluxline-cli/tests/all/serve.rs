//! `--serve` and `fluxline ctl` as an operator uses them, from another terminal.

use std::time::{Duration, Instant};

use crate::support::{
    Running, assert_status_is_true, call, call_json, refused, run_document, text,
};
use serde_json::Value;

/// The longest that a run may take to reach a state or to end.
const PATIENCE: Duration = crate::support::PATIENCE;

fn state(run: &str) -> Value {
    call_json(&["ctl", "--run", run, "status", "--json"])
}

fn wait_for(run: &str, passes: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let state = state(run);
        if passes(&state) {
            return state;
        }
        assert!(began.elapsed() < PATIENCE, "{state:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_run_is_controlled_from_another_terminal_and_its_key_file_goes_with_it() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let run = text(&folder);
    let running = Running::start(
        &[
            "demo",
            "--seconds",
            "600",
            "--rate",
            "200",
            "--serve",
            "127.0.0.1:0",
            "--armed",
            "--folder",
            run,
        ],
        "memory ",
    );
    let armed = wait_for(run, |state| state["events"]["paused"].as_u64() > Some(20));
    assert_eq!(armed["state"], "armed");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &folder.join("serve.url").metadata().expect("the key file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    let tell = |words: &[&str]| {
        let output = call(&[&["ctl", "--run", run], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(tell(&["start"]), "running");
    assert_eq!(tell(&["note", "beam is back"]), "running");
    assert_eq!(tell(&["shot", "4711"]), "running");
    assert!(tell(&["status"]).contains("state    running"));
    let before = state(run)["recorded_bytes"].as_u64();
    wait_for(run, |state| state["recorded_bytes"].as_u64() > before);
    assert_eq!(tell(&["pause"]), "paused");
    let sentence = refused(&call(&["ctl", "--run", run, "start"]), 3);
    assert!(sentence.contains("`start` is refused; it takes `resume` or `stop`"), "{sentence}");
    assert_eq!(tell(&["stop"]), "stopping");
    let (code, said) = running.end();
    assert!(!said.contains("panicked"), "{said}");
    let document = run_document(&folder);
    assert_status_is_true(&document, code);
    assert_eq!(document["control"]["shot"], 4711);
    assert_eq!(document["control"]["remarks"][0]["text"], "beam is back");
    assert_eq!(document["closes"], true);
    let totals = &document["totals"];
    assert!(totals["recorded"].as_u64() > Some(0) && totals["not_recorded"].as_u64() > Some(0));
    assert!(!folder.join("serve.url").exists(), "the key ends with the run");
    let sentence = refused(&call(&["ctl", "--run", run, "pause"]), 3);
    assert!(sentence.contains("is not served: it has ended"), "{sentence}");
}

#[test]
fn wrong_addresses_and_runs_are_one_sentence() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let taken = taken.local_addr().expect("an address").to_string();
    let folder = scratch.path().join("run");
    let sentence = refused(
        &call(&["demo", "--seconds", "1", "--serve", &taken, "--folder", text(&folder)]),
        6,
    );
    assert!(sentence.contains(&taken) && sentence.contains("another address"), "{sentence}");
    assert!(!folder.exists(), "no run began");
    let sentence = refused(&call(&["ctl", "--url", "ftp://nowhere", "status"]), 3);
    assert!(sentence.contains("http://127.0.0.1:8040"), "{sentence}");
    let sentence = refused(&call(&["ctl", "--url", "http://127.0.0.1:1/#0", "status"]), 6);
    assert!(sentence.contains("no answer from http://127.0.0.1:1"), "{sentence}");
    let output = call(&["run", "--armed", "experiment.toml"]);
    assert_eq!(output.status.code(), Some(2), "--armed needs --serve");
}

#[test]
fn run_folders_are_served_until_the_signal_and_a_missing_folder_is_one_sentence() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let runs = scratch.path().join("runs");
    let absent = refused(&call(&["serve", text(&runs)]), 3);
    assert!(absent.contains("is not a directory; give the folder that has the runs"), "{absent}");
    std::fs::create_dir(&runs).expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let taken = taken.local_addr().expect("an address").to_string();
    let sentence = refused(&call(&["serve", text(&runs), "--listen", &taken]), 6);
    assert!(sentence.contains(&taken), "{sentence}");
    let folder = runs.join("0000");
    call(&["demo", "--seconds", "0.5", "--folder", text(&folder)]);
    let running = Running::spawn(&["serve", text(&runs), "--json"]);
    running.wait_for_handler();
    running.interrupt();
    let (code, errors, output) = running.end_with_output();
    assert_eq!(code, Some(0), "{errors}");
    let document: Value = serde_json::from_str(&output).expect("JSON");
    assert!(document["page"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")));
}

/// Returns the messages of a log in JSON, in order.
fn messages(errors: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(errors).into_owned();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let parsed = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let level = |line: &Value| line["level"].as_str().unwrap_or("").to_owned();
    parsed.map(|line| format!("{} {}", level(&line), line["message"])).collect()
}

#[test]
fn the_log_has_start_sources_states_and_end_once_and_is_off_unless_asked() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = |name: &str, more: &[&str], level: Option<&str>| {
        let folder = scratch.path().join(name);
        let usual = ["demo", "--seconds", "0.5", "--sources", "3", "--folder", text(&folder)];
        let mut command = crate::support::fluxline();
        command.args(usual).args(more);
        if let Some(level) = level {
            command.env("FLUXLINE_LOG", level);
        }
        command.output().expect("it ran")
    };
    let log = messages(&run("json", &["--log", "json"], None).stderr);
    let count = |message: &str| log.iter().filter(|line| line.contains(message)).count();
    assert_eq!(count("INFO \"the run has started\""), 1, "{log:#?}");
    assert_eq!(count("INFO \"new source\""), 3, "{log:#?}");
    assert_eq!(count("INFO \"the run's state changed\""), 2, "stopping, stopped: {log:#?}");
    assert_eq!(count("INFO \"the run has ended\""), 1, "{log:#?}");
    assert_eq!(messages(&run("off", &[], None).stderr), [""; 0]);
    let quiet = run("errors", &["--log", "json", "--log-level", "error"], Some("debug"));
    assert_eq!(messages(&quiet.stderr), [""; 0], "the command line decides");
    let words = run("text", &[], Some("info"));
    let words = String::from_utf8_lossy(&words.stderr).into_owned();
    assert!(words.contains("INFO") && words.contains("new source"), "{words}");
    let wrong = String::from_utf8_lossy(&run("wrong", &[], Some("loud")).stderr).into_owned();
    assert!(
        wrong.contains("FLUXLINE_LOG is `loud`; set it to error, warn, info or debug"),
        "{wrong}"
    );
}
