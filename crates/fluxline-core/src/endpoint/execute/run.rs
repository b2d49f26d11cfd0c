//! Predicted frames: the middle of a write, and writes of one frame.

use super::super::context::Context;
use super::super::regions::Regions;
use super::{Executor, Writing};
use crate::fabric::Rights;
use crate::roce::{Psn, Reth};

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

    /// Does a write of one frame without a notification. Returns false, with no effect, when key,
    /// right, bounds or memory do not allow it.
    #[inline]
    pub fn place_write(&mut self, reth: Reth, payload: &[u8], context: &mut Context<'_>) -> bool {
        let Ok(range) = context.granted_range(reth.into(), |rights: Rights| rights.put) else {
            return false;
        };
        let is_admitted = range.memory.admits(range.offset, payload.len() as u64);
        if !is_admitted || range.memory.write(range.offset, payload).is_err() {
            return false;
        }
        // A write that another one follows has lost its rest.
        self.writing = None;
        self.messages = self.messages.wrapping_add(1);
        context.counters.payload_placed += payload.len() as u64;
        true
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
