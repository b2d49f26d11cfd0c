//! The send queue: posted work in order, and how far it has been cut into frames.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::super::posted::{PayloadSource, Posted, Request, Shape};

/// Buffers kept for reuse, at most.
const SPARE_MAX: usize = 64;

/// Posted work, oldest first. Each operation has a number that is never reused.
#[derive(Default)]
pub(super) struct SendQueue {
    posted: VecDeque<Posted>,
    /// Number of `posted[0]`.
    base: u64,
    /// Number of the first operation that is not completely cut into frames.
    uncut: u64,
    /// Empty buffers for reuse.
    spare: Vec<Vec<u8>>,
}

impl SendQueue {
    /// Returns the number of queued operations.
    pub fn len(&self) -> usize {
        self.posted.len()
    }

    /// Returns an empty buffer for the bytes of a new operation.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub fn push(&mut self, posted: Posted) {
        self.posted.push_back(posted);
    }

    /// Returns the operation with this number, which must be queued.
    #[inline]
    pub fn get(&self, number: u64) -> &Posted {
        &self.posted[(number - self.base) as usize]
    }

    /// Returns the operation with this number, if it is queued.
    #[inline]
    pub fn find(&self, number: u64) -> Option<&Posted> {
        self.posted.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Returns the operation with this number, which must be queued.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> &mut Posted {
        &mut self.posted[(number - self.base) as usize]
    }

    /// Returns the number of the first operation that is not completely cut.
    #[inline]
    pub fn first_uncut(&self) -> Option<u64> {
        self.has_uncut().then_some(self.uncut)
    }

    /// Returns true when the operation is the oldest one.
    #[inline]
    pub fn is_front(&self, number: u64) -> bool {
        number == self.base
    }

    #[inline]
    pub fn has_uncut(&self) -> bool {
        self.uncut < self.base + self.posted.len() as u64
    }

    /// Marks an operation and all before it as completely cut.
    #[inline]
    pub fn cut_through(&mut self, number: u64) {
        self.uncut = self.uncut.max(number + 1);
    }

    /// Removes the oldest operation if all its frames have arrived.
    pub fn pop_done(&mut self) -> Option<Posted> {
        let front = self.posted.front()?;
        if front.frames_left > 0 || (!front.framed && !front.is_without_frames()) {
            return None;
        }
        self.base += 1;
        self.uncut = self.uncut.max(self.base);
        self.posted.pop_front()
    }

    /// Removes the oldest operation, done or not.
    pub fn pop(&mut self) -> Option<Posted> {
        self.posted.pop_front()
    }

    /// Keeps the buffer of an operation that is done.
    pub fn recycle(&mut self, posted: Posted) {
        if let Request::Put { from: PayloadSource::Bytes(mut bytes), .. }
        | Request::Send { from: PayloadSource::Bytes(mut bytes) } = posted.request
            && self.spare.len() < SPARE_MAX
        {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Forgets all cuts: every operation is cut again from its first byte, in frames of this shape.
    pub fn uncut_all(&mut self, shape: &Shape) {
        for posted in &mut self.posted {
            (posted.cut, posted.framed, posted.frames_left) = (0, false, 0);
            posted.even_frame_bytes = shape.even_frame_bytes(posted);
        }
        self.uncut = self.base;
    }
}
