//! Large copies that bypass the cache, where that is faster: docs/adr/0011.

/// Size from which a copy bypasses the cache \[byte\]. A smaller copy that bypassed it would remove
/// reused data from the caches in which its reader finds it. Source: docs/adr/0011.
pub(crate) const STREAM_BYTES_MIN: usize = 16 << 20;

/// Copies bytes of any length, bypassing the cache. Later stores become visible after the bytes, as
/// with any copy. Either side may be shared with others that write it (foreign.rs): the compiler
/// cannot repeat, split or remove the accesses here.
///
/// # Safety
/// Both must be valid for that number of bytes and must not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    const PART: usize = size_of::<__m128i>();
    let before = to.align_offset(LINE).min(bytes);
    let lines = (bytes - before) / LINE;
    // SAFETY: `before + lines * LINE <= bytes`, for which both are valid, by the caller's promise;
    // behind `before` the destination is aligned to a line, as the stores demand of 16 bytes. SSE2
    // is part of every x86-64. The fence orders these stores, which nothing else does, before any
    // later one, such as a publication.
    unsafe {
        copy_bytes(from, to, before);
        for line in 0..lines {
            let place = before + line * LINE;
            let (from, to) = (from.add(place).cast::<__m128i>(), to.add(place).cast::<__m128i>());
            let parts: [__m128i; LINE / PART] = [0, 1, 2, 3].map(|at| load(from.add(at)));
            for (at, part) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(at), part);
            }
        }
        _mm_sfence();
        let done = before + lines * LINE;
        copy_bytes(from.add(done), to.add(done), bytes - done);
    }
}

/// Loads 16 bytes by one instruction, from any alignment.
///
/// # Safety
/// It must be valid for 16 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn load(from: *const std::arch::x86_64::__m128i) -> std::arch::x86_64::__m128i {
    let part;
    // SAFETY: reads 16 bytes, which are there by the caller's promise, and changes nothing else.
    unsafe {
        std::arch::asm!(
            "movdqu {part}, [{from}]",
            part = out(xmm_reg) part,
            from = in(reg) from,
            options(nostack, preserves_flags, readonly)
        );
    }
    part
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_bytes(from, to, bytes) };
}

/// Copies the rest of lines, byte by byte.
///
/// # Safety
///
/// As for [`stream`].
unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    for at in 0..bytes {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

/// Copies into memory of this process, bypassing the cache: for tests.
#[cfg(test)]
pub(crate) fn stream_slice(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "both of one length");
    // SAFETY: both are valid for the length, and one is exclusive.
    unsafe { stream(from.as_ptr(), to.as_mut_ptr(), from.len()) };
}
