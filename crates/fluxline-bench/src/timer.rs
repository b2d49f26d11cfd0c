//! Checks that the clock is good enough for the measurement.

use std::hint::black_box;
use std::time::Duration;

use fluxline::clock;
use serde::{Deserialize, Serialize};

/// Readings in a row that are looked at.
const READINGS: usize = 100_000;

/// The quality of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// The mean time of a reading \[ns\].
    pub cost_ns: f64,
    /// The smallest step seen between two readings that differ \[ns\].
    pub resolution_ns: u64,
    /// The largest step: another program had the core \[ns\].
    pub largest_gap_ns: u64,
    /// True: a later reading was smaller.
    pub goes_back: bool,
}

impl Timer {
    /// Checks the clock of all measurements. Cost: some milliseconds.
    #[must_use]
    pub fn check() -> Timer {
        let readings: Vec<u64> =
            (0..READINGS).map(|_| black_box(clock::monotonic().as_ns())).collect();
        Timer::of(&readings)
    }

    /// Judges the clock by consecutive readings \[ns\].
    #[must_use]
    pub fn of(readings: &[u64]) -> Timer {
        let steps = || readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let span = match readings {
            [first, .., last] => last.saturating_sub(*first),
            _ => 0,
        };
        let gaps = readings.len().saturating_sub(1).max(1);
        Timer {
            cost_ns: span as f64 / gaps as f64,
            resolution_ns: steps().filter(|step| *step > 0).min().unwrap_or(0),
            largest_gap_ns: steps().max().unwrap_or(0),
            goes_back: readings.windows(2).any(|pair| pair[1] < pair[0]),
        }
    }

    /// Returns a warning if single spans of `typical` are too short for this clock.
    #[must_use]
    pub fn warning(&self, typical: Duration) -> Option<String> {
        let typical_ns = typical.as_nanos() as f64;
        let blur_ns = self.cost_ns.max(self.resolution_ns as f64);
        if self.goes_back {
            return Some("the clock goes back; nothing measured by it can be trusted".to_owned());
        }
        (blur_ns > 0.1 * typical_ns).then(|| {
            format!(
                "the clock blurs single spans by {blur_ns:.0} ns, more than a tenth of \
                 {typical_ns:.0} ns; means over many hold, percentiles are coarse"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_hosts_clock_goes_on_in_steps_of_less_than_a_microsecond() {
        let timer = Timer::check();
        assert!(!timer.goes_back && timer.cost_ns > 0.0, "{timer:?}");
        assert!(timer.resolution_ns < 1000, "{timer:?}");
    }

    #[test]
    fn coarse_clocks_and_those_that_go_back_have_a_warning() {
        let coarse = Timer::of(&[0, 0, 1000, 1000, 2000]);
        assert_eq!((coarse.resolution_ns, coarse.cost_ns), (1000, 500.0));
        assert!(coarse.warning(Duration::from_micros(5)).is_some());
        assert!(coarse.warning(Duration::from_micros(50)).is_none());
        let back = Timer::of(&[5, 4, 6]);
        assert!(back.goes_back && back.warning(Duration::from_secs(1)).is_some());
        assert_eq!(Timer::of(&[]).cost_ns, 0.0);
    }
}
