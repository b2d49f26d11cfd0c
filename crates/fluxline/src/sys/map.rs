//! Memory that several processes share: one mapping, bounds checked, given back when dropped.
//!
//! The bytes may change under a reader at any time: another process has them too. So nothing here
//! hands out a reference into the mapping; bytes are copied in and out through raw pointers, and
//! words are atomic. Whoever needs bytes in place (the push ring) argues why nobody writes them.
//! Source: Linux man-pages mmap(2), memfd_create(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A shared mapping of a file.
#[derive(Debug)]
pub(crate) struct SharedMap {
    base: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access is by raw copies and
// atomics through the methods below.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// Maps the first `bytes` of a file, which must be that long (else access is SIGBUS: check).
    pub(crate) fn of_file(
        file: BorrowedFd<'_>,
        bytes: usize,
        writable: bool,
    ) -> io::Result<SharedMap> {
        SharedMap::of_file_at(file, 0, bytes, writable)
    }

    /// Maps `bytes` of a file from `offset` on, which must be there (else access is SIGBUS).
    pub(crate) fn of_file_at(
        file: BorrowedFd<'_>,
        offset: libc::off_t,
        bytes: usize,
        writable: bool,
    ) -> io::Result<SharedMap> {
        let rights = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses the address, so nothing mapped before is touched; the
        // descriptor is open (borrowed).
        let base =
            unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, file.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMap { base, bytes, writable })
    }

    /// Its first byte. Valid for as long as `self` lives.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Whether it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether `bytes` at `offset` are inside.
    pub(crate) fn holds(&self, offset: u64, bytes: usize) -> bool {
        usize::try_from(offset)
            .is_ok_and(|offset| offset <= self.bytes && bytes <= self.bytes - offset)
    }

    /// Where `bytes` at `offset` are. Valid for as long as `self` lives.
    ///
    /// # Panics
    /// When they are not inside: callers check first, this is the net below.
    pub(crate) fn at(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        assert!(self.holds(offset, bytes), "{bytes} byte at {offset} of {}", self.bytes);
        // SAFETY: `offset + bytes <= self.bytes` (asserted), so the result is inside the mapping.
        unsafe { self.base.add(offset as usize) }
    }

    /// The word at `offset`, shared with other processes.
    ///
    /// # Panics
    /// When it is not inside or `offset` is no multiple of 8.
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        let word = self.at(offset, 8).cast::<AtomicU64>();
        // SAFETY: inside and aligned (asserted; the base is page-aligned); mapped while `self`
        // lives; AtomicU64 allows any bit pattern and concurrent change. A store to a read-only
        // mapping would fault, not corrupt: callers ask `is_writable` first.
        unsafe { word.as_ref() }
    }

    /// The half word at `offset`, shared with other processes.
    ///
    /// # Panics
    /// When it is not inside or `offset` is no multiple of 4.
    pub(crate) fn half_word(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "a half word at {offset}");
        let word = self.at(offset, 4).cast::<AtomicU32>();
        // SAFETY: as in `word`, with an alignment of 4.
        unsafe { word.as_ref() }
    }

    /// Copies `bytes` from `offset` of this mapping to `to_offset` of another.
    ///
    /// # Panics
    /// When they are not inside, or the other is not writable.
    pub(crate) fn copy_to(&self, offset: u64, to: &SharedMap, to_offset: u64, bytes: usize) {
        assert!(to.writable, "a mapping for reading only");
        let (from, to) = (self.at(offset, bytes), to.at(to_offset, bytes));
        // SAFETY: both are inside (asserted); `copy` allows that they are the same memory, mapped
        // once or twice.
        unsafe { ptr::copy(from.as_ptr(), to.as_ptr(), bytes) };
    }

    /// Copies out of the mapping; the bytes are as they are found.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: both are `into.len()` long (`at` asserts one side), `into` is exclusive and so
        // not the mapping. A concurrent writer can make the copy a mixture of old and new bytes,
        // which the callers' protocol excludes or accepts.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies into the mapping.
    ///
    /// # Panics
    /// When it is not writable or the bytes are not inside.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        assert!(self.writable, "a mapping for reading only");
        let to = self.at(offset, from.len());
        // SAFETY: inside (asserted) and writable (asserted). `from` is a Rust slice, of which the
        // mapping is never a part: nothing hands out references into it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
