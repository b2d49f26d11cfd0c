//! The times at which a side of a ring checks that the other side lives.

use fluxline_core::{Moment, Span};

use crate::clock;

/// Time between two checks.
const LOOK_EVERY: Span = Span::from_ms(50);
/// Calls that come closer together than this are counted and not timed.
const CLOSE_TOGETHER: Span = Span::from_ns(500_000);
/// Calls between two readings of the clock, at most.
const STRIDE_MAX: u32 = 64;

/// Makes a check of the other process due about every 50 ms. In a tight loop, only one of 64 calls
/// reads the clock; a call after a pause always does.
#[derive(Debug)]
pub(super) struct Pace {
    calls: u32,
    stride: u32,
    asked: Moment,
    looked: Moment,
}

impl Pace {
    /// Makes a pace whose first check is due in 50 ms.
    pub(super) fn new() -> Pace {
        let now = clock::monotonic();
        Pace { calls: 0, stride: 1, asked: now, looked: now }
    }

    /// Returns true if a check is due; call it at each opportunity. Never true under loom, which
    /// has no time.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.calls += 1;
        self.calls >= self.stride && !cfg!(loom) && self.ask(clock::monotonic())
    }

    #[cold]
    fn ask(&mut self, now: Moment) -> bool {
        self.calls = 0;
        let close = now.since(self.asked) < CLOSE_TOGETHER;
        self.stride = if close { (2 * self.stride).min(STRIDE_MAX) } else { 1 };
        self.asked = now;
        let due = now.since(self.looked) >= LOOK_EVERY;
        if due {
            self.looked = now;
        }
        due
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the calls that are due, of calls at these times after a new pace.
    fn due(calls: impl Iterator<Item = Span>) -> Vec<Span> {
        let mut pace = Pace::new();
        let began = pace.looked;
        let mut is_due = |at: &Span| {
            pace.calls += 1;
            pace.calls >= pace.stride && pace.ask(began + *at)
        };
        calls.filter(|at| is_due(at)).collect()
    }

    #[test]
    fn whoever_calls_rarely_looks_each_time_and_whoever_calls_all_the_time_each_50_ms() {
        let rarely: Vec<Span> = (1..10).map(|second| Span::from_ms(1000 * second)).collect();
        assert_eq!(due(rarely.iter().copied()), rarely);
        let always = due((0..20_000_000).map(|call| Span::from_ns(call * 10)));
        assert_eq!(always.len(), 3, "{always:?}");
    }

    #[test]
    fn whoever_slows_down_looks_after_64_calls_at_the_latest() {
        let fast = (0..1000).map(|call| Span::from_ns(call * 10));
        let slow = (1..200).map(|second| Span::from_ms(1000 * second));
        let first = due(fast.chain(slow))[0];
        assert!(first <= Span::from_ms(64_000), "{first:?}");
    }
}
