//! The health of a run as a shift leader sees it: a board dies, and everything says so.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::node_storms::python;
use crate::support::{PATIENCE, Running, call, refused, run_document, text};

/// Two boards on real sockets, the second of which dies after 300 packets.
const EXPERIMENT: &str = r#"
name = "shift"
[[source]]
name = "good"
format = "counter"
[source.emulator]
rate = 200.0
seed = 1
[[source]]
name = "dies"
format = "counter"
[source.emulator]
rate = 200.0
packets = 300
seed = 2
[events]
build = "key"
require = 2
[health]
silent-s = 1
command = ["tee", "-a", "COMMAND"]
[[alarm]]
name = "packets come"
value = "rate(packets)"
above = 1.0
"#;

fn status(run: &str) -> (Output, Value) {
    let output = call(&["ctl", "--run", run, "status", "--json"]);
    let state = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, state)
}

/// Waits until the state of a run is as wanted.
fn wait_for(run: &str, is_it: impl Fn(&Value) -> bool) -> (Output, Value) {
    let began = Instant::now();
    loop {
        let (output, state) = status(run);
        if is_it(&state["health"]) {
            return (output, state);
        }
        assert!(began.elapsed() < PATIENCE, "{state:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn alarm<'a>(health: &'a Value, rule: &str) -> &'a Value {
    let alarms = health["alarms"].as_array().into_iter().flatten();
    alarms.into_iter().find(|alarm| alarm["rule"] == rule).unwrap_or(&Value::Null)
}

#[test]
fn a_required_board_that_dies_is_an_alarm_everywhere_and_stays_in_the_run_folder() {
    if python().is_none() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (folder, told) = (scratch.path().join("run"), scratch.path().join("told.jsonl"));
    let file = scratch.path().join("shift.toml");
    let experiment = EXPERIMENT.replace("COMMAND", text(&told));
    std::fs::write(&file, experiment).expect("an experiment");
    let run = text(&folder);
    let running =
        Running::start(&["run", text(&file), "--serve", "127.0.0.1:0", "--folder", run], "memory ");
    let (output, state) = wait_for(run, |health| health["state"] == "alarm");
    assert_eq!(output.status.code(), Some(7), "for scripts");
    let health = &state["health"];
    let sentence = health["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("required source") && sentence.contains("silent"), "{sentence}");
    let name = alarm(health, "source-silent")["name"].as_str().expect("a name").to_owned();
    assert!(!health["alarms"].as_array().expect("a list").is_empty(), "{health:#}");
    let own = wait_for(run, |health| !alarm(health, "own").is_null()).1;
    assert!(alarm(&own["health"], "own")["sentence"].as_str().expect("a text").contains("above 1"));
    acknowledge_and_shelve(run, &name);
    let metrics = metrics_of(&folder);
    assert!(metrics.contains("fluxline_run_health{run=\"shift\",health=\"warning\"} 1"));
    assert!(metrics.contains(&format!("alarm=\"{name}\"")), "{metrics}");
    running.interrupt();
    let (_, said) = running.end();
    assert!(!said.contains("panicked"), "{said}");
    judge_folder(&folder, &name);
    let told = std::fs::read_to_string(&told).expect("what the command got");
    assert!(told.lines().any(|line| line.contains("\"raised\"") && line.contains(&name)), "{told}");
}

fn acknowledge_and_shelve(run: &str, name: &str) {
    let tell = |words: &[&str]| call(&[&["ctl", "--run", run], words].concat());
    assert!(tell(&["acknowledge", name]).status.success());
    let sentence = refused(&tell(&["acknowledge", "nothing"]), 3);
    assert!(sentence.contains("no alarm named `nothing`"), "{sentence}");
    assert!(refused(&tell(&["shelve", name, "--minutes", "0"]), 3).contains("1 to 1440"));
    assert!(tell(&["shelve", name]).status.success());
    let (output, state) = wait_for(run, |health| health["state"] != "alarm");
    assert!(output.status.success(), "a shelved alarm does not count: {state:#}");
    assert_eq!(alarm(&state["health"], "source-silent")["acknowledged"], true);
}

fn metrics_of(folder: &Path) -> String {
    let url = std::fs::read_to_string(folder.join("serve.url")).expect("the address");
    let address = url.trim().split('#').next().expect("an address");
    let script = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())";
    run_python(&["-c", script, &format!("{address}metrics")])
}

/// Judges the files of the run by pyarrow, and by `serve`'s own page.
fn judge_folder(folder: &Path, name: &str) {
    let document = run_document(folder);
    let kept = document["health"]["alarms"].as_array().expect("a list");
    assert!(kept.iter().any(|one| one.as_str().is_some_and(|one| one.contains("silent"))));
    let lines = std::fs::read_to_string(folder.join("alarms.jsonl")).expect("the alarms");
    let changes: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let of =
        |change: &str| changes.iter().any(|one| one["name"] == name && one["change"] == change);
    for change in ["raised", "acknowledged", "shelved", "ended"] {
        assert!(of(change), "{change}: {lines}");
    }
    let script = "
import json, sys, pyarrow as pa
with pa.ipc.open_stream(sys.argv[1] + '/history.arrows') as stream:
    table = stream.read_all()
rows = table.drop_columns(['time']).to_pylist()
last = rows[-1]
assert all(a['packets'] <= b['packets'] for a, b in zip(rows, rows[1:])), 'counts only grow'
run = json.load(open(sys.argv[1] + '/run.json'))
assert last['packets'] == run['totals']['parsed'], (last['packets'], run['totals']['parsed'])
assert last['events'] == run['ledger']['builder']['events_complete'] + \\
    run['ledger']['builder']['events_incomplete'] + run['ledger']['builder']['events_stopped']
assert max(row['health'] for row in rows) == 2
sources = [row['sources'] for row in rows if row['sources']]
print(len(rows), len(sources))
";
    run_python(&["-c", script, text(folder)]);
}

/// Runs Python, and returns its output.
pub fn run_python(arguments: &[&str]) -> String {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).args(arguments).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
