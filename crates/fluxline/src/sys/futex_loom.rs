//! A model of the futex for loom that makes only the kernel's promises.
//!
//! Under the lock of the queue, the sleeper compares the word and goes to sleep, and the waker
//! looks for sleepers. A time-out never comes, so that a lost wake-up is a deadlock, which loom
//! reports. All words share one queue: a model has one sleeper.

use std::time::Duration;

use super::shim::{AtomicU32, Condvar, Mutex, Ordering};

loom::lazy_static! {
    static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

pub(crate) fn sleep_on(word: &AtomicU32, seen: u32, _timeout: Duration) {
    let held = QUEUE.0.lock().expect("no panic under it");
    if word.load(Ordering::Relaxed) == seen {
        drop(QUEUE.1.wait(held).expect("no panic under it"));
    }
}

pub(crate) fn wake(_word: &AtomicU32) {
    drop(QUEUE.0.lock().expect("no panic under it"));
    QUEUE.1.notify_all();
}
