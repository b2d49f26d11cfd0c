//! A peer's region, mapped: stores land in it at once.
//!
//! Memory has no clock, and a window may be used from anywhere. So an access through it takes no
//! virtual time by itself: its bytes are counted, and the node's processor is busy for them before
//! its next call. For exact times, post puts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_core::fabric::memory::View;
use fluxline_core::fabric::{AccessError, Memory};

/// A mapped region.
pub struct Window {
    /// The peer's memory, as far as it may be used.
    pub view: View,
    /// Bytes that went through, of all windows of the node.
    pub stored: Arc<AtomicU64>,
}

impl Window {
    fn counted<T>(&self, bytes: usize, result: Result<T, AccessError>) -> Result<T, AccessError> {
        if result.is_ok() {
            self.stored.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        result
    }
}

/// Bytes of a word.
const WORD: usize = 8;

impl Memory for Window {
    fn bytes(&self) -> u64 {
        self.view.bytes()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let bytes = into.len();
        self.counted(bytes, self.view.read(offset, into))
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        self.counted(from.len(), self.view.write(offset, from))
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        self.counted(WORD, self.view.load(offset))
    }

    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.counted(WORD, self.view.store(offset, value))
    }

    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        self.counted(WORD, self.view.fetch_add(offset, add))
    }

    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError> {
        self.counted(WORD, self.view.compare_swap(offset, expected, desired))
    }
}
