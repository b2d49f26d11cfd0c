//! Reports mistakes in TOML files: one sentence that a person can act on, with line and column.
//!
//! The readers of TOML and serde speak of fields, variants and sequences; people write keys, words
//! and lists. [`TomlText`] turns their errors into ours. [`Places`] finds the place of a key, for
//! checks that come later.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod names;
mod places;
mod words;

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

pub use names::{nearest, nearest_three};
pub use places::Places;

/// Longest part of a line that an excerpt shows \[character\].
const EXCERPT_CHARACTERS_MAX: usize = 100;

/// The reason why a file was rejected. Displays as `file:line:column: problem; remedy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct LoadError {
    /// The file's name as given to the reader.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column \[character\], from 1.
    pub column: usize,
    /// The key, what is wrong with it and what to write instead.
    pub message: String,
    /// The text of the line.
    pub shown: String,
}

impl LoadError {
    /// Returns the line with its number, and below it a mark at the column; a long line is cut.
    #[must_use]
    pub fn excerpt(&self) -> String {
        let skipped = self.column.saturating_sub(EXCERPT_CHARACTERS_MAX / 2 + 1);
        let skipped = if self.column <= EXCERPT_CHARACTERS_MAX { 0 } else { skipped };
        let shown: String = self.shown.chars().skip(skipped).take(EXCERPT_CHARACTERS_MAX).collect();
        // A tab stays one, so that the mark stands below its character.
        let before = shown.chars().take((self.column - 1).saturating_sub(skipped));
        let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        format!("  {number} | {shown}\n  {margin} | {indent}^")
    }
}

/// The text of a file, to turn a span into line and column.
#[derive(Clone, Copy, Debug)]
pub struct TomlText<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
    /// The file's text.
    pub text: &'a str,
}

impl TomlText<'_> {
    /// Returns an error at `span` \[byte\].
    #[must_use]
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> LoadError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text.get(line_start..).and_then(|rest| rest.lines().next());
        LoadError {
            file: self.file.to_string(),
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
            shown: line.unwrap_or_default().to_string(),
        }
    }

    /// Returns the TOML reader's error in plain words, with the key whose value is wrong.
    #[must_use]
    pub fn toml_error(&self, error: &toml::de::Error) -> LoadError {
        let span = error.span().unwrap_or(0..0);
        let plain = words::plain(error.message());
        let places = Places::of(self.text);
        let key = places.key_of_value(&span).filter(|_| plain.about_value);
        let message = match key {
            Some(key) => format!("`{key}`: {}", plain.text),
            None => plain.text,
        };
        self.error(span, message)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::TomlText;

    #[test]
    fn an_excerpt_marks_the_column_below_its_line() {
        let text = "first = 1\n\tsecond = \"ä\" # 3\n";
        let at = text.find("# 3").expect("there");
        let error = TomlText { file: "f.toml", text }.error(at..at + 1, "why");
        assert_eq!((error.line, error.column), (2, 15));
        assert_eq!(error.excerpt(), "  2 | \tsecond = \"ä\" # 3\n    | \t             ^");
        assert_eq!(error.to_string(), "f.toml:2:15: why");
    }

    #[test]
    fn a_place_beyond_the_text_or_in_a_very_long_line_is_no_panic() {
        let long = "x".repeat(5000);
        for (text, at) in [("", 0), ("", 9), ("a", 7), (long.as_str(), 4000), ("ä", 1)] {
            let error = TomlText { file: "f", text }.error(at..at, "why");
            let excerpt = error.excerpt();
            assert!(excerpt.chars().count() < 300, "{excerpt}");
            assert!(excerpt.ends_with('^'));
        }
    }
}
