//! Experiment files with random damage, and random text: a sentence with its place or an
//! experiment, never a panic; and the words are those of the one who wrote the file.

use super::Experiment;

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
"#;

/// Words of the implementation.
const FOREIGN: [&str; 8] =
    ["untagged", "variant", "struct ", "a sequence", "serde", "invalid type", "u64", "expected u"];

/// Replacements of a word, as by a hurried or a hostile hand.
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

/// xorshift64*: enough for choosing.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }
}

fn mutated(dice: &mut Dice) -> String {
    let mut lines: Vec<String> = WHOLE.lines().map(String::from).collect();
    for _ in 0..=dice.below(3) {
        let (at, other) = (dice.below(lines.len()), dice.below(lines.len()));
        match dice.below(5) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => {
                let word = WORDS[dice.below(WORDS.len())];
                let line: Vec<&str> = lines[at].split(' ').collect();
                let place = dice.below(line.len());
                let put = |(index, old)| if index == place { word } else { old };
                lines[at] = line.into_iter().enumerate().map(put).collect::<Vec<_>>().join(" ");
            }
            _ => {
                let line: Vec<char> = lines[at].chars().collect();
                lines[at] = line[..dice.below(line.len() + 1)].iter().collect();
            }
        }
    }
    lines.join("\n")
}

/// Reads; a refusal must have its form. Whether it was refused.
fn is_refused(text: &str) -> bool {
    let Err(error) = Experiment::parse("e.toml", text) else { return false };
    let message = error.to_string();
    let (shown, sentence) = message.rsplit_once('\n').expect("the line is shown");
    assert!(sentence.starts_with("e.toml:") && sentence.ends_with(['.', '?']), "{sentence}");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    for word in FOREIGN {
        assert!(!sentence.contains(word), "`{word}` is in: {sentence}\n{text}");
    }
    true
}

#[test]
fn the_whole_file_is_right() {
    assert!(!is_refused(WHOLE), "{:?}", Experiment::parse("e.toml", WHOLE).err());
}

#[test]
fn damaged_experiments_are_refused_in_plain_words_or_right() {
    let (mut refused, mut right) = (0, 0);
    for seed in 1..=CASES {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        match is_refused(&mutated(&mut dice)) {
            true => refused += 1,
            false => right += 1,
        }
    }
    assert!(refused > CASES / 4 && right > CASES / 50, "{refused} refused, {right} right");
}

#[test]
fn random_text_is_no_experiment_and_no_panic() {
    for seed in 1..=CASES {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let length = dice.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
        assert!(is_refused(&String::from_utf8_lossy(&bytes)));
        let words: Vec<&str> =
            (0..dice.below(30)).map(|_| WORDS[dice.below(WORDS.len())]).collect();
        assert!(is_refused(&words.join([" ", "\n", "."][dice.below(3)])));
    }
}
