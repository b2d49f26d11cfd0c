//! Shipped descriptions with random damage, and random text: a sentence with its place or a
//! description, never a panic; and the words are those of the one who wrote the file.

use std::collections::BTreeMap;

use crate::damage::{Dice, check_words, damaged, nonsense};
use fluxline_packet::{Description, shipped};

/// Descriptions that are damaged, of each kind of damage.
const CASES: u64 = 1500;

/// Replacements of a word.
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

/// Returns true when the text is rejected; the message must then have its form.
fn is_rejected(text: &str) -> bool {
    let Err(error) = Description::load("f.toml", text, &BTreeMap::new()) else { return false };
    let message = error.to_string();
    assert!(message.starts_with(&format!("f.toml:{}:{}: ", error.line, error.column)), "{message}");
    assert!(error.line >= 1 && error.line <= text.lines().count().max(1) + 1, "{message}\n{text}");
    check_words(&message, text);
    assert!(error.excerpt().lines().count() == 2, "{:?}", error.excerpt());
    true
}

#[test]
fn damaged_descriptions_are_rejected_in_plain_words_or_load() {
    let texts: Vec<&str> = shipped::names().filter_map(shipped::shipped).collect();
    let (mut rejected, mut loaded) = (0, 0);
    for seed in 1..=CASES {
        let mut dice = Dice::of_seed(seed);
        let chosen = texts[dice.below(texts.len())];
        match is_rejected(&damaged(&mut dice, chosen, &WORDS)) {
            true => rejected += 1,
            false => loaded += 1,
        }
    }
    assert!(rejected > CASES / 4 && loaded > CASES / 20, "{rejected} rejected, {loaded} loaded");
}

#[test]
fn random_text_is_never_a_panic() {
    for seed in 1..=CASES {
        for text in nonsense(&mut Dice::of_seed(seed), &WORDS) {
            is_rejected(&text);
        }
    }
}
