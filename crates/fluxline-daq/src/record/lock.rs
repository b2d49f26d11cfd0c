//! The lock of a run folder, which keeps recorder and recovery apart.
//!
//! The operating system drops the lock with its holder. A file system without locks lets both
//! through.

use std::fs::{File, TryLockError};

use super::folder::RunFolder;

/// Another process holds the lock.
#[derive(Debug)]
pub(super) struct Locked;

/// Takes the lock, which is held until the file is dropped.
pub(super) fn lock(folder: &RunFolder) -> Result<Option<File>, Locked> {
    let Ok(handle) = folder.directory().open_again() else { return Ok(None) };
    match handle.try_lock() {
        Ok(()) => Ok(Some(handle)),
        Err(TryLockError::WouldBlock) => Err(Locked),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Returns true when a recorder holds the lock.
pub fn is_recording(folder: &RunFolder) -> bool {
    let Ok(handle) = folder.directory().open_again() else { return false };
    matches!(handle.try_lock_shared(), Err(TryLockError::WouldBlock))
}
