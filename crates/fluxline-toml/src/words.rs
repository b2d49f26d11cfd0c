//! From the words of serde and of the TOML reader to those of the one who wrote the file.
//!
//! serde's messages have a fixed form (`serde::de::Error`); each is taken apart and worded anew.
//! Messages of another form come from the TOML reader, are about the syntax, and are not changed.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::names::nearest;

/// A message in plain words.
pub(super) struct Plain {
    pub text: String,
    /// It is about a value, and does not name the key of it.
    pub about_value: bool,
}

/// Hints for required keys whose values are a few words.
const HINTS: [(&str, &str); 3] = [
    ("byte-order", "\"big\" or \"little\""),
    ("epoch", "\"unix\", \"tai\", \"gps\" or \"start\""),
    ("format", "a shipped format's name, such as \"counter\", or a file of yours, \"mine.toml\""),
];

/// Says `message` in plain words.
pub(super) fn plain(message: &str) -> Plain {
    let (text, about_value) = match message.split_once(' ') {
        Some(("unknown", rest)) if rest.starts_with("field ") => (unknown_key(message), false),
        Some(("unknown", rest)) if rest.starts_with("variant ") => (unknown_word(message), true),
        Some(("missing", rest)) if rest.starts_with("field ") => (missing(message), false),
        Some(("duplicate", rest)) if rest.starts_with("field ") => {
            (format!("`{}` is there twice; keep one of them", quoted(message).join("")), false)
        }
        Some(("invalid", rest)) => match wrong_value(rest) {
            Some(text) => (text, true),
            None => (message.replace('\n', ", "), false),
        },
        _ => (message.replace('\n', ", "), false),
    };
    Plain { text, about_value }
}

/// The words between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn unknown_key(message: &str) -> String {
    let names = quoted(message);
    let Some((name, known)) = names.split_first() else { return message.to_string() };
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("`{name}` is not a key here; did you mean `{near}`?"),
        None if known.is_empty() => format!("`{name}` is not a key here; leave it out"),
        None => format!("`{name}` is not a key here; there are {}", known.join(", ")),
    }
}

fn unknown_word(message: &str) -> String {
    let names = quoted(message);
    let Some((name, known)) = names.split_first() else { return message.to_string() };
    let hint = nearest(name, known.iter().copied());
    let hint = hint.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    format!("\"{name}\" is not known; write {}{hint}", alternatives(known))
}

/// `"a", "b" or "c"`.
fn alternatives(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

fn missing(message: &str) -> String {
    let name = quoted(message).join("");
    let hint = HINTS.iter().find(|hint| hint.0 == name);
    let hint = hint.map_or(String::from("; add it"), |hint| format!("; write {}", hint.1));
    format!("`{name}` is missing{hint}")
}

/// `type: GOT, expected WANTED` and `value: GOT, expected WANTED`.
fn wrong_value(rest: &str) -> Option<String> {
    let (kind, rest) = rest.split_once(": ")?;
    let (got, expected) = rest.rsplit_once(", expected ")?;
    let expected = wanted(expected);
    match kind {
        "value" => Some(format!("{} is out of range; write {expected}", given(got))),
        "type" => Some(format!("{} cannot stand here; write {expected}", given(got))),
        _ => None,
    }
}

/// Returns the words for the value that was written.
fn given(got: &str) -> String {
    let shown = || quoted(got).join("");
    match got.split(' ').next() {
        Some("string") => format!("the text {}", got.trim_start_matches("string ")),
        Some("integer") => format!("the integer {}", shown()),
        Some("floating") => format!("the number {}", shown()),
        Some("boolean") => shown(),
        Some("sequence") => "a list".to_string(),
        Some("map") => "a table".to_string(),
        _ => got.to_string(),
    }
}

/// Returns the words for the values that are possible.
fn wanted(expected: &str) -> String {
    let integer =
        |low: &str, high: &dyn core::fmt::Display| format!("an integer from {low} to {high}");
    match expected {
        "u8" => integer("0", &u8::MAX),
        "u16" => integer("0", &u16::MAX),
        "u32" => integer("0", &u32::MAX),
        // TOML's integers end at 2^63 - 1.
        "u64" | "usize" => "an integer from 0".to_string(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer".to_string(),
        "f32" | "f64" => "a number".to_string(),
        "a boolean" => "true or false".to_string(),
        "a string" | "path string" | "string or table" | "a borrowed string" => {
            "text in quotes".to_string()
        }
        "a sequence" => "a list, like [1, 2]".to_string(),
        "a map" => "a table, like { key = 1 }".to_string(),
        other if other.starts_with("struct ") => "a table, like { key = 1 }".to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::plain;

    fn said(message: &str) -> String {
        plain(message).text
    }

    #[test]
    fn messages_of_serde_are_said_in_plain_words() {
        let rows = [
            (
                "unknown field `timeout_ms`, expected one of `build`, `timeout-ms`",
                "`timeout_ms` is not a key here; did you mean `timeout-ms`?",
            ),
            ("unknown field `xyz`, expected `a` or `b`", "`xyz` is not a key here; there are a, b"),
            ("unknown field `x`, there are no fields", "`x` is not a key here; leave it out"),
            (
                "unknown variant `utc`, expected one of `unix`, `tai`, `gps`, `start`",
                "\"utc\" is not known; write \"unix\", \"tai\", \"gps\" or \"start\"",
            ),
            (
                "missing field `epoch`",
                "`epoch` is missing; write \"unix\", \"tai\", \"gps\" or \"start\"",
            ),
            ("missing field `name`", "`name` is missing; add it"),
            (
                "invalid type: string \"a, expected b\", expected u64",
                "the text \"a, expected b\" cannot stand here; write an integer from 0",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "the integer -1 is out of range; write an integer from 0 to 4294967295",
            ),
            (
                "invalid type: integer `5`, expected a sequence",
                "the integer 5 cannot stand here; write a list, like [1, 2]",
            ),
            ("duplicate field `a`", "`a` is there twice; keep one of them"),
        ];
        for (message, plain) in rows {
            assert_eq!(said(message), plain);
        }
    }

    #[test]
    fn messages_about_the_syntax_stay_and_have_one_line() {
        assert_eq!(said("unclosed array\nexpected `]`"), "unclosed array, expected `]`");
        assert_eq!(said("invalid"), "invalid");
        assert_eq!(said(""), "");
    }
}
