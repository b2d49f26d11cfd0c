//! A contradiction in an experiment that could be read, and its key.

use std::fmt;

use fluxline_toml::{LoadError, Places, TomlText};

/// A contradiction in an experiment: one sentence, and the key that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Keys and numbers of list items, with points between them: `source.0.udp.listen`.
    path: String,
    text: String,
}

impl Problem {
    /// Returns a problem with the key at `path`.
    pub fn at(path: impl Into<String>, text: impl Into<String>) -> Problem {
        Problem { path: path.into(), text: text.into() }
    }

    /// Returns the same problem, whose path begins at `table`.
    pub fn below(self, table: &str) -> Problem {
        let path = match self.path.is_empty() {
            true => table.to_string(),
            false => format!("{table}.{}", self.path),
        };
        Problem { path, ..self }
    }

    /// Returns the same problem, whose number of a source becomes that of its table.
    pub(super) fn of_tables(self, tables: &[usize]) -> Problem {
        let rest = self.path.strip_prefix("source.").map(|path| path.split_once('.'));
        let (number, rest) = match rest {
            Some(Some((number, rest))) => (number, format!(".{rest}")),
            Some(None) => (&self.path["source.".len()..], String::new()),
            None => return self,
        };
        match number.parse().ok().and_then(|number: usize| tables.get(number)) {
            Some(table) => Problem { path: format!("source.{table}{rest}"), ..self },
            None => self,
        }
    }

    /// Returns the error with the key's line and column in `source`.
    pub fn locate(&self, source: TomlText<'_>) -> LoadError {
        source.error(Places::of(source.text).value(&self.path), self.text.clone())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::at("", text)
    }
}
