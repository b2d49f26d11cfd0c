//! Slow control values beside the events, as programs of the slow control send them by UDP.

use std::fmt::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::node_storms::python;
use crate::support::{PATIENCE, Running, call, number, refused, run_document, send_signal, text};

/// An emulated board, a socket for four names, and a rule on one of them.
const EXPERIMENT: &str = r#"
name = "slow"
[[source]]
name = "board"
format = "counter"
[source.emulator]
rate = 50.0
seed = 1
[slow-control]
udp = "127.0.0.1:0"
every-s = 86400
values-max = 4
[[alarm]]
name = "gas"
value = "slow:gas/flow"
stale-s = 1.0
[[alarm]]
name = "trip"
value = "slow:hv{slot=3}/voltage"
below = 100.0
"#;
/// Changes of the value that floods.
const FLOOD: u64 = 10_000;
/// Lines of the flood that may wait in the socket.
const FLOOD_STEP: u64 = 1_000;

/// A run that is served, and a sender of lines.
struct Sender {
    run: String,
    socket: UdpSocket,
    to: String,
    sent: u64,
}

impl Sender {
    fn new(run: &str) -> Sender {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut sender = Sender { run: run.to_owned(), socket, to: String::new(), sent: 0 };
        let state = sender.wait_for(|state| state["slow_control"]["listens"].is_string());
        state["slow_control"]["listens"].as_str().expect("an address").clone_into(&mut sender.to);
        sender
    }

    /// Sends a datagram of this many lines.
    fn send(&mut self, datagram: &[u8], lines: u64) {
        self.socket.send_to(datagram, &self.to).expect("sent");
        self.sent += lines;
    }

    /// Waits until all lines have arrived, so that no more than a socket's buffer is under way.
    fn wait(&self) -> Value {
        self.wait_for(|state| state["slow_control"]["counters"]["lines"] == self.sent)
    }

    fn wait_for(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let output = call(&["ctl", "--run", &self.run, "status", "--json"]);
            let state: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if is_it(&state) {
                return state;
            }
            assert!(began.elapsed() < PATIENCE, "{} sent: {state:#}", self.sent);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn flood(&mut self) {
        for first in (0..FLOOD).step_by(FLOOD_STEP as usize) {
            for start in (first..first + FLOOD_STEP).step_by(50) {
                let mut datagram = String::new();
                for value in start..start + 50 {
                    writeln!(datagram, "flood x={value}i").expect("a string");
                }
                self.send(datagram.as_bytes(), 50);
            }
            self.wait();
        }
    }
}

fn has_alarm(state: &Value, sentence: &str) -> bool {
    let alarms = state["health"]["alarms"].as_array().into_iter().flatten();
    alarms.filter_map(|alarm| alarm["sentence"].as_str()).any(|one| one.contains(sentence))
}

#[test]
fn every_line_that_arrives_has_one_end_and_the_values_are_in_the_run_folder() {
    if python().is_none() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (folder, file) = (scratch.path().join("run"), scratch.path().join("slow.toml"));
    std::fs::write(&file, EXPERIMENT).expect("an experiment");
    let (run, file) = (text(&folder), text(&file));
    let running =
        Running::start(&["run", file, "--serve", "127.0.0.1:0", "--folder", run], "memory ");
    let mut sender = Sender::new(run);
    sender.send(b"gas flow=1.5\nhv,unit=V,slot=3 voltage=1500.5 7\nt state=\"ok\"\n", 3);
    sender.send(b"hv,slot=3,unit=V voltage=1500.5\n\n# no line\nt state=\"ok\"", 2);
    sender.send(b"nonsense\nhv voltage=high\nt state=\"\xFF\"\nt state=\"ramping\"\n", 4);
    sender.flood();
    sender.send(b"extra x=1\nextra x=2\nextra y=1\n", 3);
    let state = sender.wait();
    let values = &state["slow_control"]["values"];
    assert_eq!(values["hv{slot=3}/voltage"]["value"], 1500.5);
    assert_eq!(values["hv{slot=3}/voltage"]["unit"], "V");
    assert_eq!(values["t/state"]["text"], "ramping");
    assert_eq!(values["flood/x"]["value"], (FLOOD - 1) as f64);
    sender.wait_for(|state| has_alarm(state, "slow:gas/flow has not been sent for"));
    sender.send(b"hv,slot=3,unit=V voltage=12\n", 1);
    sender.wait_for(|state| has_alarm(state, "slow:hv{slot=3}/voltage is 12, below 100"));
    running.interrupt();
    let (_, said) = running.end();
    assert!(!said.contains("panicked"), "{said}");
    for note in ["it is not UTF-8", "it has no field", "texts need quotes", "raise `values-max`"] {
        assert!(said.contains(note), "{note}: {said}");
    }
    judge(&folder, sender.sent);
}

/// Judges the counters of run.json, and the file by pyarrow.
fn judge(folder: &Path, sent: u64) {
    let document = run_document(folder);
    let counters = &document["slow_control"]["counters"];
    let count = |name: &str| number(counters, name);
    let ends = ["recorded", "unchanged", "thinned", "refused", "malformed"];
    assert_eq!(ends.map(count).iter().sum::<u64>(), sent, "{counters:#}");
    assert_eq!(["lines", "malformed", "refused"].map(count), [sent, 3, 3], "{counters:#}");
    assert_eq!(["not_written", "datagrams_dropped", "retimed"].map(count), [0, 0, 1]);
    assert_eq!(count("unchanged"), 2, "{counters:#}");
    let script = "
import sys, pyarrow as pa
with pa.ipc.open_stream(sys.argv[1] + '/slow.arrows') as stream:
    table = stream.read_all()
for at in (0, 1):
    assert table.schema[at].type == pa.timestamp('ns', 'UTC')
    table = table.set_column(at, table.schema[at].name, table[at].cast(pa.int64()))
rows = table.to_pylist()
recorded, last = int(sys.argv[2]), int(sys.argv[3])
assert len(rows) == recorded, (len(rows), recorded)
of = lambda name: [row for row in rows if row['name'] == name]
assert {row['name'] for row in rows} == {'hv{slot=3}/voltage', 't/state', 'gas/flow', 'flood/x'}
assert [row['value'] for row in of('hv{slot=3}/voltage')] == [1500.5, 12.0]
assert all(row['unit'] == 'V' for row in of('hv{slot=3}/voltage'))
assert [row['text'] for row in of('t/state')] == ['ok', 'ramping']
assert [row['value'] for row in of('t/state')] == [None, None]
assert [row['value'] for row in of('gas/flow')] == [1.5]
flood = of('flood/x')
values = [row['value'] for row in flood]
assert values == sorted(values) and values[0] == 0 and values[-1] == last, values
lasted = (flood[-1]['arrival'] - flood[0]['arrival']) * 1e-9
assert len(flood) <= lasted * 10 + 2, (len(flood), lasted)
assert all(row['time'] == row['arrival'] for row in rows)
";
    let recorded = count("recorded").to_string();
    run_python(&["-c", script, text(folder), &recorded, &(FLOOD - 1).to_string()]);
}

fn run_python(arguments: &[&str]) {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).args(arguments).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_run_that_is_killed_has_the_values_that_were_counted_as_recorded() {
    if python().is_none() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (folder, file) = (scratch.path().join("run"), scratch.path().join("slow.toml"));
    std::fs::write(&file, EXPERIMENT).expect("an experiment");
    let (run, file) = (text(&folder), text(&file));
    let running =
        Running::start(&["run", file, "--serve", "127.0.0.1:0", "--folder", run], "memory ");
    let mut sender = Sender::new(run);
    sender.send(b"gas flow=1.5\nhv voltage=12\n", 2);
    sender.wait_for(|state| state["slow_control"]["counters"]["recorded"] == 2);
    send_signal(running.id(), "KILL");
    running.end();
    let script = "
import sys, pyarrow as pa
with pa.ipc.open_stream(sys.argv[1] + '/slow.arrows') as stream:
    assert [one for batch in stream for one in batch['value'].to_pylist()] == [1.5, 12.0]
";
    run_python(&["-c", script, run]);
}

#[test]
fn a_socket_that_another_program_has_is_an_error_of_the_start_and_leaves_no_folder() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (folder, file) = (scratch.path().join("run"), scratch.path().join("slow.toml"));
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("an address").to_string();
    std::fs::write(&file, EXPERIMENT.replace("127.0.0.1:0", &address)).expect("an experiment");
    let sentence = refused(&call(&["run", text(&file), "--folder", text(&folder)]), 6);
    assert!(sentence.contains(&address) && sentence.contains("[slow-control]"), "{sentence}");
    assert!(!folder.exists());
}
