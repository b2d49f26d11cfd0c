//! The reason why an archive was not made, read or restored, in a sentence.

use fluxline_daq::record::FolderError;

/// The reason, by whose move it is.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The run, the target or a manifest is not what it should be; nothing was written there.
    #[error("{0}")]
    Input(String),
    /// Files of the archive are missing or differ from its check sums.
    #[error("{0}")]
    Files(String),
    /// A disk, a network or another program stands in the way; a second call goes on.
    #[error("{0}")]
    Failed(String),
}

impl From<FolderError> for ArchiveError {
    fn from(error: FolderError) -> ArchiveError {
        ArchiveError::Input(format!("{error}."))
    }
}

/// Makes an [`ArchiveError::Input`] of a sentence.
macro_rules! input {
    ($($text:tt)*) => { $crate::error::ArchiveError::Input(format!($($text)*)) };
}
/// Makes an [`ArchiveError::Failed`] of a sentence.
macro_rules! failed {
    ($($text:tt)*) => { $crate::error::ArchiveError::Failed(format!($($text)*)) };
}
pub(crate) use {failed, input};
