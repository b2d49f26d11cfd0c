//! Memory that a run promises at its start is kept, whatever fills it.

use crate::support::{call_json_ending, number, text};
use serde_json::Value;

/// Runs an experiment to its end, and compares what it took with what it promised.
fn kept(name: &str, experiment: &str) -> Value {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    let accept = "accept = ['builder_full', 'silent']";
    std::fs::write(&file, format!("{accept}\n{experiment}")).expect("written");
    let folder = scratch.path().join("run");
    let document = call_json_ending(&["run", text(&file), "--folder", text(&folder)], 0);
    let most = number(&document, "memory_bytes_most");
    let promised = number(&document, "memory_bytes_max");
    println!("{name}: {most} of {promised} bytes; {}", document["headline"]);
    assert!(most > 0, "the kernel says how much it is");
    assert!(most <= promised, "{name}: {most} bytes, promised were {promised}");
    document
}

fn experiment(format: &str, emulator: &str, events: &str, record: &str) -> String {
    format!(
        "[[source]]\nname = 'boards'\nformat = '{format}'\nring-slots = 64\n[source.emulator]\n\
         link = 'direct'\nrate = 0\nseed = 1\n{emulator}\n[events]\n{events}\n[record]\n{record}\n"
    )
}

#[test]
fn large_events_that_overshoot_every_batch_keep_the_promise() {
    let emulator = "sources = 4\npackets = 1600";
    let record = "batch-bytes = 1000000";
    let whole = experiment("ouster", emulator, "build = 'source'", record);
    let document = kept("large events", &whole);
    assert!(number(&document["totals"], "events_complete") > 50);
    let emulator = format!("{emulator}\n[source.emulator.faults]\ndrop = 0.02");
    let events = "build = 'source'\nbytes-max = 16000000";
    let document = kept("large events with holes", &experiment("ouster", &emulator, events, ""));
    assert!(number(&document["totals"], "in_incomplete") > 0);
}

#[test]
fn many_open_events_of_small_packets_keep_the_promise() {
    let emulator = "sources = 4\npackets = 60000\npayload-bytes = 16";
    let events = "build = 'key'\nrequire = 5\ntimeout-ms = 300\nbytes-max = 16000000";
    let record = "batch-bytes = 1000000";
    let document = kept("small packets", &experiment("counter", emulator, events, record));
    assert!(number(&document["totals"], "events_open_most") > 1000);
}
