//! The first sentence of a doc comment says what the item does or is: no question, no single word.

/// The crates that are clean. Add a crate when it is.
const CLEAN: [&str; 5] =
    ["fluxline-bench", "fluxline-cli", "fluxline-doctor", "fluxline-report", "fluxline-sim"];
/// Words that begin a question, or a clause in the place of a noun.
const QUESTIONS: [&str; 10] =
    ["What", "Which", "Whether", "Who", "Whose", "Whom", "How", "Where", "When", "Why"];

/// The first lines of a text's doc comments, with their numbers and the lines that follow.
fn first_lines(text: &str) -> Vec<(usize, &str, bool)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |index: usize| lines.get(index).is_some_and(|line| line.starts_with("///"));
    let begins = |index: &usize| is_doc(*index) && (*index == 0 || !is_doc(index - 1));
    let starts = (0..lines.len()).filter(begins);
    starts.map(|at| (at + 1, lines[at][3..].trim(), is_doc(at + 1))).collect()
}

/// Returns the problem of a doc comment's first line, if there is one.
fn problem(line: &str, goes_on: bool) -> Option<&'static str> {
    let first = line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    if QUESTIONS.contains(&first) {
        return Some("begins with a question word");
    }
    (!goes_on && !line.contains(' ')).then_some("is one word")
}

#[test]
fn doc_comments_say_what_an_item_does_or_is() {
    let mut problems = Vec::new();
    for (file, text) in super::sources() {
        if !CLEAN.iter().any(|name| file.starts_with(&format!("crates/{name}/"))) {
            continue;
        }
        for (number, line, goes_on) in first_lines(&text) {
            let found = problem(line, goes_on);
            problems.extend(found.map(|what| format!("{file}:{number}: doc comment {what}")));
        }
    }
    super::report(&problems);
}

#[test]
fn questions_and_single_words_are_found() {
    let text = "/// Whether it is.\nfn a() {}\n/// Which.\nfn b() {}\n/// Packets.\nfn c() {}\n\
                /// The packets.\nfn d() {}\n/// Returns\n/// whether it is.\nfn e() {}\n";
    let found: Vec<usize> = first_lines(text)
        .into_iter()
        .filter(|(_, line, goes_on)| problem(line, *goes_on).is_some())
        .map(|(number, ..)| number)
        .collect();
    assert_eq!(found, [1, 3, 5]);
}
