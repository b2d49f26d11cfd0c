//! No parameter of a function is a tuple: neither its pattern nor its type, behind a reference too.
//!
//! Types and plain parameters have names; the parts of a tuple have none at the call. Closures and
//! tests may take tuples.

/// A function of a file with a tuple among its parameters.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    function: String,
    parameter: String,
}

/// The code of a file: comments become spaces, tests at its end are left out.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let blank = |line: &str| match line.find("//") {
        Some(at) => line[..at].to_owned(),
        None => line.to_owned(),
    };
    text.lines().map(blank).collect::<Vec<_>>().join("\n")
}

/// Returns the length of a text up to the bracket that closes it, or up to its end.
///
/// Arrows do not count as brackets: `impl Fn(u8) -> bool`.
fn until_closed(text: &str) -> usize {
    let mut depth = 0_i32;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            ')' | ']' | '>' | '}' if depth == 0 => return at,
            ')' | ']' | '>' | '}' => depth -= 1,
            _ => {}
        }
        before = letter;
    }
    text.len()
}

/// The parts between the commas of a list, not of the lists in it.
fn parts(list: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = list;
    while !rest.trim().is_empty() {
        let mut end = 0;
        while let Some(at) = rest[end..].find([',', '(', '[', '<', '{']) {
            let opens = !rest[end + at..].starts_with(',');
            end += at + usize::from(opens);
            if !opens {
                break;
            }
            end = (end + until_closed(&rest[end..]) + 1).min(rest.len());
        }
        let is_last = !rest[end..].starts_with(',');
        let part = if is_last { rest } else { &rest[..end] };
        found.push(part.trim());
        rest = if is_last { "" } else { &rest[end + 1..] };
    }
    found
}

/// Returns true when a type or a pattern is a tuple, behind references too.
fn is_tuple(text: &str) -> bool {
    let mut text = text.trim();
    while let Some(rest) = text.strip_prefix('&') {
        let lifetime = rest.starts_with('\'').then(|| rest.split_once(' ')).flatten();
        let rest = lifetime.map_or(rest, |(_, rest)| rest);
        text = rest.strip_prefix("mut ").unwrap_or(rest);
    }
    let inner = text.strip_prefix('(').map(|inner| &inner[..until_closed(inner)]);
    inner.is_some_and(|inner| parts(inner).len() > 1)
}

fn findings(text: &str) -> Vec<Finding> {
    let code = code(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let begins_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let head = &code[at + 3..];
        let name_bytes = head.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
        let (name, mut rest) = head.split_at(name_bytes);
        if !begins_word || name.is_empty() {
            continue;
        }
        if let Some(generics) = rest.strip_prefix('<') {
            rest = generics.get(until_closed(generics) + 1..).unwrap_or("");
        }
        let Some(list) = rest.strip_prefix('(') else { continue };
        for parameter in parts(&list[..until_closed(list)]) {
            let kind = parameter.split_once(':').map_or("", |(_, kind)| kind);
            if is_tuple(parameter) || is_tuple(kind) {
                let line = code[..at].matches('\n').count() + 1;
                let parameter = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
                found.push(Finding { line, function: name.to_owned(), parameter });
            }
        }
    }
    found
}

#[test]
fn no_parameter_is_a_tuple() {
    let mut problems = Vec::new();
    let is_source = |file: &str| file.contains("/src/") && !file.contains("/tests");
    for (file, text) in super::sources().iter().filter(|(file, _)| is_source(file)) {
        for Finding { line, function, parameter } in findings(text) {
            problems.push(format!("{file}:{line}: {function} takes `{parameter}`"));
        }
    }
    super::report(&problems);
}

#[test]
fn tuples_are_found_in_patterns_types_and_references() {
    let takes = |parameters: &str| {
        let text =
            format!("//! A file.\n\npub fn name<T: Fn(u8) -> (u8, u8)>({parameters}) {{}}\n");
        findings(&text).len()
    };
    assert_eq!(takes("(a, b): (u8, u8)"), 1);
    assert_eq!(takes("&self, ends: (A, B)"), 1);
    assert_eq!(takes("&self, (a, b): &(A<u8, u8>, B), (c, d): (C, D)"), 2);
    assert_eq!(takes("&mut self,\n    from: &'a mut (A, B),\n"), 1);
    assert_eq!(takes("&self, nothing: (), list: &[(A, B)], map: Map<A, (B, C)>"), 0);
    assert_eq!(
        takes("act: impl Fn((A, B)) -> (A, B), other: &(dyn Fn(A, B) -> C + Sync), a: [u8; 2]"),
        0
    );
    assert_eq!(takes("a: u8, // (b, c): (u8, u8)\n    d: u8"), 0);
    let in_tests = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b(pair: (u8, u8)) {}\n}\n";
    assert!(findings(in_tests).is_empty());
}
