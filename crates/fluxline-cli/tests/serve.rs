//! `--serve` and `fluxline ctl` as an operator uses them, from another terminal.

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Running, assert_status_is_true, call, call_json, refused, run_document, text};

/// The longest that a run may take to reach a state or to end.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let armed = wait_for(run, |state| state["events"]["built"].as_u64() > Some(20));
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
    let (code, said) = running.end(PATIENCE);
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
