//! A lock for state that nodes of one process share: the only part of this crate that uses `std`.

extern crate std;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// State that one thread at a time uses.
///
/// A thread that panics leaves the state as it is, for the others: their calls do not panic too.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Puts state behind a lock.
    pub const fn new(state: T) -> Lock<T> {
        Lock(Mutex::new(state))
    }

    /// Waits until no other thread has the state, and returns it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
