//! The buffers of an exchange: the place of each message in memory, its bytes, and a cold cache.
//! Source: netpipe.c, the pools and the dummy memory of -I, and the words of -i.

use super::Task;

/// The memory touched before a trial with a cold cache \[byte\]. Source: netpipe.c, MEMSIZE.
const FLUSH_BYTES: usize = 10_000_000;
/// A pool for a cold cache, and how messages lie in it \[byte\]. Source: netpipe.c, MEMSIZE and the
/// buffers' alignment.
const POOL_BYTES: u64 = 10_000_000;
const POOL_GRID: u64 = 16 << 10;

impl Task {
    /// Returns the offset of the message with that number in its pool \[byte\].
    pub(super) fn offset(&self, number: u64) -> u64 {
        if !self.cold {
            return 0;
        }
        // Always on to the next multiple of the grid, also from one, as NetPIPE does.
        let stride = self.bytes / POOL_GRID * POOL_GRID + POOL_GRID;
        let places = (POOL_BYTES / stride).max(1);
        number % places * stride
    }

    /// Returns the size of a pool that holds every message \[byte\].
    pub(super) fn pool_bytes(&self) -> u64 {
        if self.cold { POOL_BYTES.max(self.bytes) } else { self.bytes }
    }
}

/// A message by its trial and its number in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageId {
    pub trial: u32,
    pub number: u64,
}

impl MessageId {
    /// Returns the bytes of a checked message: each word depends on the trial, the number and its
    /// index.
    pub fn pattern(self) -> impl FnMut(usize) -> u8 {
        let salt = self.number.wrapping_mul(0x9E37_79B9).wrapping_add(u64::from(self.trial)) as u32;
        move |offset| {
            let word = (offset as u32 / 4).wrapping_add(salt);
            word.to_le_bytes()[offset % 4]
        }
    }

    /// Compares the bytes that arrived. Errors: a sentence with the first wrong byte.
    pub fn check(self, bytes: &[u8]) -> Result<(), String> {
        let mut pattern = self.pattern();
        let wrong = bytes.iter().enumerate().position(|(offset, byte)| *byte != pattern(offset));
        wrong.map_or(Ok(()), |wrong| {
            let (number, bytes) = (self.number, bytes.len());
            Err(format!("byte {wrong} of message {number} of {bytes} B arrived damaged"))
        })
    }
}

/// The memory that fills the cache before a trial.
pub(super) struct CacheFlush {
    dummy: Vec<u8>,
}

impl CacheFlush {
    /// Allocates the memory if the task is cold.
    pub fn new(task: &Task) -> CacheFlush {
        CacheFlush { dummy: vec![0; if task.cold { FLUSH_BYTES } else { 0 }] }
    }

    /// Reads and writes a byte of every word.
    pub fn flush(&mut self) {
        for byte in self.dummy.iter_mut().step_by(4) {
            *byte = byte.wrapping_add(1);
        }
        std::hint::black_box(&mut self.dummy);
    }
}
