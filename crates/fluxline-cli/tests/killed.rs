//! kill -9 in the middle of a run: whatever batch was complete is there, and nothing earlier is
//! lost.

mod support;

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use support::{call_json, fluxline, number, text};

const EXPERIMENT: &str = "[[source]]\nname = 'board'\nformat = 'counter'\n[source.emulator]\n\
    rate = 20000\nlink = 'direct'\npayload-bytes = 500\nseed = 1\n[events]\nbuild = 'source'\n\
    [record]\nbatch-ms = 10\nfile-bytes = 4000000\n";

/// Draws from a seed that the log shows: xorshift, G. Marsaglia 2003.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn killed_20_times_at_random_moments_loses_no_complete_batch() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let mut random: u64 = seed.unwrap_or(now.as_nanos() as u64 | 1);
    println!("SEED={random}");
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    std::fs::write(&file, EXPERIMENT).expect("written");
    let mut recorded = 0;
    for kill in 0..20 {
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
        std::thread::sleep(Duration::from_micros(draw(&mut random) % 400_000));
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("waited");

        let before = call_json(&["inspect", text(&folder)]);
        let events = number(&before["readable"], "events");
        assert_eq!(number(&before, "damages"), 0);
        assert_eq!(before["run"]["state"], "running", "nobody had time to say otherwise");
        call_json(&["recover", text(&folder)]);
        let after = call_json(&["inspect", text(&folder)]);
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
