//! Mistakes in files that people write.

use fluxline_toml::LoadError;

/// A file that is wrong or missing: a sentence that says what to write, after the line in question
/// where one is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{excerpt}{sentence}")]
pub struct InputError {
    /// The line in question with its mark, and an end of line; empty without one.
    excerpt: String,
    sentence: String,
}

impl InputError {
    /// Returns an error without an excerpt.
    pub fn new(sentence: impl std::fmt::Display) -> InputError {
        InputError { excerpt: String::new(), sentence: sentence.to_string() }
    }

    /// Returns the sentence without the excerpt.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl From<LoadError> for InputError {
    fn from(error: LoadError) -> InputError {
        let sentence = error.to_string();
        let end = if sentence.ends_with(['.', '?']) { "" } else { "." };
        InputError {
            excerpt: format!("{}\n", error.excerpt()),
            sentence: format!("{sentence}{end}"),
        }
    }
}
