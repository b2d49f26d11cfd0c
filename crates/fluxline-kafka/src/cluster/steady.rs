//! The clock of a readout node: the time of day at its start, and steady from there on.
//!
//! Builders compare the times of all readout nodes. So a clock that somebody sets during a run must
//! not move the times of packets. The step is taken out of them, and reported.

use fluxline::clock;
use fluxline_core::{Moment, Span};

/// Smallest step that counts \[ns\]; smaller ones do no harm.
const STEP_NS: i128 = 100_000_000;
/// A packet cannot be newer than the present by more than this \[ns\].
const FUTURE_NS: i128 = 10_000_000;

/// Tries of a look at both clocks, and the time between them that spoils a try.
const LOOKS: usize = 5;
const INTERRUPTED: Span = Span::from_ms(5);

/// A time of day that runs as a monotonic clock does.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    /// The time of day less the monotonic time at the start.
    begin: i128,
    /// The step of the time of day since, and the one before.
    steps: [i128; 2],
    /// The last time of day.
    seen: i128,
}

fn ns(time: Moment) -> i128 {
    i128::from(time.as_ns())
}

fn moment(ns: i128) -> Moment {
    Moment::from_ns(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}

impl SteadyClock {
    /// Begins with the time of day `wall` at `monotonic`.
    #[must_use]
    pub fn new(wall: Moment, monotonic: Moment) -> SteadyClock {
        let (wall, monotonic) = (ns(wall), ns(monotonic));
        SteadyClock { begin: wall - monotonic, steps: [0; 2], seen: wall }
    }

    /// Takes the time of day `wall` at `monotonic`, and returns the steady time.
    pub fn look(&mut self, wall: Moment, monotonic: Moment) -> Moment {
        let (wall, monotonic) = (ns(wall), ns(monotonic));
        let step = wall - monotonic - self.begin;
        if (step - self.steps[0]).abs() >= STEP_NS {
            let step = if step.abs() < STEP_NS { 0 } else { step };
            self.steps = [step, self.steps[0]];
        }
        self.seen = wall;
        moment(wall - self.steps[0])
    }

    /// Looks at the clocks of this host.
    pub fn look_at_host(&mut self) {
        self.look_at(clock::now);
    }

    /// Looks at the time of day `now` and at the monotonic clock. Returns the steady time; `None`:
    /// each look was interrupted, which shows nothing.
    pub fn look_at(&mut self, now: fn() -> Moment) -> Option<Moment> {
        for _ in 0..LOOKS {
            let before = clock::monotonic();
            let wall = now();
            if clock::monotonic().since(before) < INTERRUPTED {
                return Some(self.look(wall, before));
            }
        }
        None
    }

    /// Returns true when a time of day differs much from the last one: look at the clock first.
    #[must_use]
    pub fn is_strange(&self, time: Moment) -> bool {
        (ns(time) - self.seen).abs() >= STEP_NS
    }

    /// Returns the steady time of a packet that arrived at `time`, by the time of day before or
    /// after the last step.
    #[must_use]
    pub fn correct(&self, time: Moment) -> Moment {
        let (time, now) = (ns(time), self.seen - self.steps[0]);
        let times = self.steps.map(|step| time - step);
        let distance = |time: &i128| match now - time {
            ago if ago >= -FUTURE_NS => ago.abs(),
            _ => i128::MAX,
        };
        moment(times.into_iter().min_by_key(distance).unwrap_or(time))
    }

    /// Returns the time by which the clock was set since the start \[ms\]; positive: forward.
    #[must_use]
    pub fn step_ms(&self) -> i64 {
        i64::try_from(self.steps[0] / 1_000_000).unwrap_or(i64::MAX)
    }
}
