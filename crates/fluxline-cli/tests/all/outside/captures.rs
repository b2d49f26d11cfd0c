//! Captures that another program wrote: all of them are read, whatever their clocks say, and the
//! same files in give the same run out.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::scene::{Ended, Scene};
use crate::support::{number, text};

/// The clock of each board's recorder, hours apart \[ns since 1970\].
const BEGINS_NS: [u64; 4] = [
    1_750_000_000_000_000_000,
    1_750_003_600_000_000_000,
    1_749_999_999_500_000_000,
    1_750_000_000_000_000_000,
];

/// Boards that begin at different triggers, and end at different ones.
fn plan(board: u64) -> Value {
    let first = 300 * board;
    json!({ "seed": board + 1, "boards": [{ "board": board, "parts": [
        { "at_us": 0, "count": 2000 - 200 * board, "period_us": 1000, "key": first },
    ] }] })
}

fn experiment(captures: &[PathBuf], settings: &str) -> String {
    let sources = captures.iter().map(|capture| {
        let stem = capture.file_stem().expect("a name").to_string_lossy();
        let format = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/outside/board.toml");
        format!(
            "[[source]]\nname = '{stem}'\nformat = {:?}\n[source.pcap]\nfile = {:?}\n",
            text(&format),
            text(capture)
        )
    });
    sources.collect::<String>() + settings
}

/// Runs an experiment in the folder `run` of a folder `name` of its own.
fn run(scene: &Scene, name: &str, experiment: &str) -> Ended {
    let parent = scene.path(name);
    std::fs::create_dir(&parent).expect("a folder");
    let file = parent.join("experiment.toml");
    std::fs::write(&file, experiment).expect("written");
    let folder = parent.join("run");
    let arguments = ["run", text(&file), "--folder", text(&folder)];
    scene.program_to_its_end(name, &arguments, &folder)
}

/// The bytes of all event files, in order.
fn events_of(folder: &Path) -> Vec<u8> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a run folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("events-"))
        })
        .collect();
    files.sort();
    files.iter().flat_map(|file| std::fs::read(file).expect("readable")).collect()
}

#[test]
fn four_captures_of_different_begins_give_one_run_ten_times() {
    let Some(scene) = Scene::new() else { return };
    let made: Vec<_> = (0..4)
        .map(|of| scene.capture(&format!("board-{of}"), &plan(of), BEGINS_NS[of as usize]))
        .collect();
    let (captures, logs): (Vec<PathBuf>, Vec<PathBuf>) = made.into_iter().unzip();
    let logs: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    let settings = "[events]\nbuild = 'key'\n";
    let mut first = None;
    for turn in 0..10 {
        let ended = run(&scene, &format!("turn-{turn}"), &experiment(&captures, settings));
        let bytes = events_of(&ended.folder);
        if turn == 0 {
            let found = scene.check(&ended.folder, &logs);
            ended.accounts_for(&found, 0);
            assert_eq!(number(&found, "packets"), 2000 + 1800 + 1600 + 1400);
            // Exactly the triggers that exist: the last board ends latest, with 900 + 1400.
            assert_eq!(number(&found, "triggers"), 2300);
            assert_eq!(number(&found, "split") + number(&found, "mixed"), 0, "{found}");
            assert_eq!(found["rows"]["late"].as_u64().unwrap_or(0), 0, "files wait: {found}");
        }
        let same = first.get_or_insert_with(|| bytes.clone());
        assert!(*same == bytes, "turn {turn} wrote other bytes");
    }
    let mut turned = captures;
    turned.reverse();
    let ended = run(&scene, "turned", &experiment(&turned, settings));
    let found = scene.check(&ended.folder, &logs);
    ended.accounts_for(&found, 0);
    assert_eq!(number(&found, "triggers"), 2300);
}

#[test]
fn four_equal_captures_with_all_required_are_recorded_whole() {
    let Some(scene) = Scene::new() else { return };
    let equal = |of: u64| {
        json!({ "seed": of + 1, "boards": [{ "board": of, "parts": [
            { "at_us": of, "count": 2000, "period_us": 100 },
        ] }] })
    };
    let made: Vec<_> =
        (0..4).map(|of| scene.capture(&format!("board-{of}"), &equal(of), BEGINS_NS[0])).collect();
    let (captures, logs): (Vec<PathBuf>, Vec<PathBuf>) = made.into_iter().unzip();
    let logs: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    let settings = "[events]\nbuild = 'key'\nrequire = 4\n";
    let ended = run(&scene, "one", &experiment(&captures, settings));
    let found = scene.check(&ended.folder, &logs);
    ended.accounts_for(&found, 0);
    assert_eq!(number(&found, "packets"), 8000);
    assert_eq!(number(&found["rows"], "complete"), 2000);
    assert_eq!(found["rows"].as_object().expect("statuses").len(), 1, "{found}");
}

#[test]
fn one_capture_with_a_dead_board_is_recorded_whole() {
    let Some(scene) = Scene::new() else { return };
    let parts = |of: u64| match of {
        2 => json!([
            { "at_us": 2, "count": 2000, "period_us": 25 },
            { "at_us": 450_002, "count": 2000, "period_us": 25, "key": 18_000, "counter": 2000 },
        ]),
        _ => json!([{ "at_us": of, "count": 20_000, "period_us": 25 }]),
    };
    let boards: Vec<Value> = (0..3).map(|of| json!({ "board": of, "parts": parts(of) })).collect();
    let (capture, log) = scene.capture("merged", &json!({ "boards": boards }), BEGINS_NS[0]);
    let ended = run(&scene, "one", &experiment(&[capture], "[events]\nbuild = 'key'\n"));
    let found = scene.check(&ended.folder, &[&log]);
    ended.accounts_for(&found, 0);
    assert_eq!(number(&found, "packets"), 44_000);
    assert_eq!(number(&ended.document()["totals"], "builder_full"), 0);
    assert_eq!(number(&found, "split") + number(&found, "mixed"), 0, "{found}");
}
