//! The reasons why a run folder cannot be used, each a sentence for the user.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a run folder could not be made, opened or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A new run must not mix with an old one.
    #[error("{} exists already: give another folder, or remove it", .0.display())]
    Exists(PathBuf),
    /// The parent directory does not exist.
    #[error("{} cannot be made: its parent directory does not exist; make that first",
        .0.display())]
    ParentMissing(PathBuf),
    /// The file or folder does not exist.
    #[error("{} is not there: give the path of a run folder, such as runs/0042", .0.display())]
    Missing(PathBuf),
    /// The user lacks the permission.
    #[error("no permission for {}: give a folder that is yours, or have its rights changed",
        .0.display())]
    Permission(PathBuf),
    /// The disk is full.
    #[error("no space left for {}: free some, or give a folder on another disk", .0.display())]
    NoSpace(PathBuf),
    /// It exists, but is not a run.
    #[error("{} is not a run folder, it has neither run.json nor events-*.arrows: \
        give the path of a run folder, such as runs/0042", .0.display())]
    NotARun(PathBuf),
    /// Its files were archived and removed.
    #[error("{0} is archived at {target}, and its files are not here: `fluxline archive --restore \
        {target} --to {0}` brings them back", .path.display())]
    Archived {
        /// The run folder.
        path: PathBuf,
        /// The address of its archive.
        target: String,
    },
    /// It is a file, or lies below one.
    #[error("{} is not a directory, or its parent is not: give the path of a directory",
        .0.display())]
    NotAFolder(PathBuf),
    /// A file of the run has a line that cannot be understood.
    #[error("{}, line {line}: {reason}; restore the file from a copy, or remove the line",
        .file.display())]
    Text {
        /// The file.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The fault of the line.
        reason: String,
    },
    /// Something else has the name of one of its files.
    #[error("{} is {what}, not a file: restore the file from a copy, or remove what is there",
        .path.display())]
    NotAFile {
        /// Its path.
        path: PathBuf,
        /// The kind of thing that it is.
        what: &'static str,
    },
    /// A link in a folder that may come from anywhere.
    #[error("{} is a symbolic link, which is not followed in a run folder: put a copy of the file \
        in its place", .0.display())]
    Link(PathBuf),
    /// No run has such a large text.
    #[error("{} is larger than {bytes_max} bytes, which no run's text is: \
        restore the file from a copy", .path.display())]
    TooLarge {
        /// Its path.
        path: PathBuf,
        /// The limit \[byte\].
        bytes_max: u64,
    },
    /// A name that would leave the folder.
    #[error("{0:?} cannot be a file's name: use letters, digits, '-' and '_'")]
    Name(String),
    /// Any other error of the operating system.
    #[error("{}: {reason}; check the disk", .path.display())]
    Other {
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        reason: io::Error,
    },
}

impl FolderError {
    /// Returns the error for what the operating system reported about `path`.
    #[must_use]
    pub fn explain(path: &Path, reason: io::Error) -> FolderError {
        let path = path.to_path_buf();
        match reason.kind() {
            io::ErrorKind::AlreadyExists => FolderError::Exists(path),
            io::ErrorKind::NotFound => FolderError::Missing(path),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                FolderError::Permission(path)
            }
            io::ErrorKind::NotADirectory => FolderError::NotAFolder(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FolderError::NoSpace(path),
            _ => FolderError::Other { path, reason },
        }
    }
}
