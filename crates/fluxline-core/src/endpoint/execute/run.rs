//! The frames in the middle of a write: each is payload for the next place, and nothing else.

use super::super::regions::Regions;
use super::{Executor, Writing};
use crate::roce::Psn;

/// A write whose next frames are placed one behind the other.
pub(in super::super) struct WriteRun<'a> {
    writing: &'a mut Writing,
    /// Bytes placed in this run.
    pub placed_bytes: u64,
}

impl Executor {
    /// Returns the write that goes on, unless its region was withdrawn.
    pub fn write_run(&mut self, regions: &Regions) -> Option<WriteRun<'_>> {
        let writing = self.writing.as_mut()?;
        regions.get(writing.region).ok()?;
        Some(WriteRun { writing, placed_bytes: 0 })
    }
}

impl WriteRun<'_> {
    /// Places the payload of the next frame, `psn`. Returns false, with no effect, when the write
    /// has no room for it or the memory refuses it.
    #[inline]
    pub fn place(&mut self, psn: Psn, payload: &[u8]) -> bool {
        let Writing { memory, offset, bytes, done, next, .. } = &mut *self.writing;
        let count = payload.len() as u64;
        if count > *bytes - *done || memory.write(*offset + *done, payload).is_err() {
            return false;
        }
        *done += count;
        *next = psn.plus(1);
        self.placed_bytes += count;
        true
    }
}
