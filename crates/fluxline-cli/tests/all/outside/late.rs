//! Boards that begin late, lag, die, restart, or send fewer triggers: nothing that came is missing.

use serde_json::{Value, json};

use super::scene::{Ended, Scene};
use crate::support::number;

/// Events of all boards by trigger number; everything else as it comes.
const BY_KEY: &str = "[events]\nbuild = 'key'\n";

/// A board that sends one row of triggers.
fn board(board: u64, part: Value) -> Value {
    boards_parts(board, json!([part]))
}

fn boards_parts(board: u64, parts: Value) -> Value {
    json!({ "board": board, "parts": parts })
}

/// Runs a plan to its end.
fn acquire(scene: &Scene, plan: &Value, settings: &str, status: i32) -> (Ended, Value) {
    let live = scene.listen("run", settings);
    let log = scene.send("boards", plan, live.port).done();
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&log]);
    ended.accounts_for(&found, status);
    joined(&found);
    (ended, found)
}

/// Every trigger is at one position, and every position is one trigger's.
fn joined(found: &Value) {
    assert_eq!(number(found, "split"), 0, "triggers at several positions: {found}");
    assert_eq!(number(found, "mixed"), 0, "positions of several triggers: {found}");
}

fn late_of(found: &Value, board: u64) -> u64 {
    found["late"][board.to_string()].as_u64().unwrap_or(0)
}

/// Rows of an export in which late fragments are joined: one per trigger.
fn exported_rows(scene: &Scene, ended: &Ended) -> usize {
    let folder = ended.folder.display().to_string();
    let export = ["export", &folder, "--to", "csv"];
    let exported = scene.program_to_its_end("export", &export, &ended.folder);
    assert_eq!(exported.status, Some(0), "{}", exported.errors);
    let table = std::fs::read_to_string(ended.folder.join("export-csv/events.csv"));
    table.expect("a table").lines().count() - 1
}

#[test]
fn six_boards_that_join_200_ms_apart_lose_nothing() {
    let Some(scene) = Scene::new() else { return };
    let boards: Vec<Value> = (0..6)
        .map(|of| {
            let first = 200 * of;
            let part = json!({ "at_us": 1000 * first + of, "count": 1500 - first,
                "period_us": 1000, "key": first });
            board(of, part)
        })
        .collect();
    let (ended, found) = acquire(&scene, &json!({ "boards": boards }), BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 6 * 1500 - 3000);
    assert_eq!(number(&found, "triggers"), 1500);
    for of in 1..6 {
        assert!(late_of(&found, of) < 100, "a board that joined is waited for: {found}");
    }
    assert_eq!(exported_rows(&scene, &ended), 1500);
}

#[test]
fn six_boards_that_lag_200_ms_each_lose_nothing() {
    let Some(scene) = Scene::new() else { return };
    let boards: Vec<Value> = (0..6)
        .map(|of| {
            let part = json!({ "at_us": 200_000 * of, "count": 1000, "period_us": 1000 });
            board(of, part)
        })
        .collect();
    let (ended, found) = acquire(&scene, &json!({ "boards": boards }), BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 6000);
    assert_eq!(number(&found, "triggers"), 1000);
    assert_eq!(exported_rows(&scene, &ended), 1000);
}

#[test]
fn one_board_of_four_that_lags_a_second_loses_nothing() {
    let Some(scene) = Scene::new() else { return };
    let boards: Vec<Value> = (0..4)
        .map(|of| {
            let at_us = if of == 3 { 1_000_000 } else { of };
            board(of, json!({ "at_us": at_us, "count": 1500, "period_us": 1000 }))
        })
        .collect();
    let (ended, found) = acquire(&scene, &json!({ "boards": boards }), BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 6000);
    assert_eq!(exported_rows(&scene, &ended), 1500);
}

#[test]
fn a_board_that_dies_costs_the_others_nothing() {
    let Some(scene) = Scene::new() else { return };
    let dies = |of, count| board(of, json!({ "at_us": of, "count": count, "period_us": 200 }));
    let plan = json!({ "boards": [dies(0, 8000), dies(1, 8000), dies(2, 2000)] });
    let (ended, found) = acquire(&scene, &plan, BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 18_000);
    assert!(number(&found["rows"], "complete") >= 2000, "while all lived: {found}");
    let said = format!("{}{}", ended.errors, ended.out);
    assert!(said.contains("board=2"), "the summary names the silent board: {said}");
}

#[test]
fn a_required_board_that_dies_makes_the_status() {
    let Some(scene) = Scene::new() else { return };
    let dies = |of, count| board(of, json!({ "at_us": of, "count": count, "period_us": 1000 }));
    let plan = json!({ "boards": [dies(0, 1500), dies(1, 300)] });
    let settings = format!("{BY_KEY}require = ['board=0', 'board=1']");
    let (_, found) = acquire(&scene, &plan, &settings, 7);
    assert_eq!(number(&found, "packets"), 1800);
    assert!(number(&found["rows"], "complete") <= 300, "{found}");
}

#[test]
fn a_counter_that_restarts_while_keys_go_on_loses_nothing() {
    let Some(scene) = Scene::new() else { return };
    let restarts = json!([
        { "at_us": 1, "count": 600, "period_us": 1000 },
        { "at_us": 1_000_001, "count": 500, "period_us": 1000, "key": 1000, "counter": 0 },
    ]);
    let steady = board(0, json!({ "at_us": 0, "count": 1500, "period_us": 1000 }));
    let plan = json!({ "boards": [steady, boards_parts(1, restarts)] });
    let (ended, found) = acquire(&scene, &plan, BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 2600);
    assert_eq!(number(&found, "triggers"), 1500);
    assert_eq!(number(&ended.document()["totals"], "restarts"), 1);
}

#[test]
fn boards_that_restart_with_counter_and_key_lose_nothing() {
    let Some(scene) = Scene::new() else { return };
    let boards: Vec<Value> = (0..3)
        .map(|of| {
            let parts = json!([
                { "at_us": of, "count": 600, "period_us": 1000 },
                { "at_us": 1_000_000 + of, "count": 600, "period_us": 1000,
                  "counter": 0, "spill": 1 },
            ]);
            boards_parts(of, parts)
        })
        .collect();
    let (_, found) = acquire(&scene, &json!({ "boards": boards }), BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 3600);
    assert_eq!(number(&found, "triggers"), 1200);
}

#[test]
fn three_spills_whose_keys_begin_anew_stay_apart() {
    let Some(scene) = Scene::new() else { return };
    let boards: Vec<Value> = (0..2)
        .map(|of| {
            let parts: Vec<Value> = (0..3)
                .map(|spill| {
                    json!({ "at_us": 800_000 * spill + of, "count": 400, "period_us": 1000,
                        "spill": spill })
                })
                .collect();
            boards_parts(of, parts.into())
        })
        .collect();
    let (ended, found) = acquire(&scene, &json!({ "boards": boards }), BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 2400);
    assert_eq!(number(&found, "triggers"), 1200);
    assert_eq!(exported_rows(&scene, &ended), 1200);
}

#[test]
fn a_prescaled_board_makes_no_event_incomplete() {
    let Some(scene) = Scene::new() else { return };
    let plan = json!({ "boards": [
        board(0, json!({ "at_us": 0, "count": 4000, "period_us": 500 })),
        board(1, json!({ "at_us": 5, "count": 400, "period_us": 5000, "key_step": 10 })),
    ] });
    let (ended, found) = acquire(&scene, &plan, BY_KEY, 0);
    assert_eq!(number(&found, "packets"), 4400);
    let incomplete = number(&ended.document()["totals"], "in_incomplete");
    // The end of the run closes the last ones before absence is proved.
    assert!(incomplete < 50, "absence is proved by the counter: {found}");
}

#[test]
fn late_packets_that_the_experiment_drops_are_counted_and_make_the_status() {
    let Some(scene) = Scene::new() else { return };
    let sends =
        |of, at_us, count| board(of, json!({ "at_us": at_us, "count": count, "period_us": 1000 }));
    let plan = json!({ "boards": [sends(0, 0, 2500), sends(1, 1_500_000, 500)] });
    let settings = format!("{BY_KEY}late = 'drop'\ntimeout-ms = 100");
    let live = scene.listen("run", &settings);
    let log = scene.send("boards", &plan, live.port).done();
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&log]);
    let totals = &ended.document()["totals"];
    let dropped = number(totals, "late_dropped");
    assert!(dropped > 400, "the second board is 1.5 s behind the first: {totals}");
    let absent = number(&found["absent"], "data");
    assert_eq!(absent, dropped + number(totals, "socket_dropped"));
    assert_eq!(number(&found, "packets") + absent, 3000);
    assert_eq!(ended.status, Some(7), "{}", ended.errors);
    ended.rows_add_up();
}
