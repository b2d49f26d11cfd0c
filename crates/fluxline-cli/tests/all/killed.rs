//! kill -9 in the middle of a run: whatever batch was complete is there, and nothing earlier is
//! lost.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{call_json, call_json_ending, fluxline, number, text};
use fluxline_core::random::test_seed;

/// Small batches through the page cache; every fourth run large ones past it.
fn experiment(kill: u32) -> String {
    let (rate, bytes, write) =
        if kill % 4 == 3 { (30_000, 8000, "direct") } else { (20_000, 500, "auto") };
    format!(
        "[[source]]\nname = 'board'\nformat = 'counter'\n[source.emulator]\nrate = {rate}\n\
         link = 'direct'\npayload-bytes = {bytes}\nseed = 1\n[events]\nbuild = 'source'\n\
         [record]\nbatch-ms = 10\nfile-bytes = 40000000\nwrite = '{write}'\n"
    )
}

/// Draws from a seed that the log shows: xorshift, G. Marsaglia 2003.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn killed_20_times_at_random_moments_loses_no_complete_batch() {
    let mut random = test_seed!(1) | 1;
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    let mut recorded = 0;
    for kill in 0..20 {
        std::fs::write(&file, experiment(kill)).expect("written");
        let folder = scratch.path().join(format!("run-{kill}"));
        let mut child = fluxline()
            .args(["run", text(&file), "--folder", text(&folder)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        while !folder.join("run.json").exists() {
            assert!(child.try_wait().expect("waitable").is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        let limit_us = if kill % 4 == 3 { 80_000 } else { 400_000 };
        std::thread::sleep(Duration::from_micros(draw(&mut random) % limit_us));
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("waited");

        let before = call_json_ending(&["inspect", text(&folder)], 7);
        let events = number(&before["readable"], "events");
        assert_eq!(number(&before, "damages"), 0);
        assert_eq!(before["run"]["state"], "running", "nobody had time to say otherwise");
        assert_eq!(before["integrity"]["end"], "killed");
        call_json(&["recover", text(&folder)]);
        let after = call_json_ending(&["inspect", text(&folder)], 7);
        assert_eq!(
            number(&after["readable"], "events"),
            events,
            "recovery keeps what was readable"
        );
        assert_eq!(number(&after, "torn_bytes"), 0);
        assert_eq!(after["run"]["state"], "recovered");
        call_json(&["recover", text(&folder)]);
        if events > 0 {
            assert_keys_are_contiguous(&folder, events);
        }
        recorded += events;
        std::fs::remove_dir_all(&folder).expect("removable");
    }
    assert!(recorded > 0, "at least some run lived long enough to record");
}

/// Events are numbered from 0 by the board: a hole would be a batch lost in the middle.
fn assert_keys_are_contiguous(folder: &std::path::Path, events: u64) {
    call_json(&["export", text(folder), "--to", "csv"]);
    let table = std::fs::read_to_string(folder.join("export-csv/events.csv")).expect("a table");
    let keys: Vec<u64> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().and_then(|key| key.parse().ok()).expect("a key"))
        .collect();
    assert_eq!(keys, (0..events).collect::<Vec<_>>());
}
