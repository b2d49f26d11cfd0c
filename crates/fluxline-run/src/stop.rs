//! The end of a run: on request, by a signal, or at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A request to stop, shared by threads; clones are the same request, and a check is cheap.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// A request that stops this one too.
    outer: Option<Arc<AtomicBool>>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Installs handlers for SIGINT, SIGTERM and SIGHUP, each of which then stops; a second SIGINT
    /// or SIGTERM ends the process at once, with status 130. Call it before anything that a signal
    /// must not leave unfinished. The handlers stay for the life of the process.
    #[must_use]
    pub fn on_signal() -> Stop {
        let stop = Stop::default();
        let flag = &stop.flag;
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flag unset, and only sets it.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone());
            let _ = signal_hook::flag::register(signal, flag.clone());
        }
        // A terminal that closes may send it twice, and `nohup` asks to ignore it.
        if !is_ignored(SIGHUP) {
            let _ = signal_hook::flag::register(SIGHUP, flag.clone());
        }
        stop
    }

    /// Returns the same request, which also stops `seconds` from now (0: no limit).
    #[must_use]
    pub fn after(self, seconds: f64) -> Stop {
        let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        Stop { deadline: deadline.or(self.deadline), ..self }
    }

    /// Returns a request of its own: this one stops it too, but it does not stop this one.
    #[must_use]
    pub fn inner(&self) -> Stop {
        let (flag, outer) = (Arc::default(), Some(self.flag.clone()));
        Stop { flag, outer, deadline: self.deadline }
    }

    /// Returns true when it is time to stop.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self.outer.as_ref().is_some_and(|outer| outer.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns the flag that [`Self::now`] and signals set.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// Stops now.
    pub fn now(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

/// Returns true when the parent process made the program ignore a signal: `SigIgn` in
/// /proc/self/status.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::Stop;

    #[test]
    fn an_outer_request_stops_the_inner_ones_and_none_stops_the_outer() {
        let outer = Stop::default();
        let (one, other) = (outer.inner(), outer.inner());
        one.now();
        assert!(one.is_over() && !other.is_over() && !outer.is_over());
        outer.now();
        assert!(other.is_over() && outer.is_over());
    }
}
