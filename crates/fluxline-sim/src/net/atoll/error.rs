//! The error of ATOLL configurations.

/// An invalid configuration, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ATOLL: {0}")]
pub struct ConfigError(pub(crate) String);
