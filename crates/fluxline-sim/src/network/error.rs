//! The error of configurations and runs.

/// A configuration that cannot work, or a run that went wrong, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("network: {0}")]
pub struct NetworkError(pub(crate) String);
