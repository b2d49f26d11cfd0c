//! The first sentence of a doc comment says what the item does or is: no question, no single word.

/// Words that begin a question, a clause in the place of a noun, or a sentence without a subject.
const QUESTIONS: [&str; 11] =
    ["What", "Which", "Whether", "Who", "Whose", "Whom", "How", "Where", "When", "Why", "There"];

/// The first lines of a text's doc comments, with their numbers, and whether a line follows.
/// `marker` begins each line of such a comment.
fn first_lines<'a>(text: &'a str, marker: &str) -> Vec<(usize, &'a str, bool)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |index: usize| lines.get(index).is_some_and(|line| line.starts_with(marker));
    let begins = |index: &usize| is_doc(*index) && (*index == 0 || !is_doc(index - 1));
    let starts = (0..lines.len()).filter(begins);
    starts.map(|at| (at + 1, lines[at][marker.len()..].trim(), is_doc(at + 1))).collect()
}

/// Returns the problem of a doc comment's first line, if there is one.
fn problem(line: &str, goes_on: bool) -> Option<&'static str> {
    let first = line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    if QUESTIONS.contains(&first) {
        return Some("begins with a question word");
    }
    let is_code = line.contains('`');
    (!goes_on && !is_code && !line.contains(' ')).then_some("is one word")
}

#[test]
fn doc_comments_say_what_an_item_does_or_is() {
    let mut problems = Vec::new();
    for (file, text) in super::sources() {
        // Tests may describe an item by one word.
        let is_source = file.contains("/src/");
        let comments = first_lines(&text, "///").into_iter().chain(first_lines(&text, "//!"));
        for (number, line, goes_on) in comments {
            let found = problem(line, goes_on || !is_source);
            problems.extend(found.map(|what| format!("{file}:{number}: doc comment {what}")));
        }
    }
    super::report(&problems);
}

#[test]
fn docstrings_of_python_say_what_an_item_does_or_is() {
    let root = super::root();
    let mut found = Vec::new();
    super::files(&root.join("crates"), ".py", &mut found);
    super::files(&root.join("tools"), ".py", &mut found);
    assert!(found.len() > 30, "only {} files of Python were found", found.len());
    let mut problems = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).expect("UTF-8 source");
        for (number, line, _) in first_lines(&text, "\"\"\"") {
            let found = problem(line, true);
            problems.extend(found.map(|what| format!("{}:{number}: {what}", path.display())));
        }
    }
    super::report(&problems);
}

#[test]
fn questions_and_single_words_are_found() {
    let text = "/// Whether it is.\nfn a() {}\n/// Which.\nfn b() {}\n/// Packets.\nfn c() {}\n\
                /// The packets.\nfn d() {}\n/// Returns\n/// whether it is.\nfn e() {}\n\
                /// There is one.\nfn f() {}\n";
    let found: Vec<usize> = first_lines(text, "///")
        .into_iter()
        .filter(|(_, line, goes_on)| problem(line, *goes_on).is_some())
        .map(|(number, ..)| number)
        .collect();
    assert_eq!(found, [1, 3, 5, 12]);
}
