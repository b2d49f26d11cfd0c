//! The error of Myrinet configurations.

use crate::net::atoll;

/// An invalid configuration, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

impl From<atoll::ConfigError> for ConfigError {
    fn from(error: atoll::ConfigError) -> ConfigError {
        ConfigError(error.0)
    }
}
