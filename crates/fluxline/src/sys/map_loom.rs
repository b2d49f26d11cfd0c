//! The interface of map.rs over loom's memory: loom tries every order of accesses.
//!
//! Each word is one of loom's atomics. Bytes that are copied in and out are loom's unsynchronised
//! accesses to the same words, so that loom reports a copy that races with a copy *or* with an
//! atomic access, because a word is sometimes a head and sometimes data. Bytes in place are lent
//! from a second copy, which plain writes keep equal; lending counts as reading.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::shared::Access;
use super::shim::{AtomicU32, AtomicU64};

/// The counterpart of `map::SharedMap` in a model.
#[derive(Debug)]
pub(crate) struct SharedMap {
    words: Box<[UnsafeCell<AtomicU64>]>,
    /// The half words, apart from the words: an offset is always used with the same size.
    half_words: Box<[AtomicU32]>,
    plain: Box<[UnsafeCell<u8>]>,
}

// SAFETY: loom runs one of a model's threads at a time, and itself reports what would race.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    pub(crate) fn of_file(_: BorrowedFd<'_>, _: usize, _: Access) -> io::Result<SharedMap> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn of_file_at(
        _: BorrowedFd<'_>,
        _: libc::off_t,
        _: usize,
        _: Access,
    ) -> io::Result<SharedMap> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn of_own_file(_: BorrowedFd<'_>, _: usize) -> io::Result<SharedMap> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn share(&self) {}

    pub(crate) fn view(&mut self, _: u64) -> Option<&mut [u8]> {
        None
    }

    /// Makes zeroed memory of a multiple of 8 bytes; call it inside a model.
    #[cfg(test)]
    pub(crate) fn for_test(bytes: u64) -> SharedMap {
        assert!(bytes.is_multiple_of(8), "whole words");
        SharedMap {
            words: (0..bytes / 8).map(|_| UnsafeCell::new(AtomicU64::new(0))).collect(),
            half_words: (0..bytes / 4).map(|_| AtomicU32::new(0)).collect(),
            plain: (0..bytes).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.plain.as_ptr().addr()
    }

    pub(crate) fn is_writable(&self) -> bool {
        true
    }

    pub(crate) fn holds(&self, offset: u64, bytes: usize) -> bool {
        let all = self.plain.len();
        usize::try_from(offset).is_ok_and(|offset| offset <= all && bytes <= all - offset)
    }

    pub(crate) fn at(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        assert!(self.holds(offset, bytes));
        NonNull::from(&self.plain[offset as usize]).cast()
    }

    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        // SAFETY: see `plain_write` for the only exclusive borrow.
        unsafe { &*self.words[offset as usize / 8].get() }
    }

    pub(crate) fn half_word(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "a half word at {offset}");
        &self.half_words[offset as usize / 4]
    }

    /// # Safety
    /// None is needed here: all is checked.
    pub(crate) unsafe fn word_unchecked(&self, offset: u64) -> &AtomicU64 {
        self.word(offset)
    }

    /// # Safety
    /// None is needed here: all is checked.
    pub(crate) unsafe fn data_word(&self, offset: u64) -> u64 {
        self.plain_read(offset as usize / 8)
    }

    /// # Safety
    /// None is needed here: all is checked.
    pub(crate) unsafe fn write_record(&self, offset: u64, from: &[u8], _ahead: u64) {
        self.write(offset, from);
    }

    /// # Safety
    /// None is needed here: all is checked.
    pub(crate) unsafe fn write_across(
        &self,
        offset: u64,
        from: &SharedMap,
        from_offset: u64,
        bytes: usize,
    ) {
        from.copy_to(from_offset, self, offset, bytes);
    }

    pub(crate) fn read_record(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) {
        into.resize(bytes, 0);
        self.read(offset, into);
    }

    /// # Safety
    /// The bytes must not be written while the result lives.
    pub(crate) unsafe fn lend(&self, offset: u64, bytes: usize) -> &[u8] {
        assert!(self.holds(offset, bytes));
        for word in words_of(offset, bytes) {
            self.plain_read(word);
        }
        let plain = &self.plain[offset as usize..][..bytes];
        // SAFETY: cells have their content's layout; unchanged, by the caller's promise.
        unsafe { std::slice::from_raw_parts(plain.as_ptr().cast(), bytes) }
    }

    pub(crate) fn copy_to(&self, offset: u64, to: &SharedMap, to_offset: u64, bytes: usize) {
        let mut copied = vec![0; bytes];
        self.read(offset, &mut copied);
        to.write(to_offset, &copied);
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for (byte, place) in into.iter_mut().zip(offset as usize..) {
            *byte = self.plain_read(place / 8).to_le_bytes()[place % 8];
        }
    }

    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        assert!(self.holds(offset, from.len()));
        for word in words_of(offset, from.len()) {
            self.plain_write(word, |bytes| {
                for (byte, place) in bytes.iter_mut().zip(word * 8..) {
                    let Some(from) = place.checked_sub(offset as usize).and_then(|at| from.get(at))
                    else {
                        continue;
                    };
                    *byte = *from;
                    // SAFETY: loom has just found that no other access of the word is concurrent.
                    unsafe { *self.plain[place].get() = *from };
                }
            });
        }
    }

    fn plain_read(&self, word: usize) -> u64 {
        // SAFETY: loom reports an access that is not ordered before or after this one.
        unsafe { (*self.words[word].get()).unsync_load() }
    }

    fn plain_write(&self, word: usize, change: impl FnOnce(&mut [u8; 8])) {
        // SAFETY: the borrow lasts for the call, in which loom switches to no other thread; a
        // thread that holds the word borrowed as an atomic uses it later, through loom's own cell.
        let word = unsafe { &mut *self.words[word].get() };
        word.with_mut(|value| {
            let mut bytes = value.to_le_bytes();
            change(&mut bytes);
            *value = u64::from_le_bytes(bytes);
        });
    }
}

/// The words that the bytes touch.
fn words_of(offset: u64, bytes: usize) -> Range<usize> {
    let offset = offset as usize;
    offset / 8..(offset + bytes).div_ceil(8)
}
