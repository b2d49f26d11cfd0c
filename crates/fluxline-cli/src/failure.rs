//! Why a command failed, in one sentence, and the exit status that goes with it.

use std::fmt;

/// How a command can end, apart from well; the number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Something failed that is none of the below.
    Failed = 1,
    /// An input file (experiment, description, capture, run) is wrong or absent.
    Input = 3,
    /// The run's ledger does not close.
    Ledger = 4,
    /// Recording stopped before the run did.
    Recording = 5,
    /// A link could not be opened.
    Link = 6,
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// Which exit status.
    pub kind: FailureKind,
    /// One sentence: what, where, what to do.
    pub message: String,
}

impl Failure {
    /// An input file is wrong.
    pub fn input(message: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Input, message: message.to_string() }
    }

    /// A link could not be opened.
    pub fn link(message: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Link, message: message.to_string() }
    }

    /// Anything else.
    pub fn failed(message: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Failed, message: message.to_string() }
    }
}
