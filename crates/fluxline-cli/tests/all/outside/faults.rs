//! Networks and boards that drop, double, swap, cut and intrude: each packet is in one named place.

use serde_json::{Value, json};

use super::scene::Scene;
use crate::support::{fluxline, number, text};

const BY_PACKET: &str = "[events]\nbuild = 'packet'\n";
const BY_KEY: &str = "[events]\nbuild = 'key'\n";

fn boards(faults: &Value) -> Value {
    let board = |of: u64| {
        json!({ "board": of, "faults": faults,
            "parts": [{ "at_us": of, "count": 4000, "period_us": 300 }] })
    };
    json!({ "seed": 11, "boards": [board(0), board(1), board(2)] })
}

#[test]
fn drops_duplicates_and_swaps_are_counted_to_the_packet() {
    let faults = json!({ "drop": 0.01, "duplicate": 0.01, "reorder": 0.01, "distance": 3 });
    for settings in [BY_PACKET, BY_KEY] {
        let Some(scene) = Scene::new() else { return };
        let live = scene.listen("run", settings);
        let log = scene.send("boards", &boards(&faults), live.port).done();
        let ended = live.end("INT");
        let found = scene.check(&ended.folder, &[&log]);
        ended.accounts_for(&found, 0);
        let totals = &ended.document()["totals"];
        let sent = &found["sent"];
        assert!(number(sent, "dropped") > 50 && number(sent, "copy") > 50, "{sent}");
        // What is dropped at the very end has no successor that would show it.
        let (lost, dropped) = (number(totals, "lost"), number(sent, "dropped"));
        let hidden = dropped.abs_diff(lost + number(totals, "socket_dropped"));
        assert!(hidden <= 3 || number(totals, "socket_dropped") > 0, "{lost} of {dropped}");
        assert!(number(totals, "reordered") > 50);
        assert_eq!(number(&found, "split") + number(&found, "mixed"), 0, "{found}");
    }
}

#[test]
fn datagrams_longer_than_a_slot_are_counted_and_named() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", &format!("gro = false\ndatagram-bytes-max = 512\n{BY_PACKET}"));
    let plan = json!({ "boards": [
        { "board": 0, "parts": [{ "at_us": 0, "count": 500, "period_us": 1000 }] },
        { "board": 1, "parts": [
            { "at_us": 3, "count": 320, "period_us": 1000, "kind": "long", "bytes": 1000 },
        ] },
    ] });
    let log = scene.send("boards", &plan, live.port).done();
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&log]);
    ended.accounts_for(&found, 7);
    assert_eq!(number(&ended.document()["totals"], "truncated"), 320);
    assert!(ended.out.contains("320"), "the summary says how many: {}", ended.out);
}

#[test]
fn packets_of_strangers_are_counted_and_cost_the_board_nothing() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", BY_KEY);
    let plan = json!({ "boards": [
        { "board": 0, "parts": [{ "at_us": 0, "count": 500, "period_us": 1000 }] },
        { "board": 9, "parts": [
            { "at_us": 7, "count": 100, "period_us": 5000, "kind": "foreign" },
        ] },
    ] });
    let log = scene.send("boards", &plan, live.port).done();
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&log]);
    ended.accounts_for(&found, 7);
    assert_eq!(number(&ended.document()["totals"], "rejected"), 100);
}

#[test]
fn a_run_that_only_strangers_send_to_does_not_end_well() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", BY_PACKET);
    let parts = json!([{ "at_us": 0, "count": 100, "period_us": 1000, "kind": "foreign" }]);
    let plan = json!({ "boards": [{ "board": 0, "parts": parts }] });
    let log = scene.send("strangers", &plan, live.port).done();
    let ended = live.end("INT");
    assert_eq!(ended.status, Some(7), "{}", ended.errors);
    let totals = &ended.document()["totals"];
    assert_eq!(number(totals, "rejected") + number(totals, "socket_dropped"), 100);
    let sent = std::fs::read_to_string(log).expect("ASCII").lines().count();
    assert_eq!(sent, 100);
}

#[test]
fn two_runs_at_once_do_not_mix() {
    let Some(scene) = Scene::new() else { return };
    let plan = |seed: u64| {
        let mut plan = boards(&json!({}));
        plan["seed"] = seed.into();
        plan
    };
    let runs = ["one", "two"].map(|name| scene.listen_numbered(name, BY_KEY));
    let senders = [&runs[0], &runs[1]].map(|run| {
        let seed = u64::from(run.port);
        scene.send(&format!("boards-{seed}"), &plan(seed), run.port)
    });
    let logs = senders.map(super::scene::Sender::done);
    assert_ne!(runs[0].folder, runs[1].folder);
    for (run, log) in runs.into_iter().zip(&logs) {
        let ended = run.end("INT");
        let found = scene.check(&ended.folder, &[log]);
        ended.accounts_for(&found, 0);
        assert_eq!(number(&found, "triggers"), 4000);
    }
}

#[test]
fn two_senders_with_one_source_key_do_not_end_as_if_all_were_well() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", BY_KEY);
    let plan = |seed: u64| {
        json!({ "seed": seed, "awaits_go": true, "boards": [
            { "board": 5, "parts": [{ "at_us": 0, "count": 1000, "period_us": 1000 }] },
        ] })
    };
    let mut senders =
        [1, 2].map(|seed| scene.send(&format!("same-{seed}"), &plan(seed), live.port));
    // One behind the other would be a restart.
    senders.iter_mut().for_each(super::scene::Sender::go);
    let logs = senders.map(super::scene::Sender::done);
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&logs[0], &logs[1]]);
    let document = ended.document();
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    let totals = &document["totals"];
    let places = ["duplicate", "event_duplicate", "late", "late_dropped", "inconsistent"];
    let named: u64 = places.iter().filter_map(|name| totals[*name].as_u64()).sum();
    let absent = found["absent"]["data"].as_u64().unwrap_or(0);
    assert_eq!(absent, named + number(totals, "socket_dropped"), "{totals}");
    assert_eq!(number(&found, "packets") + absent, 2000);
    assert_eq!(number(&found, "doubled") + number(&found, "strangers"), 0);
    assert!(absent > 0, "one hides the other");
    assert_eq!(ended.status, Some(7), "their packets are no copies: {}", ended.out);
    ended.rows_add_up();
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_is_recorded() {
    let Some(scene) = Scene::new() else { return };
    let live = scene.listen("run", BY_PACKET);
    let folder = scene.path("second");
    let listen = format!("127.0.0.1:{}", live.port);
    let output = fluxline()
        .args(["run", "--udp", &listen, "--format", "counter", "--folder", text(&folder)])
        .output()
        .expect("the program starts");
    crate::support::refused(&output, 6);
    assert!(!folder.exists(), "a run that could not begin leaves no folder");
    assert_eq!(live.end("INT").status, Some(7), "it received nothing");
}
