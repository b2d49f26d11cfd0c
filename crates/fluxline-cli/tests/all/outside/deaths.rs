//! Signals, and kill -9 of each side: what had come is kept, and readable.

use serde_json::{Value, json};

use super::scene::Scene;
use crate::support::{call_json, call_json_ending, number, text};

/// Small batches, so that a kill finds some on disk and some not.
const QUICK: &str = "[events]\nbuild = 'packet'\n[record]\nbatch-ms = 20\n";

/// Two boards of 2,000 packets per second each.
fn two_boards(count: u64) -> Value {
    let parts = |of: u64| json!([{ "at_us": of, "count": count, "period_us": 500 }]);
    let board = |of: u64| json!({ "board": of, "parts": parts(of) });
    json!({ "boards": [board(0), board(1)] })
}

#[test]
fn what_came_before_a_signal_is_in_the_files() {
    for signal in ["INT", "TERM", "HUP"] {
        let Some(scene) = Scene::new() else { return };
        let live = scene.listen("run", "[events]\nbuild = 'key'\n");
        let sender = scene.send("boards", &two_boards(100_000), live.port);
        sender.wait_for(1000);
        let before_ns = sender.newest_ns();
        let ended = live.end(signal);
        let log = sender.kill();
        let found = scene.check(&ended.folder, &[&log]);
        let totals = &ended.document()["totals"];
        assert_eq!(ended.status, Some(0), "SIG{signal}: {}", ended.errors);
        assert_eq!(ended.document()["state"], "finished", "SIG{signal}");
        assert_eq!(number(totals, "socket_dropped"), 0, "the rate is low");
        let first_absent = found["absent_ns"][0].as_u64().unwrap_or(u64::MAX);
        assert!(first_absent > before_ns, "SIG{signal} cost what had come: {found}");
        for never in ["doubled", "strangers", "misread", "torn"] {
            assert_eq!(number(&found, never), 0, "{never}: {found}");
        }
        assert_eq!(number(&found, "packets"), number(totals, "recorded"));
        assert_eq!(number(totals, "lost"), 0);
        ended.rows_add_up();
    }
}

#[test]
fn a_killed_sender_costs_nothing_that_it_sent() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", QUICK);
    let sender = scene.send("boards", &two_boards(100_000), live.port);
    sender.wait_for(1500);
    let log = sender.kill();
    // Another one takes its place, with counters of its own from 0.
    let mut plan = two_boards(500);
    plan["seed"] = 2.into();
    let second = scene.send("again", &plan, live.port).done();
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&log, &second]);
    let totals = &ended.document()["totals"];
    assert_eq!(number(totals, "socket_dropped"), 0, "the rate is low");
    assert_eq!(number(&found, "strangers") + number(&found, "doubled"), 0, "{found}");
    let unknown = found["sent"]["unknown"].as_u64().unwrap_or(0);
    let known = number(&found["sent"], "data");
    let came = number(totals, "datagrams");
    assert!((known..=known + unknown).contains(&came), "{came} of {known} + {unknown}");
    let absent = found["absent"]["data"].as_u64().unwrap_or(0);
    assert_eq!(absent, 0, "a restarted board's packets are no copies: {found}");
    assert_eq!(number(totals, "restarts"), 2);
    assert_eq!(ended.status, Some(0), "{}", ended.errors);
    ended.rows_add_up();
}

#[test]
fn a_killed_run_keeps_every_complete_batch() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", QUICK);
    let sender = scene.send("boards", &two_boards(100_000), live.port);
    sender.wait_for(2000);
    live.wait_for_batches();
    let killed = live.end("KILL");
    let log = sender.kill();
    assert_eq!(killed.status, None);
    assert_eq!(killed.document()["state"], "running", "nobody had time to say otherwise");

    let before = scene.check(&killed.folder, &[&log]);
    assert!(number(&before, "packets") > 0, "batches of 20 ms: {before}");
    for never in ["doubled", "strangers", "misread"] {
        assert_eq!(number(&before, never), 0, "{never}: {before}");
    }
    let newest = before["last_ns"].as_object().expect("boards").values();
    let newest = newest.filter_map(Value::as_u64).max().expect("packets");
    let absent = before["absent_ns"][0].as_u64().unwrap_or(u64::MAX);
    assert!(absent > newest, "nothing is missing before the last complete batch: {before}");

    call_json(&["recover", text(&killed.folder)]);
    let after = scene.check(&killed.folder, &[&log]);
    assert_eq!(number(&after, "packets"), number(&before, "packets"), "recovery keeps all");
    assert_eq!(number(&after, "torn"), 0);
    assert_eq!(killed.document()["state"], "recovered");
    let inspected = call_json_ending(&["inspect", text(&killed.folder)], 7);
    assert_eq!(number(&inspected["readable"], "packets"), number(&after, "packets"));
}
