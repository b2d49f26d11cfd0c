//! Messages of the program are plain English: subject, verb, object.

/// Phrases of messages that have a plain word, and that word.
const PHRASES: [(&str, &str); 7] = [
    ("here is no ", "`X is unknown`, `the file has no X`"),
    ("here are no ", "`X has no ...`"),
    (" is no ", "is not a"),
    (" are no ", "are not"),
    (" as it is", "unchanged"),
    (" so many ", "a number"),
    ("be had", "obtained"),
];

/// Returns the texts in double quotes of a source, with the numbers of their lines. Comments, tests
/// and assertions are left out; a text that goes on in the next line is one text.
fn messages(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in source.lines().enumerate() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        let trimmed = line.trim_start();
        let is_message = !trimmed.starts_with("//")
            && !["expect(\"", "expect_err(\"", "assert", "reason = \"", "about = \""]
                .iter()
                .any(|word| line.contains(word));
        if open.is_none() && !is_message {
            continue;
        }
        let mut is_escaped = false;
        for letter in trimmed.chars() {
            match (&mut open, letter) {
                (None, '"') => open = Some((index + 1, String::new())),
                (None, _) => {}
                (Some(_), '"') if !is_escaped => found.extend(open.take()),
                (Some((_, text)), letter) => text.push(letter),
            }
            is_escaped = letter == '\\' && !is_escaped;
        }
        // A backslash at the end of a line joins the lines; another text does not go on.
        match &mut open {
            Some((_, text)) if text.ends_with('\\') => drop(text.pop()),
            _ => open = None,
        }
    }
    found
}

fn stumbles(message: &str) -> Option<&'static (&'static str, &'static str)> {
    let text = message.replace(" is no longer", "");
    PHRASES.iter().find(|(phrase, _)| text.contains(phrase))
}

#[test]
fn messages_use_plain_phrases() {
    let mut problems = Vec::new();
    let mut count = 0;
    for (file, text) in super::sources() {
        if !file.contains("/src/")
            || file.contains("tests")
            || file.contains("fluxline-conformance/")
        {
            continue;
        }
        for (number, message) in messages(&text) {
            count += 1;
            problems.extend(stumbles(&message).map(|(phrase, plain)| {
                format!("{file}:{number}: `{}` in a message: say {plain}", phrase.trim())
            }));
        }
    }
    assert!(count > 5000, "only {count} texts were found");
    super::report(&problems);
}

#[test]
fn phrases_are_found_in_messages_only() {
    let source = "// \"There is no file.\"\n\
                  let a = \"there is no file\";\n\
                  let b = (\"the file\", \"it \\\"is\\\" no file, and is \\\n    \
                  no folder\");\n\
                  let c = \"it is no longer there\"; // a comment\n\
                  assert!(a, \"is no file\");\n\
                  #[cfg(test)]\n let d = \"there is no file\";\n";
    let found = messages(source);
    let found: Vec<usize> = found
        .iter()
        .filter(|(_, message)| stumbles(message).is_some())
        .map(|(line, _)| *line)
        .collect();
    assert_eq!(found, [2, 3]);
}
