//! Waiting for a state of a running acquisition.

use std::time::{Duration, Instant};

/// The time without the awaited state after which a test fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until `state` returns something.
pub fn wait_for<T>(what: &str, mut state: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = state() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
