//! The owner of each side of a ring: a lock on a byte of the region's file.
//!
//! The kernel releases the lock when the last descriptor of that open file is closed: by the side's
//! end, or with its process, however that was killed, and after the process's last store. So a
//! claim needs no process number, which another process could get later, no heartbeat, and no
//! intermediate steps in which its process could die. The reason for a lock instead of a word of
//! the ring: docs/adr/0017. Tests without files have claim_memory.rs instead.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::Side;
use crate::sys::lock::{is_locked, lock, unlock};

/// The region's file, opened for one side.
#[derive(Clone, Debug)]
pub(crate) struct ClaimFile(Arc<File>);

impl ClaimFile {
    /// Takes a file that this side has opened separately: locks of one open file do not exclude
    /// each other.
    pub(crate) fn new(file: Arc<File>) -> ClaimFile {
        ClaimFile(file)
    }

    /// Returns both sides' files of a ring, for tests.
    #[cfg(test)]
    pub(crate) fn pair() -> (ClaimFile, ClaimFile) {
        let file = ClaimFile(Arc::new(tempfile::tempfile_in("/dev/shm").expect("a file")));
        let other = file.reopened();
        (file, other)
    }

    /// The same file, opened once more.
    #[cfg(test)]
    pub(crate) fn reopened(&self) -> ClaimFile {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let mut options = File::options();
        ClaimFile(Arc::new(options.read(true).write(true).open(path).expect("the same file")))
    }
}

/// A side's claim; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    file: ClaimFile,
    side: Side,
}

impl Claim {
    /// Claims `side`; returns `None` if another process has it. Errors: the host's.
    pub(crate) fn take(file: ClaimFile, side: Side) -> io::Result<Option<Claim>> {
        Ok(lock(&file.0, side as u64)?.then_some(Claim { file, side }))
    }

    /// Returns true if the other side is claimed; an error of the host counts as claimed. Cost: a
    /// system call.
    pub(crate) fn other_lives(&self) -> bool {
        is_locked(&self.file.0, self.side.other() as u64).unwrap_or(true)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A lock that cannot be released is released when the file is closed.
        let _ = unlock(&self.file.0, self.side as u64);
    }
}
