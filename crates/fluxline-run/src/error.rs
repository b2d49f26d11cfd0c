//! Errors of an acquisition that did not start or did not end as planned.

use std::fmt::Display;

use fluxline_daq::InputError;
use fluxline_daq::record::FolderError;

/// An error in one sentence: what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment, a description or a file of packets is wrong or missing.
    #[error("{0}")]
    Input(#[from] InputError),
    /// A link could not be opened.
    #[error("{0}")]
    Link(String),
    /// The run folder could not be made or written.
    #[error("{0}.")]
    Folder(#[from] FolderError),
    /// Memory, a file or a thread failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(crate) fn input(sentence: impl Display) -> Error {
        Error::Input(InputError::new(sentence))
    }

    pub(crate) fn link(sentence: impl Display) -> Error {
        Error::Link(sentence.to_string())
    }

    pub(crate) fn failed(sentence: impl Display) -> Error {
        Error::Failed(sentence.to_string())
    }
}
