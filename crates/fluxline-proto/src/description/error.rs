//! What is wrong with a description: file, line, column, field, and what to write instead.
//!
//! One sentence a person can act on; the checks that make them are in `load`, `resolve` and
//! `roles`.

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use super::names::nearest;

/// Why a description was refused. Displays as `file:line:column: what is wrong; what to write`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct LoadError {
    /// The file's name as given to `load`.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column \[character\], from 1.
    pub column: usize,
    /// The field, what is wrong with it and what to write instead.
    pub message: String,
}

/// The text of a file, to turn a span into line and column.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// An error at `span` \[byte\].
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> LoadError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        LoadError {
            file: self.file.to_string(),
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }

    /// The TOML reader's error, in one line, with the nearest known key where a key is unknown.
    pub fn toml_error(&self, error: &toml::de::Error) -> LoadError {
        let message = error.message().replace('\n', ", ");
        let quoted = |text: &str| -> alloc::vec::Vec<String> {
            text.split('`').skip(1).step_by(2).map(String::from).collect()
        };
        let hint = match message.starts_with("unknown ") {
            true => {
                let names = quoted(&message);
                let known = names.iter().skip(1).map(String::as_str);
                names.first().and_then(|name| nearest(name, known)).map(String::from)
            }
            false => None,
        };
        let hint = hint.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        self.error(error.span().unwrap_or(0..0), format!("{message}{hint}"))
    }
}
