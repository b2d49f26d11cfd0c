//! Long work in a thread of its own, while the caller's thread looks for Ctrl-C.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// The longest time between two looks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `work` in a thread of its own, detached from the interpreter. On Ctrl-C it sets the flag
/// that `work` gets, and returns at once; the thread ends by itself.
pub fn watched<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> T + Send + 'static,
) -> PyResult<T> {
    let mut nap = Duration::from_micros(100);
    let stop = Arc::new(AtomicBool::new(false));
    let of_work = Arc::clone(&stop);
    let thread = thread::spawn(move || work(&of_work));
    while !thread.is_finished() {
        py.detach(|| thread::sleep(nap));
        nap = LOOK_EVERY.min(nap * 2);
        py.check_signals().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
    }
    Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
}
