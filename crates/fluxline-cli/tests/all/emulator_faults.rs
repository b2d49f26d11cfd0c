//! Emulated boards that drop, double, swap and spoil: the ledger says what they did, to the packet.

use crate::support::{number, run_json, text};
use serde_json::Value;

fn run(emulator: &str, faults: &str, events: &str) -> Value {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    let experiment = format!(
        "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\nsources = 4\n\
         payload-bytes = 256\n{emulator}\n[source.emulator.faults]\n{faults}\n[events]\n{events}\n"
    );
    std::fs::write(&file, experiment).expect("written");
    let folder = scratch.path().join("run");
    let document = run_json(&["run", text(&file), "--folder", text(&folder)]);
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    document
}

#[test]
fn sent_over_real_udp_equals_what_the_ledger_says() {
    for seed in [1, 2, 3] {
        println!("seed {seed}");
        let document = run(
            &format!("rate = 5000\npackets = 12000\nseed = {seed}"),
            "drop = 0.001\nduplicate = 0.001\nreorder = 0.001",
            "build = 'key'\nrequire = 4\ntimeout-ms = 100",
        );
        let emulated = document["inputs"][0]["emulated"]["sources"].as_array().expect("truth");
        let sources = document["ledger"]["sources"].as_array().expect("sources");
        assert_eq!((emulated.len(), sources.len()), (4, 4));
        for (board, truth) in emulated.iter().enumerate() {
            let label = format!("source_id={board}");
            let found = sources.iter().find(|source| source["label"] == label.as_str());
            let found = found.expect("every board is a source");
            let counters = &found["counters"];
            assert_eq!(number(counters, "parsed"), number(truth, "sent"), "{label}");
            assert_eq!(number(counters, "lost"), number(truth, "dropped"), "{label}");
            assert_eq!(number(counters, "duplicate"), number(truth, "duplicated"), "{label}");
            assert_eq!(number(counters, "reordered"), number(truth, "reordered"), "{label}");
            assert_eq!(number(counters, "recorded"), 12_000 - number(truth, "dropped"));
            let missing: Vec<u64> = found["missing"]
                .as_array()
                .expect("ranges")
                .iter()
                .flat_map(|range| number(range, "first")..=number(range, "last"))
                .collect();
            let dropped: Vec<u64> = truth["dropped_sequences"]
                .as_array()
                .expect("numbers")
                .iter()
                .filter_map(Value::as_u64)
                .collect();
            assert_eq!(missing, dropped, "{label}");
        }
        let totals = &document["totals"];
        assert_eq!(number(totals, "socket_dropped"), 0, "the rate is far below the host's");
        assert!(number(totals, "lost") > 10 && number(totals, "duplicate") > 10);
        let complete = number(totals, "events_complete");
        let incomplete = number(totals, "events_incomplete") + number(totals, "events_stopped");
        assert_eq!(complete + incomplete, 12_000);
        assert_eq!(number(totals, "in_complete"), 4 * complete);
    }
}

#[test]
fn spoiled_and_restarted_packets_are_each_in_one_place() {
    let document = run(
        "rate = 20000\npackets = 20000\nseed = 9\nlink = 'direct'\npattern = 'noise'",
        "corrupt = 0.01\nrestart = 0.0005\ndrop = 0.001",
        "build = 'packet'",
    );
    let totals = &document["totals"];
    let emulated = document["inputs"][0]["emulated"]["sources"].as_array().expect("truth");
    let sum = |key: &str| emulated.iter().map(|truth| number(truth, key)).sum::<u64>();
    assert_eq!(number(totals, "datagrams"), sum("sent"));
    assert!(sum("restarts") > 10 && sum("corrupted") > 100);
    assert!(number(totals, "restarts") > 0);
    assert!(number(totals, "rejected") > 0, "a flipped bit in the magic word is rejected");
}
