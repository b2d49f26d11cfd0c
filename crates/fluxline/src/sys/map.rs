//! Memory that several processes share: one mapping, bounds checked, unmapped when dropped.
//!
//! The bytes may change under a reader at any time: another process has them too. So bytes are
//! copied in and out (foreign.rs), and words are atomic. A caller that needs bytes in place
//! (`lend`) must ensure that they are not written. Only memory that no other process can write
//! lends them all, to the one owner of the mapping (`view`). Under loom the same interface uses
//! modelled memory: map_loom.rs. Source: Linux man-pages mmap(2), madvise(2).

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use fluxline_core::roce::UnsummedPacket;

use super::foreign::{self, LINE_UP_MIN};
use super::packet_sum;
use super::shared::{Access, Pages};
use super::shim::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A shared mapping of a file, or memory of this process with the same interface.
#[derive(Debug)]
pub(crate) struct SharedMap {
    base: NonNull<u8>,
    bytes: usize,
    writable: bool,
    backing: Backing,
    /// No other process can write the bytes.
    is_own: AtomicBool,
}

/// The allocation behind a [`SharedMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// Mapped by the kernel.
    Mapping,
    /// A `Box<[u64]>` of this many words.
    Words(usize),
    /// A block with `heap_layout`.
    #[cfg(all(test, miri))]
    Block,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access is by raw copies and
// atomics through the methods below.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// Maps the first `bytes` of a file, which must be that long: check, otherwise an access raises
    /// SIGBUS.
    pub(crate) fn of_file(
        file: BorrowedFd<'_>,
        bytes: usize,
        access: Access,
    ) -> io::Result<SharedMap> {
        SharedMap::of_file_at(file, 0, bytes, access)
    }

    /// Maps `bytes` of a file from `offset` on, which must exist: otherwise an access raises
    /// SIGBUS.
    pub(crate) fn of_file_at(
        file: BorrowedFd<'_>,
        offset: libc::off_t,
        bytes: usize,
        access: Access,
    ) -> io::Result<SharedMap> {
        let writable = access == Access::ReadWrite;
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
        Ok(SharedMap { base, bytes, writable, backing: Backing::Mapping, is_own: false.into() })
    }

    /// Maps all `bytes` of a file that only this process has, and that is not mapped yet.
    ///
    /// Call [`SharedMap::share`] before another process may write the file.
    pub(crate) fn of_own_file(file: BorrowedFd<'_>, bytes: usize) -> io::Result<SharedMap> {
        let map = SharedMap::of_file(file, bytes, Access::ReadWrite)?;
        map.is_own.store(true, Ordering::Relaxed);
        Ok(map)
    }

    /// Zeroed memory of this process and its children.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<SharedMap> {
        SharedMap::without_file(bytes, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    /// Zeroed memory of this process alone.
    pub(crate) fn private(bytes: usize, pages: Pages) -> io::Result<SharedMap> {
        let map = match pages {
            Pages::Small => SharedMap::without_file(bytes, libc::MAP_PRIVATE | libc::MAP_POPULATE)?,
            Pages::Huge => {
                let map = SharedMap::without_file(bytes, libc::MAP_PRIVATE)?;
                // SAFETY: advice about the mapping that was just made; a host without huge pages
                // keeps small ones, and pages that are not made now are made at first use.
                unsafe {
                    libc::madvise(map.base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
                    libc::madvise(map.base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE);
                }
                map
            }
        };
        map.is_own.store(true, Ordering::Relaxed);
        Ok(map)
    }

    fn without_file(bytes: usize, flags: libc::c_int) -> io::Result<SharedMap> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address, so nothing mapped before is touched.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (backing, is_own) = (Backing::Mapping, false.into());
        Ok(SharedMap { base, bytes, writable: true, backing, is_own })
    }

    /// Takes words of this process.
    pub(crate) fn of_words(words: Box<[u64]>) -> SharedMap {
        let (count, bytes) = (words.len(), size_of_val(&*words));
        let base = NonNull::from(Box::leak(words)).cast();
        let (backing, is_own) = (Backing::Words(count), true.into());
        SharedMap { base, bytes, writable: true, backing, is_own }
    }

    /// Returns the words of [`SharedMap::of_words`]; `Err`: it is another kind of memory.
    pub(crate) fn into_words(self) -> Result<Box<[u64]>, SharedMap> {
        let Backing::Words(count) = self.backing else { return Err(self) };
        let words = ManuallyDrop::new(self).base.cast::<u64>();
        // SAFETY: made of a box of this many words by `of_words`, and not dropped.
        Ok(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(words.as_ptr(), count)) })
    }

    /// Ends the ownership of the bytes: other processes may write them from now on.
    pub(crate) fn share(&self) {
        self.is_own.store(false, Ordering::Relaxed);
    }

    /// Returns all bytes from `offset` on; `None`: other processes may write them.
    ///
    /// # Panics
    /// When the offset is not inside.
    pub(crate) fn view(&mut self, offset: u64) -> Option<&mut [u8]> {
        if !self.is_own.load(Ordering::Relaxed) {
            return None;
        }
        let bytes = self.bytes - offset as usize;
        let start = self.at(offset, bytes);
        // SAFETY: inside (asserted), initialised (zeroed or words) and writable (only such memory
        // is owned). No other process writes it (`is_own`), and nobody in this process: the borrow
        // of `self` is exclusive, and references and copies need one of it.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) })
    }

    /// Zeroed memory for a test: mapped, or from the heap where nothing can be mapped (Miri).
    #[cfg(all(test, not(miri)))]
    pub(crate) fn for_test(bytes: u64) -> SharedMap {
        use std::os::fd::AsFd;
        let file = tempfile::tempfile_in("/dev/shm").expect("a file");
        file.set_len(bytes).expect("room");
        SharedMap::of_file(file.as_fd(), bytes as usize, Access::ReadWrite).expect("mapped")
    }

    #[cfg(all(test, miri))]
    pub(crate) fn for_test(bytes: u64) -> SharedMap {
        // SAFETY: no test asks for zero bytes.
        let base = unsafe { std::alloc::alloc_zeroed(heap_layout(bytes as usize)) };
        let base = NonNull::new(base).expect("memory");
        let (backing, is_own) = (Backing::Block, false.into());
        SharedMap { base, bytes: bytes as usize, writable: true, backing, is_own }
    }

    /// Returns its address in this process.
    pub(crate) fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// Returns its size \[byte\].
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns true if it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns true when `bytes` at `offset` are inside.
    pub(crate) fn holds(&self, offset: u64, bytes: usize) -> bool {
        usize::try_from(offset)
            .is_ok_and(|offset| offset <= self.bytes && bytes <= self.bytes - offset)
    }

    /// Returns the address of `bytes` at `offset`. Valid for as long as `self` lives.
    ///
    /// # Panics
    /// When they are not inside. Callers check first; this is the last check.
    pub(crate) fn at(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        assert!(self.holds(offset, bytes), "{bytes} bytes at {offset} of {}", self.bytes);
        // SAFETY: `offset + bytes <= self.bytes` (asserted), so the result is inside the mapping.
        unsafe { self.base.add(offset as usize) }
    }

    /// Returns the word at `offset`, shared with other processes.
    ///
    /// # Panics
    /// When it is not inside or `offset` is not a multiple of 8.
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        let word = self.at(offset, 8).cast::<AtomicU64>();
        // SAFETY: inside and aligned (asserted; the base is that of a page or of words); mapped
        // while `self` lives; AtomicU64 allows any bit pattern and concurrent change. A store to a
        // read-only mapping would fault, not corrupt: callers check `is_writable` first.
        unsafe { word.as_ref() }
    }

    /// Returns the half word at `offset`, shared with other processes.
    ///
    /// # Panics
    /// When it is not inside or `offset` is not a multiple of 4.
    pub(crate) fn half_word(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "a half word at {offset}");
        let word = self.at(offset, 4).cast::<AtomicU32>();
        // SAFETY: as in `word`, with an alignment of 4.
        unsafe { word.as_ref() }
    }

    /// Returns the word at `offset`, without checking the offset.
    ///
    /// # Safety
    /// The word must be inside, and `offset` a multiple of 8.
    #[inline]
    pub(crate) unsafe fn word_unchecked(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(self.holds(offset, 8) && offset.is_multiple_of(8));
        // SAFETY: inside and aligned, by the caller's promise; else as in `word`.
        unsafe { self.base.add(offset as usize).cast::<AtomicU64>().as_ref() }
    }

    /// Loads the word at `offset`, of data that others may write at any time.
    ///
    /// # Safety
    /// The word must be inside, and `offset` a multiple of 8.
    #[inline]
    pub(crate) unsafe fn data_word(&self, offset: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.word_unchecked(offset) }.load(Ordering::Relaxed)
    }

    /// Copies a record to words of the mapping, without a check that it fits. Also prefetches the
    /// line at `ahead`, unless the record is so long that the copy itself prefetches.
    ///
    /// # Safety
    ///
    /// Whole words around the bytes must be inside, `offset` a multiple of 8, the mapping writable.
    #[inline]
    pub(crate) unsafe fn write_record(&self, offset: u64, from: &[u8], ahead: u64) {
        debug_assert!(self.holds(offset, from.len().next_multiple_of(8)) && self.writable);
        if from.len() < LINE_UP_MIN {
            self.prefetch(ahead);
        }
        // SAFETY: inside and aligned, by the caller's promise; `from` is not part of the mapping
        // (see `write`).
        unsafe {
            let to = self.base.add(offset as usize).as_ptr();
            foreign::copy_in(from.as_ptr(), to, from.len());
        }
    }

    /// Copies a record from words of another mapping to words of this one, without a check that it
    /// fits.
    ///
    /// # Safety
    ///
    /// As for [`SharedMap::write_record`], of both; neither may be a part of the other.
    #[inline]
    pub(crate) unsafe fn write_across(
        &self,
        offset: u64,
        from: &SharedMap,
        from_offset: u64,
        bytes: usize,
    ) {
        debug_assert!(self.holds(offset, bytes.next_multiple_of(8)) && self.writable);
        debug_assert!(from.holds(from_offset, bytes.next_multiple_of(8)));
        // SAFETY: inside and aligned, by the caller's promise.
        unsafe {
            let from = from.base.add(from_offset as usize).as_ptr();
            foreign::copy_across(from, self.base.add(offset as usize).as_ptr(), bytes);
        }
    }

    /// Copies a record out of words of the mapping, replacing the content of `into`.
    ///
    /// # Panics
    /// When they are not inside or `offset` is not a multiple of 8.
    #[inline]
    pub(crate) fn read_record(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) {
        let room = bytes.next_multiple_of(8);
        assert!(offset.is_multiple_of(8), "a record at {offset}");
        let from = self.at(offset, room);
        into.clear();
        into.reserve(room);
        // SAFETY: whole words around the bytes are inside (`at`) and in the vector (`reserve`),
        // which is exclusive and so no part of the mapping; `bytes` of it are written.
        unsafe {
            foreign::copy_out(from.as_ptr(), into.as_mut_ptr(), bytes);
            into.set_len(bytes);
        }
    }

    /// Returns bytes in place, without checking that they are inside.
    ///
    /// # Safety
    /// They must be inside, and must not be written while the result lives.
    #[inline]
    pub(crate) unsafe fn lend(&self, offset: u64, bytes: usize) -> &[u8] {
        debug_assert!(self.holds(offset, bytes));
        // SAFETY: inside and unchanged, by the caller's promise; the mapping is initialised.
        unsafe { std::slice::from_raw_parts(self.base.add(offset as usize).as_ptr(), bytes) }
    }

    /// Prefetches the cache line at `offset` for writing; a hint, valid for any offset.
    #[inline]
    fn prefetch(&self, offset: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch accesses nothing; any address is allowed.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let place = self.base.as_ptr().wrapping_add(offset as usize);
            _mm_prefetch::<_MM_HINT_ET0>(place.cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = offset;
    }

    /// Copies `bytes` from `offset` of this mapping to `to_offset` of another.
    ///
    /// # Panics
    /// When they are not inside, or the other is not writable.
    pub(crate) fn copy_to(&self, offset: u64, to: &SharedMap, to_offset: u64, bytes: usize) {
        assert!(to.writable, "a mapping for reading only");
        let (from, to) = (self.at(offset, bytes), to.at(to_offset, bytes));
        let apart = from.addr().get().abs_diff(to.addr().get()) >= bytes;
        // SAFETY: both are inside (asserted). What overlaps within a mapping goes by the C
        // library's `memmove`; memory that is mapped twice may hold a mixture afterwards.
        unsafe {
            if apart {
                foreign::copy(from.as_ptr(), to.as_ptr(), bytes);
            } else {
                foreign::copy_over_itself(from.as_ptr(), to.as_ptr(), bytes);
            }
        }
    }

    /// Copies bytes out of the mapping as they are at that moment.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: both are `into.len()` long (`at` asserts one side), `into` is exclusive and so
        // not the mapping. A concurrent writer can make the copy a mixture of old and new bytes,
        // which the callers' protocol excludes or accepts.
        unsafe { foreign::copy(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies bytes out of the mapping into the payload of a packet; returns the packet's sum, of
    /// the bytes as they were copied.
    pub(crate) fn read_summed(&self, offset: u64, packet: UnsummedPacket<'_>) -> u32 {
        let from = self.at(offset, packet.payload.len());
        // SAFETY: valid for the payload's length (`at`), and a packet is never part of the mapping.
        unsafe { packet_sum::copy_summed(from.as_ptr(), packet) }
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
        unsafe { foreign::copy(from.as_ptr(), to.as_ptr(), from.len()) };
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        match self.backing {
            Backing::Mapping => {
                // SAFETY: mapped here with this length; no reference outlives `self`.
                unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
            }
            Backing::Words(count) => {
                let words = ptr::slice_from_raw_parts_mut(self.base.cast().as_ptr(), count);
                // SAFETY: made of a box of this many words by `of_words`; dropped once.
                drop::<Box<[u64]>>(unsafe { Box::from_raw(words) });
            }
            #[cfg(all(test, miri))]
            // SAFETY: allocated in `for_test` with this layout.
            Backing::Block => unsafe {
                std::alloc::dealloc(self.base.as_ptr(), heap_layout(self.bytes));
            },
        }
    }
}

#[cfg(all(test, miri))]
fn heap_layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, 4096).expect("a small size")
}
