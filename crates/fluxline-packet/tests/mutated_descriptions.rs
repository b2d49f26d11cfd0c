//! Shipped descriptions with random damage, and random text: a sentence with its place or a
//! description, never a panic; and the words are those of the one who wrote the file.

use std::collections::BTreeMap;

use fluxline_packet::{Description, shipped};

/// Descriptions that are damaged, of each kind of damage.
const CASES: u64 = 1500;

/// Words of the implementation.
const FOREIGN: [&str; 7] =
    ["untagged", "variant", "struct ", "a sequence", "serde", "invalid type", "expected u"];

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

/// What a hurried or a hostile hand puts in the place of a word.
const WORDS: [&str; 28] = [
    "0",
    "-1",
    "1",
    "64",
    "65",
    "18446744073709551615",
    "9223372036854775807",
    "1e400",
    "nan",
    "\"\"",
    "\"size\"",
    "\"u64\"",
    "\"7..0\"",
    "\"0..7\"",
    "[]",
    "{}",
    "[[",
    "]]",
    "=",
    "==",
    "<<",
    "true",
    "\"a - b\"",
    "\"1 << 64\"",
    "\"((((\"",
    "# ",
    "\u{1b}[2J",
    "\u{202e}ä",
];

fn mutated(dice: &mut Dice, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for _ in 0..=dice.below(3) {
        let (at, other) = (dice.below(lines.len()), dice.below(lines.len()));
        match dice.below(6) {
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
            4 => {
                let line: Vec<char> = lines[at].chars().collect();
                lines[at] = line[..dice.below(line.len() + 1)].iter().collect();
            }
            _ => {
                let mut line: Vec<char> = lines[at].chars().collect();
                if !line.is_empty() {
                    let place = dice.below(line.len());
                    line[place] = char::from(32 + dice.below(95) as u8);
                }
                lines[at] = line.into_iter().collect();
            }
        }
        if lines.is_empty() {
            return String::new();
        }
    }
    lines.join("\n")
}

/// Loads; a refusal must have its form. Whether it was refused.
fn is_refused(text: &str) -> bool {
    let Err(error) = Description::load("f.toml", text, &BTreeMap::new()) else { return false };
    let said = error.to_string();
    assert!(said.starts_with(&format!("f.toml:{}:{}: ", error.line, error.column)), "{said}");
    assert!(error.line >= 1 && error.line <= text.lines().count().max(1) + 1, "{said}\n{text}");
    for word in FOREIGN {
        assert!(!said.contains(word), "`{word}` is in: {said}\n{text}");
    }
    assert!(error.excerpt().lines().count() == 2, "{:?}", error.excerpt());
    true
}

#[test]
fn damaged_descriptions_are_refused_in_plain_words_or_load() {
    let texts: Vec<&str> = shipped::names().filter_map(shipped::shipped).collect();
    let (mut refused, mut loaded) = (0, 0);
    for seed in 1..=CASES {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let chosen = texts[dice.below(texts.len())];
        let text = mutated(&mut dice, chosen);
        match is_refused(&text) {
            true => refused += 1,
            false => loaded += 1,
        }
    }
    assert!(refused > CASES / 4 && loaded > CASES / 20, "{refused} refused, {loaded} loaded");
}

#[test]
fn random_text_is_never_a_panic() {
    for seed in 1..=CASES {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let length = dice.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
        is_refused(&String::from_utf8_lossy(&bytes));
        let words: Vec<&str> =
            (0..dice.below(30)).map(|_| WORDS[dice.below(WORDS.len())]).collect();
        is_refused(&words.join([" ", "\n", "."][dice.below(3)]));
    }
}
