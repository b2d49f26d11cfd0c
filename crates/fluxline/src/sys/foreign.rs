//! Copies to and from memory that other processes, or safe code of this one, write at the same
//! time. Such a copy may mix old and new bytes, but does no other harm.
//!
//! In Rust, a plain access that races with a write is undefined behaviour. These accesses are
//! defined: words are copied by relaxed atomics, and longer data by the C library's `memcpy`. It is
//! called through a pointer whose value the compiler cannot know, so that the compiler cannot
//! repeat, split or remove the copy. Nothing here makes a reference to shared bytes. Reasons:
//! docs/adr/0016.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stream::{STREAM_BYTES_MIN, stream};

const WORD: usize = size_of::<u64>();
/// Longest record that is copied word by word \[byte\]. If a program sets a field and pushes the
/// record at once, the field is still in the store buffer. A load that is wider than that store
/// waits until the field and all earlier stores reach the cache, including stores to lines that the
/// consumer still has. Chosen by `fluxline bench`: 1.4 times the rate of 64-byte records.
const BY_WORDS_MAX: usize = 64;

type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

static MEMCPY: Memcpy = libc::memcpy;
static MEMMOVE: Memcpy = libc::memmove;

/// Copies bytes; either side may be shared with others. Bypasses the cache where that is faster.
///
/// # Safety
/// Both must be valid for that number of bytes and must not overlap.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; a static function pointer, read as if it could change.
    unsafe {
        if bytes >= STREAM_BYTES_MIN {
            return stream(from, to, bytes);
        }
        let memcpy = ptr::read_volatile(&raw const MEMCPY);
        memcpy(to.cast(), from.cast(), bytes);
    }
}

/// The same for bytes that may overlap.
///
/// # Safety
/// Both must be valid for that number of bytes.
pub(crate) unsafe fn copy_over_itself(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as in `copy`.
    unsafe {
        let memmove = ptr::read_volatile(&raw const MEMMOVE);
        memmove(to.cast(), from.cast(), bytes);
    }
}

/// The word at `place`, shared with others.
///
/// # Safety
/// It must be valid for the lifetime that the caller takes, and aligned to a word.
#[inline]
unsafe fn word<'a>(place: *mut u8) -> &'a AtomicU64 {
    // SAFETY: the caller's promise; an atomic allows any bit pattern and concurrent change.
    unsafe { AtomicU64::from_ptr(place.cast()) }
}

/// Copies a record from the caller's own memory to shared words, and pads the last word: up to
/// [`BY_WORDS_MAX`] by words, up to two words without a loop.
///
/// # Safety
/// `to` must be aligned to a word and valid for whole words around `bytes`; `from` for `bytes`, and
/// must not be shared.
#[inline]
pub(crate) unsafe fn copy_in(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes > BY_WORDS_MAX {
        // SAFETY: the caller's promise.
        return unsafe { copy_in_lines(from, to, bytes) };
    }
    // SAFETY: each load ends at `bytes` at the latest; each store is of a word around them.
    unsafe {
        if bytes == 0 {
            return;
        }
        if bytes < WORD {
            let mut last = [0; WORD];
            ptr::copy_nonoverlapping(from, last.as_mut_ptr(), bytes);
            return word(to).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        let load = |at: usize| from.add(at).cast::<u64>().read_unaligned();
        word(to).store(load(0), Ordering::Relaxed);
        let mut at = WORD;
        while at + WORD < bytes {
            word(to.add(at)).store(load(at), Ordering::Relaxed);
            at += WORD;
        }
        if bytes > WORD {
            // The last whole word, without the bytes that are already copied.
            let last = load(bytes - WORD) >> (8 * (at + WORD - bytes));
            word(to.add(at)).store(last, Ordering::Relaxed);
        }
    }
}

/// A cache line \[byte\].
const LINE: usize = 64;
/// Length from which a copy is aligned to lines of its target \[byte\], so that the processor
/// writes whole lines and does not fetch their old content. Chosen in the same way: 1.1 times the
/// rate of 1 MiB records between near cores, 2.4 times between far ones.
pub(crate) const LINE_UP_MIN: usize = 1024;

/// Copies a long record, aligned to cache lines of the target. A separate function, because its
/// code made the path of the shortest records longer: the rate of 8-byte records fell by a quarter.
///
/// # Safety
/// As for [`copy_in`]; `bytes` must be more than a line.
#[inline(never)]
unsafe fn copy_in_lines(from: *const u8, to: *mut u8, bytes: usize) {
    let first = (LINE - to.addr() % LINE) % LINE;
    // SAFETY: inside both; less than a line, whole words of it, is copied first.
    unsafe {
        if bytes < LINE_UP_MIN || first == 0 {
            return copy(from, to, bytes);
        }
        copy_in(from, to, first);
        copy(from.add(first), to.add(first), bytes - first);
    }
}

/// Copies a record of shared words to the caller's own memory, including the padding of its last
/// word: up to [`BY_WORDS_MAX`] by words, without a call.
///
/// # Safety
/// `from` must be aligned to a word; both must be valid for whole words around `bytes`; `to` must
/// not be shared.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: whole words around `bytes`, by the caller's promise.
    unsafe {
        if bytes > BY_WORDS_MAX {
            return copy(from, to, bytes);
        }
        let mut at = 0;
        while at < bytes {
            let found = word(from.add(at).cast_mut()).load(Ordering::Relaxed);
            to.add(at).cast::<u64>().write_unaligned(found);
            at += WORD;
        }
    }
}

/// Copies a record from shared words to others: up to [`BY_WORDS_MAX`] by words, without a call.
///
/// # Safety
/// Both must be aligned to a word, valid for whole words around `bytes`, and no part of each other.
#[inline]
pub(crate) unsafe fn copy_across(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: whole words around `bytes`, by the caller's promise.
    unsafe {
        if bytes > BY_WORDS_MAX {
            return copy(from, to, bytes);
        }
        for at in (0..bytes).step_by(WORD) {
            let found = word(from.add(at).cast_mut()).load(Ordering::Relaxed);
            word(to.add(at)).store(found, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_length_and_place_are_copied_whole_and_beyond_their_words_nothing_is() {
        let from: Vec<u8> = (1..=255).cycle().take(3000).collect();
        for bytes in (0..200).chain([1023, 1024, 1025, 2000]) {
            for start in [0, 1, 7] {
                for place in [0, 1, 7] {
                    let mut shared = vec![0xEE_EE_EE_EE_EE_EE_EE_EE_u64; 400];
                    let to = shared.as_mut_ptr().wrapping_add(place).cast::<u8>();
                    let (mut back, mut other) = (vec![0; 3000], vec![0_u64; 400]);
                    let across = other.as_mut_ptr().cast::<u8>();
                    let source = &from[start..][..bytes];
                    // SAFETY: aligned words of a vector, and room enough in both.
                    unsafe {
                        copy_in(source.as_ptr(), to, bytes);
                        copy_across(to, across, bytes);
                        copy_out(across, back.as_mut_ptr(), bytes);
                    }
                    assert_eq!(&back[..bytes], source, "{bytes} bytes from {start} to {place}");
                    let words = place + bytes.div_ceil(WORD);
                    assert!(shared[words..].iter().all(|word| *word == 0xEEEE_EEEE_EEEE_EEEE));
                    assert!(shared[..place].iter().all(|word| *word == 0xEEEE_EEEE_EEEE_EEEE));
                }
            }
        }
    }
}
