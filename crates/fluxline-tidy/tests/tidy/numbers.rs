//! Numbers of things that a page states and a folder has.

use std::fs;

use crate::{files, root};

/// Number words from sixteen on.
const WORDS: [&str; 15] = [
    "Sixteen",
    "Seventeen",
    "Eighteen",
    "Nineteen",
    "Twenty",
    "Twenty-one",
    "Twenty-two",
    "Twenty-three",
    "Twenty-four",
    "Twenty-five",
    "Twenty-six",
    "Twenty-seven",
    "Twenty-eight",
    "Twenty-nine",
    "Thirty",
];

#[test]
fn readme_counts_the_packet_descriptions_that_are_included() {
    let mut found = Vec::new();
    files(&root().join("formats"), ".toml", &mut found);
    let word = WORDS[found.len() - 16];
    let readme = fs::read_to_string(root().join("README.md")).expect("readable");
    assert!(
        readme.contains(&format!("{word} descriptions are included")),
        "formats/ has {} descriptions: README.md should say \"{word} descriptions are included\"",
        found.len()
    );
}
