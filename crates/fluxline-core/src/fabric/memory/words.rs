//! A region's memory in safe code: aligned words, each of them atomic.
//!
//! Several owners may read and write at once without a data race. A copy of many bytes reads word
//! by word, so it may mix old and new bytes, as on any link. Bytes within a word are written by
//! compare-and-swap, so that two writers of one word do not undo each other.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

use super::super::Memory;
use super::super::error::AccessError;
use super::super::region::Rights;

const WORD_BYTES: u64 = 8;

/// The words of one region, little-endian on every machine.
#[derive(Debug, Default)]
pub struct Words {
    words: Box<[AtomicU64]>,
    bytes: u64,
}

impl Words {
    /// Allocates `bytes` zero bytes; `None`: there is not enough memory.
    #[must_use]
    pub fn zeroed(bytes: u64) -> Option<Words> {
        let count = usize::try_from(bytes.div_ceil(WORD_BYTES)).ok()?;
        // Asked of the system as zeros: a page costs memory and time when it is first written.
        let words = <[AtomicU64]>::new_box_zeroed_with_elems(count).ok()?;
        Some(Words { words, bytes })
    }

    fn word(&self, offset: u64) -> Result<&AtomicU64, AccessError> {
        self.check(offset, WORD_BYTES)?;
        if !offset.is_multiple_of(WORD_BYTES) {
            return Err(AccessError::Unaligned { offset });
        }
        Ok(&self.words[(offset / WORD_BYTES) as usize])
    }

    /// Writes bytes one by one; they must be inside the region.
    fn write_bytes(&self, offset: u64, from: &[u8]) {
        for (place, &byte) in (offset..).zip(from) {
            let word = &self.words[(place / WORD_BYTES) as usize];
            let mut known = word.load(Ordering::Relaxed);
            loop {
                let mut bytes = known.to_le_bytes();
                bytes[(place % WORD_BYTES) as usize] = byte;
                let new = u64::from_le_bytes(bytes);
                let order = Ordering::Relaxed;
                match word.compare_exchange_weak(known, new, order, order) {
                    Ok(_) => break,
                    Err(now) => known = now,
                }
            }
        }
    }
}

impl Memory for Words {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn address(&self) -> Option<NonNull<u8>> {
        // The words are little-endian numbers: elsewhere their bytes are in another order.
        let first = NonNull::from(&*self.words).cast();
        cfg!(target_endian = "little").then_some(first)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(offset, into.len() as u64)?;
        for (place, byte) in (offset..).zip(into) {
            let word = self.words[(place / WORD_BYTES) as usize].load(Ordering::Relaxed);
            *byte = word.to_le_bytes()[(place % WORD_BYTES) as usize];
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        self.check(offset, from.len() as u64)?;
        if offset.is_multiple_of(WORD_BYTES) {
            let (whole, rest) = from.as_chunks::<{ WORD_BYTES as usize }>();
            let words = &self.words[(offset / WORD_BYTES) as usize..];
            for (word, bytes) in words.iter().zip(whole) {
                word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
            self.write_bytes(offset + (whole.len() * WORD_BYTES as usize) as u64, rest);
        } else {
            self.write_bytes(offset, from);
        }
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.load(Ordering::Acquire)) // SYNC word <- store
    }

    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.word(offset)?.store(value, Ordering::Release); // SYNC word -> load
        Ok(())
    }

    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.fetch_add(add, Ordering::AcqRel))
    }

    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError> {
        let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
        Ok(match self.word(offset)?.compare_exchange(expected, desired, done, failed) {
            Ok(before) | Err(before) => before,
        })
    }
}

/// A region with the rights of one side.
pub struct View {
    /// The memory.
    pub words: Arc<dyn Memory>,
    /// The rights.
    pub rights: Rights,
}

impl View {
    fn demand(&self, right: impl Fn(Rights) -> bool) -> Result<(), AccessError> {
        if right(self.rights) { Ok(()) } else { Err(AccessError::Rights) }
    }
}

impl Memory for View {
    fn bytes(&self) -> u64 {
        self.words.bytes()
    }

    fn address(&self) -> Option<NonNull<u8>> {
        self.words.address().filter(|_| self.rights.put && self.rights.get)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.demand(|rights| rights.get)?;
        self.words.read(offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        self.demand(|rights| rights.put)?;
        self.words.write(offset, from)
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        self.demand(|rights| rights.get)?;
        self.words.load(offset)
    }

    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.demand(|rights| rights.put)?;
        self.words.store(offset, value)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        self.demand(|rights| rights.atomic)?;
        self.words.fetch_add(offset, add)
    }

    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError> {
        self.demand(|rights| rights.atomic)?;
        self.words.compare_swap(offset, expected, desired)
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, Words};
    use crate::random::Draw;
    use alloc::vec;

    #[test]
    fn writes_by_words_and_by_bytes_do_what_plain_bytes_do() {
        let mut draw = Draw::new(7);
        let (words, mut plain) = (Words::zeroed(100).expect("memory"), vec![0_u8; 100]);
        for round in 0..2000_u64 {
            let offset = draw.below(100);
            let bytes = draw.below(101 - offset);
            let data: vec::Vec<u8> = (0..bytes).map(|at| (round + at) as u8).collect();
            words.write(offset, &data).expect("inside");
            plain[offset as usize..(offset + bytes) as usize].copy_from_slice(&data);
            let mut found = vec![0; 100];
            words.read(0, &mut found).expect("inside");
            assert_eq!(found, plain, "{bytes} byte at {offset}");
        }
        assert!(words.write(96, &[1; 8]).is_err() && words.write(101, &[]).is_err());
    }
}
