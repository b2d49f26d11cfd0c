//! The advice of counters names keys, commands and flags that exist, each in backticks.

use std::path::Path;

use crate::support::call;
use fluxline_daq::ledger::{
    BuilderCounters, HostCounters, InputCounters, RemoteWriteCounters, SourceCounters,
};

/// Programs of others that may be advised.
const PROGRAMS: [&str; 2] = ["tcpdump", "ethtool"];

fn remedies() -> Vec<(&'static str, &'static str)> {
    let all = [
        InputCounters::ROWS,
        RemoteWriteCounters::ROWS,
        SourceCounters::ROWS,
        BuilderCounters::ROWS,
        HostCounters::ROWS,
    ];
    all.into_iter().flatten().map(|row| (row.name, row.remedy)).collect()
}

/// The keys of the experiment file, as written there.
fn keys() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fluxline-daq/src/experiment");
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the experiment's sources").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("UTF-8 source");
        let fields = text.lines().filter_map(|line| line.trim().strip_prefix("pub "));
        let names = fields.filter_map(|field| Some(field.split_once(": ")?.0.replace('_', "-")));
        keys.extend(names);
    }
    assert!(keys.iter().any(|key| key == "timeout-ms"), "{keys:?}");
    keys
}

fn exists(advised: &str, keys: &[String]) -> bool {
    let words: Vec<&str> = advised.split_whitespace().collect();
    match words.as_slice() {
        ["fluxline", command @ ..] => {
            let help = call(&[command, &["--help"]].concat());
            help.status.success()
        }
        [program, ..] if PROGRAMS.contains(program) => true,
        [key, "=", ..] | [key] => {
            let key = key.trim_matches(['[', ']']);
            keys.iter().any(|known| known == key)
        }
        // `export`, as in "`fluxline inspect` and `export`", is a single word: see above.
        _ => false,
    }
}

#[test]
fn every_key_and_command_that_a_counter_advises_exists() {
    let mut keys = keys();
    // Commands, named after another one, and a role of packet descriptions.
    keys.extend(["inspect", "export", "counts"].map(str::to_owned));
    let mut wrong = Vec::new();
    let mut advised = 0;
    for (counter, remedy) in remedies() {
        for word in remedy.split('`').skip(1).step_by(2) {
            advised += 1;
            if !exists(word, &keys) {
                wrong.push(format!("{counter} advises `{word}`, which does not exist"));
            }
        }
    }
    assert!(advised > 15, "only {advised} words are marked");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_key_that_a_counter_advises_is_marked() {
    let keys = keys();
    let mut wrong = Vec::new();
    for (counter, remedy) in remedies() {
        for plain in remedy.split('`').step_by(2) {
            for word in plain.split_whitespace().map(|word| word.trim_matches([',', '.', ';'])) {
                let is_key = word.contains('-') && keys.iter().any(|key| key == word);
                let is_name = word.contains('_') && !word.starts_with("net.");
                if is_key || is_name {
                    wrong.push(format!("{counter}: {word} is not in backticks"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
