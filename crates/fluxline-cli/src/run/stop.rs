//! When a run ends: Ctrl-C, the time, or the sources' own end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Asked by every thread of a run: is it over? Cheap to ask.
#[derive(Clone)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Over on SIGINT, SIGTERM or SIGHUP; a second SIGINT or SIGTERM ends the program at once. To
    /// be made before anything that a signal must not leave half done.
    pub fn on_signal() -> Stop {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flag unset, and only sets it.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone());
            let _ = signal_hook::flag::register(signal, flag.clone());
        }
        // A terminal that closes may say so twice, and `nohup` asks to be spared.
        if !is_ignored(SIGHUP) {
            let _ = signal_hook::flag::register(SIGHUP, flag.clone());
        }
        Stop { flag, deadline: None }
    }

    /// The same, and over `seconds` from now (0: no limit).
    pub fn after(self, seconds: f64) -> Stop {
        let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        Stop { deadline, ..self }
    }

    /// Never over by itself.
    pub fn never() -> Stop {
        Stop { flag: Arc::default(), deadline: None }
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The same for the benchmark's engine; without the time limit.
    pub fn for_bench(&self) -> fluxline_bench::Stop {
        fluxline_bench::Stop::on(self.flag.clone())
    }

    /// Ends the run.
    pub fn now(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

/// Whether whoever started the program had it ignore a signal: `SigIgn` in /proc/self/status.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
