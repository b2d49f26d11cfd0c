//! Why an experiment file was refused: as much of the program's failures as reading one needs.

use std::fmt::Display;

/// A refusal.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One sentence.
    pub(crate) message: String,
}

impl Failure {
    /// An input file is wrong.
    pub(crate) fn input(message: impl Display) -> Failure {
        Failure { message: message.to_string() }
    }
}
