//! Claims as claim.rs has them, in memory: for models (loom) and Miri, which lack file locks.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::Side;
use crate::sys::shim::{AtomicBool, Ordering};

/// The claims on both sides of a ring.
#[derive(Clone, Debug)]
pub(crate) struct ClaimFile(Arc<[AtomicBool; 2]>);

impl ClaimFile {
    pub(crate) fn new(_: Arc<File>) -> ClaimFile {
        ClaimFile(Arc::new([AtomicBool::new(false), AtomicBool::new(false)]))
    }

    #[cfg(test)]
    pub(crate) fn pair() -> (ClaimFile, ClaimFile) {
        let file = ClaimFile(Arc::new([AtomicBool::new(false), AtomicBool::new(false)]));
        (file.clone(), file)
    }

    #[cfg(test)]
    pub(crate) fn reopened(&self) -> ClaimFile {
        self.clone()
    }
}

/// A side's claim; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    file: ClaimFile,
    side: Side,
}

impl Claim {
    pub(crate) fn take(file: ClaimFile, side: Side) -> io::Result<Option<Claim>> {
        let word = &file.0[side as usize];
        // SYNC claim <- drop
        let free = word.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        Ok(free.is_ok().then_some(Claim { file, side }))
    }

    pub(crate) fn other_lives(&self) -> bool {
        self.file.0[self.side.other() as usize].load(Ordering::Acquire) // SYNC claim <- drop
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.file.0[self.side as usize].store(false, Ordering::Release); // SYNC claim -> take
    }
}
