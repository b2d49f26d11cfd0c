//! The end of a run: on request, by a signal, or at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Time within which further signals are the first one's wish: wrappers forward a Ctrl-C that the
/// terminal has sent to the program already.
const SAME_WISH: Duration = Duration::from_secs(1);
/// Longest wait for the last sentence of a program that ends at once: its standard error may be a
/// pipe that nobody reads.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Status of a program that a later signal ended at once.
const AT_ONCE: i32 = 130;

/// A request to stop, shared by threads; clones are the same request, and a check is cheap.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// A request that stops this one too.
    outer: Option<Arc<AtomicBool>>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Installs handlers for SIGINT, SIGTERM and SIGHUP, each of which then stops.
    ///
    /// Further ones within a second are the same wish. A later SIGINT or SIGTERM ends the process
    /// at once, with status 130, after `last_words` or half a second. Call it before anything that
    /// a signal must not leave unfinished. The handlers stay for the life of the process.
    #[must_use]
    pub fn on_signal(last_words: fn()) -> Stop {
        let stop = Stop::default();
        // A terminal that closes may send SIGHUP twice, and `nohup` asks to ignore it.
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        if let Ok(signals) = Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up)) {
            let flag = stop.flag.clone();
            std::thread::spawn(move || obey(signals, &flag, last_words));
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

/// Sets the flag at the first signal; ends the process at one that is another wish.
fn obey(mut signals: Signals, flag: &AtomicBool, last_words: fn()) {
    let mut wishes = Wishes::default();
    for signal in signals.forever() {
        flag.store(true, Ordering::Relaxed);
        let wish = wishes.take(Instant::now());
        if wish == Wish::AtOnce && signal != SIGHUP {
            let (done, waits) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                last_words();
                let _ = done.send(());
            });
            let _ = waits.recv_timeout(LAST_WORDS);
            signal_hook::low_level::exit(AT_ONCE);
        }
    }
}

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// To stop, and to keep everything that was received.
    Stop,
    /// To end now.
    AtOnce,
}

/// The signals so far.
#[derive(Default)]
struct Wishes {
    first: Option<Instant>,
}

impl Wishes {
    fn take(&mut self, now: Instant) -> Wish {
        let first = *self.first.get_or_insert(now);
        match now.duration_since(first) < SAME_WISH {
            true => Wish::Stop,
            false => Wish::AtOnce,
        }
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
    use std::time::{Duration, Instant};

    use super::{Stop, Wish, Wishes};

    #[test]
    fn signals_that_a_wrapper_forwards_are_one_wish_and_a_later_one_is_another() {
        let (mut wishes, first) = (Wishes::default(), Instant::now());
        for (ms, wish) in [
            (0, Wish::Stop),
            (0, Wish::Stop),
            (5, Wish::Stop),
            (999, Wish::Stop),
            (1_000, Wish::AtOnce),
            (9_000, Wish::AtOnce),
        ] {
            assert_eq!(wishes.take(first + Duration::from_millis(ms)), wish, "{ms} ms");
        }
    }

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
