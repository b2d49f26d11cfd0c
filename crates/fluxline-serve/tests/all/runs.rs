//! A folder of runs on a page: finished, damaged and growing ones, read back over HTTP.

use std::fs;
use std::path::Path;

use fluxline_core::random::{Draw, test_seed};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::record::{Author, Mark, Marks, RunFolder};
use fluxline_run::{Acquisition, Options};
use fluxline_serve::{Listening, Server, ServerConfig};
use serde_json::Value;

use crate::support::{Answer, get, raw, wait_for};

pub fn serve(runs: &Path) -> Server {
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    let config = ServerConfig { listen, ..ServerConfig::default() };
    Server::start_runs(Listening::on(&config).expect("a free port"), runs).expect("served")
}

pub fn start(runs: &Path, packets: u64) -> Acquisition {
    let text = format!(
        "name = 'boards'\nruns = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
         [source.emulator]\nsources = 3\nrate = 3000.0\npackets = {packets}\nin-flight-max = 64\n\
         [source.emulator.faults]\ndrop = 0.02\n[events]\nbuild = 'key'\nrequire = 3\n",
        runs.display()
    );
    let experiment = Experiment::parse("boards", &text).expect("a valid experiment");
    fluxline_run::start_with(experiment, Options::default()).expect("started")
}

#[test]
fn a_finished_run_is_listed_and_shows_its_ledger_events_packets_and_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = start(folder.path(), 2_000).wait().expect("ended");
    let server = serve(folder.path());
    let list = get(&server, "/api/runs").json();
    let run = &list["runs"][0];
    assert_eq!((run["id"].as_str(), run["state"].as_str()), (Some("0000"), Some("finished")));
    let state =
        wait_for(&server, "/api/runs/0000/state", |state| state["reading"]["complete"] == true);
    let totals = report.ledger.source_totals();
    assert_eq!(state["reading"]["packets"].as_u64(), Some(totals.recorded), "{state:#}");
    assert_eq!(state["events"]["built"].as_u64(), Some(report.ledger.events()));
    assert_eq!(state["events"]["incomplete"].as_u64(), Some(report.ledger.events_incomplete()));
    assert!(report.ledger.events_incomplete() > 0, "the boards drop 2 %");
    assert_eq!(state["flow"]["lost"].as_u64(), Some(totals.lost));
    assert_eq!(state["faults"], serde_json::json!([]));
    all_events_are_there_once(&server, &state);
    every_packet_is_decoded(&server);
}

fn all_events_are_there_once(server: &Server, state: &Value) {
    let mut random = Draw::new(test_seed!(34));
    let (mut from, mut numbers, mut incomplete) = (Some(0), Vec::new(), 0);
    while let Some(next) = from {
        let count = 1 + random.below(400);
        let answer = get(server, &format!("/api/runs/0000/events?from={next}&count={count}"));
        for event in answer.json()["events"].as_array().expect("events") {
            numbers.push(event["number"].as_u64().expect("a number"));
            let whole = event["status"] == "complete";
            incomplete += u64::from(!whole);
            assert_eq!(whole, event["missing"] == "", "{event}");
        }
        from = answer.json()["next"].as_u64();
    }
    let built = state["events"]["built"].as_u64().expect("a count");
    assert_eq!(numbers, (0..built).collect::<Vec<_>>());
    assert_eq!(Some(incomplete), state["events"]["incomplete"].as_u64());
    let (mut from, mut listed) = (Some(0), 0);
    while let Some(next) = from {
        let path = format!("/api/runs/0000/events?only=incomplete&from={next}&count=7");
        let answer = get(server, &path);
        listed += answer.json()["events"].as_array().expect("events").len() as u64;
        from = answer.json()["next"].as_u64();
    }
    assert_eq!(listed, incomplete);
}

fn every_packet_is_decoded(server: &Server) {
    let event = get(server, "/api/runs/0000/event?number=17").json();
    let count = event["packets"].as_array().expect("packets").len();
    assert!((1..=3).contains(&count), "{event}");
    for packet in 0..count {
        let path = format!("/api/runs/0000/event?number=17&packet={packet}");
        let decoded = get(server, &path).json();
        let label = event["packets"][packet]["label"].as_str().expect("a label");
        assert_eq!(decoded["source"].as_str(), Some(label));
    }
    assert_eq!(get(server, "/api/runs/0000/event?number=17&packet=9").status, 404);
    let absent = get(server, "/api/runs/0000/event?number=99999999");
    assert!(absent.body.contains("no event 99999999"), "{}", absent.body);
    let trace = wait_for(server, "/api/runs/0000/trace?source=1&field=event_number", |trace| {
        trace["complete"] == true
    });
    let greatest = trace["greatest"].as_array().expect("values");
    assert!(greatest.windows(2).all(|pair| pair[0].as_f64() < pair[1].as_f64()), "it counts");
    let signal = get(server, "/api/runs/0000/signal?source=1&field=event_number").json();
    let samples = trace["samples"].as_u64();
    assert_eq!(signal["packets"].as_u64(), samples, "all packets are in the first batches");
}

#[test]
fn tags_and_comments_that_are_added_later_are_on_the_list_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), 200).wait().expect("ended");
    let server = serve(folder.path());
    let row = || get(&server, "/api/runs").json()["runs"][0].clone();
    let first = row();
    assert_eq!((&first["tags"], &first["comment"]), (&serde_json::json!([]), &"".into()));
    let run = RunFolder::open(&folder.path().join("0000")).expect("a run");
    let add = |mark| {
        let author = Author::new("ada", 7);
        Marks::append(run.directory(), &author, &[mark]).expect("added");
        row()
    };
    let tagged = add(Mark::Tag("hv=1100".to_owned()));
    assert_eq!(tagged["tags"], serde_json::json!(["hv=1100"]));
    let said = add(Mark::Comment("no beam".to_owned()));
    assert_eq!((&said["tags"], &said["comment"]), (&tagged["tags"], &"no beam".into()));
    let state = get(&server, "/api/runs/0000/state").json();
    assert_eq!((&state["tags"], &state["comment"]), (&tagged["tags"], &"no beam".into()));
}

#[test]
fn a_run_that_is_being_written_grows_on_the_page_until_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let acquisition = start(folder.path(), 0);
    let server = serve(folder.path());
    let path = "/api/runs/0000/state";
    let seen = wait_for(&server, path, |state| {
        state["state"] == "running" && state["reading"]["packets"].as_u64() > Some(100)
    });
    let seen = seen["reading"]["packets"].as_u64();
    wait_for(&server, path, |state| state["reading"]["packets"].as_u64() > seen);
    let trace = "/api/runs/0000/trace?source=0&field=event_number";
    let before = wait_for(&server, trace, |trace| trace["samples"].as_u64() > Some(10));
    acquisition.stop();
    let report = acquisition.wait().expect("ended");
    let recorded = report.ledger.source_totals().recorded;
    let state = wait_for(&server, path, |state| state["state"] == "finished");
    assert_eq!(state["reading"]["packets"].as_u64(), Some(recorded), "each packet once");
    assert_eq!(state["faults"], serde_json::json!([]));
    let of_source = report.ledger.sources[0].counters.recorded;
    let trace = wait_for(&server, trace, |trace| trace["samples"].as_u64() == Some(of_source));
    assert!(trace["samples"].as_u64() >= before["samples"].as_u64());
}

#[test]
fn damaged_runs_are_named_and_strange_names_get_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..3 {
        start(folder.path(), 500).wait().expect("ended");
    }
    let events = |run: &str| folder.path().join(run).join("events-000000.arrows");
    let mut bytes = fs::read(events("0000")).expect("events");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(events("0000"), bytes).expect("damaged");
    fs::remove_file(events("0001")).expect("lost");
    fs::write(folder.path().join("0002/run.json"), "{").expect("torn");
    fs::create_dir(folder.path().join("not a run")).expect("a folder");
    let server = serve(folder.path());
    let list = get(&server, "/api/runs").json();
    assert_eq!(list["runs"].as_array().expect("a list").len(), 3, "{list:#}");
    assert!(list["runs"][0]["fault"].as_str().is_some_and(|fault| fault.contains("run.json")));
    for run in ["0000", "0001", "0002"] {
        let path = format!("/api/runs/{run}/state");
        let state = wait_for(&server, &path, |state| state["reading"]["complete"] == true);
        assert!(state["faults"].as_array().is_some_and(|all| !all.is_empty()), "{run}: {state:#}");
    }
    for name in ["..", ".", "%2e%2e", "..%2f..%2fetc", "not%20a%20run", "9999", "%00", "%ff"] {
        let answer = get(&server, &format!("/api/runs/{name}/state"));
        assert!(matches!(answer.status, 400 | 404), "{name}: {} {}", answer.status, answer.body);
        assert!(!answer.body.contains("root:"), "{}", answer.body);
    }
    let config = ServerConfig { listen: None, ..ServerConfig::default() };
    let listening = Listening::on(&config).expect("a free port");
    let absent = folder.path().join("absent");
    let error = Server::start_runs(listening, &absent).expect_err("it is not there").to_string();
    assert!(error.contains("is not a directory; give the folder"), "{error}");
}

/// Asks for a mark of a run, with this token.
fn mark(server: &Server, id: &str, token: &str, body: &str) -> Answer {
    let bytes = body.len();
    let head = format!("POST /api/runs/{id}/marks HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n");
    let of = format!("Authorization: Bearer {token}\r\nContent-Length: {bytes}\r\n\r\n{body}");
    raw(server, &(head + &of))
}

#[test]
fn marks_need_the_token_and_go_nowhere_but_into_a_run_of_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), 100).wait().expect("ended");
    let server = serve(folder.path());
    let token = server.token().as_str().to_owned();
    let marks = folder.path().join("0000/marks.jsonl");
    for wrong in ["", "0", &token[1..]] {
        assert_eq!(mark(&server, "0000", wrong, "{\"tag\": \"good\"}").status, 401);
    }
    for (body, status) in [
        ("{\"tag\": \"two words\"}", 409),
        ("{\"comment\": \"\u{1b}[2J\"}", 400),
        ("{\"comment\": \"\\u001b[2J\"}", 409),
        ("{\"tag\": 7}", 400),
        ("not JSON", 400),
    ] {
        let refused = mark(&server, "0000", &token, body);
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
        assert!(refused.json()["error"].as_str().is_some_and(|text| text.ends_with('.')));
    }
    assert!(!marks.exists(), "nothing was written");
    let outside = tempfile::tempdir().expect("a folder");
    fs::copy(folder.path().join("0000/run.json"), outside.path().join("run.json")).expect("copied");
    std::os::unix::fs::symlink(outside.path(), folder.path().join("0009")).expect("a link");
    for id in ["0001", "..", "%2e%2e", "a%2fb", "0009"] {
        let refused = mark(&server, id, &token, "{\"tag\": \"good\"}");
        assert!(matches!(refused.status, 400 | 404), "{id}: {} {}", refused.status, refused.body);
    }
    assert!(!outside.path().join("marks.jsonl").exists());
    let said = "{\"comment\": \"beam was <b>back</b>\", \"user\": \"ada\"}";
    for body in ["{\"tag\": \"good\"}", "{\"tag\": \"hv=1\"}", "{\"untag\": \"good\"}", said] {
        let done = mark(&server, "0000", &token, body);
        assert_eq!(done.status, 200, "{}", done.body);
    }
    let run = get(&server, "/api/runs").json()["runs"]
        .as_array()
        .and_then(|runs| runs.iter().find(|run| run["id"] == "0000").cloned())
        .expect("the run");
    assert_eq!(run["tags"], serde_json::json!(["hv=1"]));
    assert_eq!(run["comment"], "beam was <b>back</b>");
    let lines = fs::read_to_string(marks).expect("the marks");
    assert!(lines.contains("\"user\":\"page\"") && lines.contains("\"user\":\"ada\""), "{lines}");
}
