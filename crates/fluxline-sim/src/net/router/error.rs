//! The error of network configurations and runs.

/// An invalid configuration or a failed run, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("network: {0}")]
pub struct NetworkError(pub(crate) String);
