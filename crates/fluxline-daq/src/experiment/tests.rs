//! Experiment files with random damage, and random text: the result is an experiment, or a sentence
//! with its place in the user's words, never a panic.

#[path = "../../../fluxline-toml/tests/damage/mod.rs"]
mod damage;

use super::Experiment;
use damage::{Dice, check_words, damaged, nonsense};

/// Files that are damaged.
const CASES: u64 = 3000;

/// A file with every table.
const WHOLE: &str = r#"name = "night shift"
runs = "runs"
seconds = 30.0
readout-core = 0
sources-max = 64
[[source]]
name = "boards"
format = "counter"
ring-slots = 1024
[source.udp]
listen = ["127.0.0.1:6006", "[::1]:6007"]
gro = false
on-ring-full = "drop"
[[source]]
name = "camera"
format = "sls"
parameters = { packets_per_frame = 64 }
[source.pcap]
file = "x.pcapng"
ports = [50001]
check-sums = false
speed = "recorded"
[[source]]
name = "old"
format = "counter"
[source.raw]
file = "x.bin"
length-prefix = "u16-be"
[[source]]
name = "fpga"
format = "counter"
[source.roce]
listen = "127.0.0.1:4791"
[[source.roce.sender]]
name = "one"
address = "127.0.0.1:4800"
queue-pair = 256
key = 7
[[source.roce.sender]]
name = "two"
address = "10.0.0.7"
queue-pair = 257
reliability = "reliable"
peer-queue-pair = 17
first-psn = 5
key = 7
[[source]]
name = "emulated"
format = "counter"
[source.emulator]
sources = 4
faults = { drop = 0.01, reorder = 0.1, reorder-distance = 4 }
[events]
build = "key"
require = ["a", "b"]
timeout-ms = 100
[record]
sync = 2.5
batches-max = 4
[slow-control]
udp = "127.0.0.1:8094"
every-s = 10.0
change = 0.5
values-max = 20
[[alarm]]
name = "no gas"
value = "slow:gas/flow"
stale-s = 60.0
[cluster]
brokers = "127.0.0.1:9092"
name = "lab.beam"
start = "ctl"
[node.readout-1]
sources = ["boards", "camera", "old"]
[node.readout-2]
sources = ["fpga", "emulated"]
"#;

/// Replacements of a word.
const WORDS: [&str; 24] = [
    "0",
    "-1",
    "3",
    "1e400",
    "nan",
    "9223372036854775807",
    "99999999999999999999",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    "[[source]]",
    "[source.udp]",
    "[events]",
    "]",
    "=",
    ",",
    "true",
    "\"127.0.0.1:6006\"",
    "speed",
    "\"full\"",
    "# ",
    "\u{1b}[2J",
    "timeout_ms = 1",
];

/// Returns true when the text is rejected; the message must then have its form.
fn is_rejected(text: &str) -> bool {
    let Err(error) = Experiment::parse("e.toml", text) else { return false };
    let message = error.to_string();
    let (shown, sentence) = message.rsplit_once('\n').expect("the line is shown");
    assert!(sentence.starts_with("e.toml:") && sentence.ends_with(['.', '?']), "{sentence}");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(!sentence.contains("u64"), "{sentence}\n{text}");
    check_words(sentence, text);
    true
}

#[test]
fn the_whole_file_is_right() {
    assert!(!is_rejected(WHOLE), "{:?}", Experiment::parse("e.toml", WHOLE).err());
}

#[test]
fn damaged_experiments_are_rejected_in_plain_words_or_right() {
    let (mut rejected, mut right) = (0, 0);
    for seed in 1..=CASES {
        match is_rejected(&damaged(&mut Dice::of_seed(seed), WHOLE, &WORDS)) {
            true => rejected += 1,
            false => right += 1,
        }
    }
    assert!(rejected > CASES / 4 && right > CASES / 50, "{rejected} rejected, {right} right");
}

#[test]
fn random_text_is_no_experiment_and_no_panic() {
    for seed in 1..=CASES {
        for text in nonsense(&mut Dice::of_seed(seed), &WORDS) {
            assert!(is_rejected(&text), "{text}");
        }
    }
}
