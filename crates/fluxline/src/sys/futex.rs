//! Sleep and wake-up across processes.
//!
//! Source: Linux man-page futex(2).

use std::time::Duration;

use super::shim::AtomicU32;

/// Sleeps while `word` is `seen`, at most `timeout`; wakes by [`wake`], from any process.
pub(crate) fn sleep_on(word: &AtomicU32, seen: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the word is mapped for as long as it is borrowed, the time lives through the call.
    // After any end of the sleep (wake-up, changed word, time, signal), the caller checks again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            seen,
            &raw const timeout,
            std::ptr::null::<u32>(),
            0,
        )
    };
}

/// Wakes all who sleep on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the word is mapped for as long as it is borrowed.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
