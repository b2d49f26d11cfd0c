//! Faults that are put into the program on purpose, to measure that campaigns find them.
//!
//! A place asks `planted!` with the number of its fault. Builds without debug
//! assertions, such as every package, have none of them: the question is then a constant. A table
//! of the faults is in docs/campaigns.md.

use core::sync::atomic::{AtomicU32, Ordering};

/// The fault of this process; 0: none.
static CHOSEN: AtomicU32 = AtomicU32::new(0);

/// Chooses the fault of this process. Builds without debug assertions ignore it.
pub fn choose(number: u32) {
    CHOSEN.store(number, Ordering::Relaxed);
}

/// Returns true for the fault that was chosen.
#[must_use]
pub fn is_chosen(number: u32) -> bool {
    CHOSEN.load(Ordering::Relaxed) == number
}

/// Is true in a debug build in which the fault with this number was chosen.
#[macro_export]
macro_rules! planted {
    ($number:literal) => {
        cfg!(debug_assertions) && $crate::planted::is_chosen($number)
    };
}
