//! Documentation is spelled right (British English, by hunspell), and both documentation and the
//! comments of sources are free of phrases that readers stumble over.
//!
//! Words of the field that no dictionary has are listed in tidy/words.txt. Code, links, numbers,
//! abbreviations and names of products with inner capitals are not checked.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Returns the prose of a Markdown text: no code blocks, no `code`, no link targets.
fn prose(markdown: &str) -> String {
    let mut out = String::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block && !line.starts_with("    ") {
            let spans = line.split('`').step_by(2);
            for word in spans.flat_map(str::split_whitespace).filter(|word| !word.contains("://")) {
                out.push_str(word.split("](").next().unwrap_or(word));
                out.push(' ');
            }
        }
        out.push('\n');
    }
    out
}

/// Returns the doc comments of a source file as Markdown.
fn doc_comments(source: &str) -> String {
    let lines = source.lines().map(str::trim_start);
    let text = lines.map(|line| line.strip_prefix("///").or(line.strip_prefix("//!")));
    text.map(|line| line.map_or("", |line| line.strip_prefix(' ').unwrap_or(line)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the name and the prose of each page, and of the doc comments of each source file.
fn texts() -> Vec<(String, String)> {
    let root = super::root();
    let mut pages = Vec::new();
    super::files(&root, ".md", &mut pages);
    let mut found: Vec<(String, String)> = Vec::new();
    for page in pages {
        let name = page.strip_prefix(&root).expect("inside").display().to_string();
        found.push((name, prose(&fs::read_to_string(&page).expect("UTF-8 page"))));
    }
    let sources = super::sources().into_iter();
    found.extend(sources.map(|(file, text)| (file, prose(&doc_comments(&text)))));
    found
}

/// Returns true for a word that a dictionary can know.
fn is_ordinary(word: &str) -> bool {
    let inner_capital = word.chars().skip(1).any(char::is_uppercase);
    word.chars().all(|c| c.is_alphabetic() || c == '\'') && !inner_capital && word.len() > 2
}

/// Returns the words that hunspell does not know, or `None` where it is not installed.
fn unknown(text: &str) -> Option<BTreeSet<String>> {
    let mut command = Command::new("hunspell");
    command.args(["-d", "en_GB", "-i", "UTF-8", "-l"]).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take().expect("piped");
    let text = text.to_string();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").ok()?;
    let words = String::from_utf8(output.stdout).expect("UTF-8");
    // Dictionaries have few genitives.
    let words = words.lines().filter(|word| is_ordinary(word) && !word.ends_with("'s"));
    output.status.success().then(|| words.map(str::to_string).collect())
}

#[test]
fn docs_are_spelled_right() {
    let list = fs::read_to_string(super::root().join("tidy/words.txt")).expect("the list");
    let known: BTreeSet<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let texts = texts();
    let all: String = texts.iter().map(|(_, text)| text.as_str()).collect();
    let Some(unknown) = unknown(&all) else {
        let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "hunspell with en_GB is missing, and FLUXLINE_REQUIRE_TOOLS=1");
        println!("skipped: no hunspell with en_GB");
        return;
    };
    let mut problems = Vec::new();
    for word in unknown.iter().filter(|word| !known.contains(word.as_str())) {
        let has = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|of| of == word);
        let place = texts.iter().find(|(_, text)| has(text)).map_or("", |(name, _)| name);
        problems.push(format!("{place}: `{word}`: correct it, or add it to tidy/words.txt"));
    }
    for word in known.iter().filter(|word| !word.is_empty() && !unknown.contains(**word)) {
        problems.push(format!("tidy/words.txt: nothing needs `{word}`; remove it"));
    }
    super::report(&problems);
}

/// Phrases of pages that have a plain word, and that word.
const PHRASES: [(&str, &str); 8] = [
    ("is no ", "is not a ..."),
    ("as it is", "unchanged"),
    ("so many ", "a number, or `N`"),
    (" at all", "leave it out"),
    ("a such", "such a"),
    (" told ", "reported, notified, or distinguished"),
    ("be had", "obtained"),
    ("is as if", "counts as"),
];

#[test]
fn pages_use_plain_phrases() {
    let mut problems = Vec::new();
    for (file, text) in texts().into_iter().filter(|(file, _)| file.ends_with(".md")) {
        for (number, line) in text.lines().enumerate() {
            let line = line.replace("here is no ", ""); // "there is no" is plain
            let found = PHRASES.iter().filter(|(phrase, _)| line.contains(phrase));
            problems.extend(found.map(|(phrase, plain)| {
                format!("{file}:{}: `{}`: say {plain}", number + 1, phrase.trim())
            }));
        }
    }
    super::report(&problems);
}

/// Phrases of comments that have a plain word, and that word. Phrases that are often right in
/// comments ("as it is known", "whether") are not listed.
const COMMENT_PHRASES: [(&str, &str); 20] = [
    (" so many ", "the number's name, or `N`"),
    (" so much ", "the quantity's name"),
    (" told", "reported, notified, or distinguished"),
    (" as it is.", "unchanged"),
    (" as they are.", "unchanged"),
    (" is none", "`None` if ..., or is not a ..."),
    (" are none", "`None` if ..., or are not ..."),
    (" that there is ", "the noun alone"),
    (" that there are ", "the noun alone"),
    (" is no ", "is not a ..."),
    (" are no ", "are not ..."),
    (" heed", "used, or followed"),
    (" whoever ", "the noun: the caller, the peer, ..."),
    (" accord", "leave it out"),
    (" for naught", "in vain"),
    (" at all", "leave it out"),
    (" be had", "obtained"),
    (" is as if ", "counts as"),
    ("manieth", "every Nth"),
    (" shall ", "must"),
];

/// Plain phrases that contain one of [`COMMENT_PHRASES`].
const PLAIN: [&str; 8] = [
    "there is none",
    "there are none",
    "there is no ",
    "there are no ",
    "is no longer",
    "are no longer",
    "not at all",
    "according",
];

/// Returns the text of a comment on this line, if it has one. `//` in a string is not a comment.
fn comment<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let text = line.trim_start();
    if let Some(text) = text.strip_prefix(marker) {
        return (!text.starts_with('[')).then(|| text.trim_start_matches(['/', '!']));
    }
    let is_code = |at: usize| text[..at].matches('"').count().is_multiple_of(2);
    let (at, _) = text.match_indices(" // ").find(|(at, _)| marker == "//" && is_code(*at))?;
    text.get(at + 4..)
}

/// Returns the comments of a source without code spans, each with the number of its first line.
fn comments(source: &str, marker: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in source.lines().enumerate() {
        let Some(text) = comment(line, marker) else {
            goes_on = false;
            continue;
        };
        let is_whole_line = line.trim_start().starts_with(marker);
        match found.last_mut().filter(|_| goes_on && is_whole_line) {
            Some((_, all)) => *all += &format!(" {text}"),
            None => found.push((index + 1, text.to_string())),
        }
        goes_on = true;
    }
    let without_code = |text: &str| text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    found.into_iter().map(|(line, text)| (line, without_code(&text))).collect()
}

/// Returns the phrases of [`COMMENT_PHRASES`] in a comment, with their plain words.
fn stumbles(comment: &str) -> Vec<(&'static str, &'static str)> {
    let words = comment.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let rest = PLAIN.iter().fold(format!(" {words} "), |text, plain| text.replace(plain, ""));
    COMMENT_PHRASES.into_iter().filter(|(phrase, _)| rest.contains(phrase)).collect()
}

#[test]
fn comments_use_plain_phrases() {
    let root = super::root();
    let mut problems = Vec::new();
    let mut count = 0;
    for (ending, marker) in
        [(".rs", "//"), (".c", "//"), (".cpp", "//"), (".sh", "#"), (".py", "#")]
    {
        let mut files = Vec::new();
        super::files(&root, ending, &mut files);
        for file in files {
            let name = file.strip_prefix(&root).expect("inside").display().to_string();
            for (line, text) in comments(&fs::read_to_string(&file).expect("UTF-8"), marker) {
                count += 1;
                problems.extend(stumbles(&text).into_iter().map(|(phrase, plain)| {
                    format!("{name}:{line}: `{}` in this comment: say {plain}", phrase.trim())
                }));
            }
        }
    }
    assert!(count > 1000, "only {count} comments were found");
    super::report(&problems);
}

#[test]
fn phrases_are_found_in_comments_only() {
    let source = [
        "/// Waits so",
        "/// many seconds.",
        "let a = ' // is none '; // of its own accord",
        "// There is no `told` here, and it is no longer so.",
        "#[told]",
    ]
    .join("\n")
    .replace('\'', "\"");
    let found = comments(&source, "//").into_iter();
    let found: Vec<_> = found
        .flat_map(|(line, text)| stumbles(&text).into_iter().map(move |of| (line, of.0)))
        .collect();
    assert_eq!(found, [(1, " so many "), (3, " accord")]);
}

#[test]
fn prose_has_no_code_and_wrong_words_are_found() {
    let text = prose("A `sequnce` in [a linkk](docs/tilte.md).\n```\ncouner\n```\nThe ennd.");
    assert_eq!(text, "A in [a linkk \n\n\n\nThe ennd. \n");
    if let Some(words) = unknown(&text) {
        assert_eq!(words.into_iter().collect::<Vec<_>>(), ["ennd", "linkk"]);
    }
    assert_eq!(doc_comments("/// A word.\nfn f() {}\n    //! More"), "A word.\n\nMore");
}
