//! A node's own clock: it starts at an arbitrary time and runs slightly too fast or too slow.

use crate::{Duration, Instant};

/// The time shown by a node's own clock. Clocks of different nodes show different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime {
    /// The time \[ps\].
    pub ps: i128,
}

/// The time of the whole ringlet: the time of the master's clock, which is the simulation's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlobalTime {
    /// The time \[ps\].
    pub ps: i128,
}

impl GlobalTime {
    /// Returns the lead over `now` \[ps\].
    #[must_use]
    pub fn ahead_of(self, now: Instant) -> i128 {
        self.ps - i128::from(now.as_ps())
    }
}

/// The unit of drifts: parts in 10^9.
const BILLION: i128 = 1_000_000_000;

/// A clock with a start and a drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalClock {
    /// The time shown at the start \[ps\].
    pub start_ps: u64,
    /// The drift \[parts in 10^9\], positive when too fast; above -10^9.
    pub drift_ppb: i64,
    /// The resolution: the clock shows whole multiples of this \[ps\]; at least 1.
    pub tick_ps: u64,
}

impl LocalClock {
    /// Returns the time shown at `now`.
    #[must_use]
    pub fn read(&self, now: Instant) -> LocalTime {
        let now_ps = i128::from(now.as_ps());
        let gained_ps = (now_ps * i128::from(self.drift_ppb)).div_euclid(BILLION);
        let exact_ps = i128::from(self.start_ps) + now_ps + gained_ps;
        let tick_ps = i128::from(self.tick_ps);
        LocalTime { ps: exact_ps.div_euclid(tick_ps) * tick_ps }
    }

    /// Returns the true time that the clock takes to count `counted`.
    #[must_use]
    pub fn takes(&self, counted: Duration) -> Duration {
        let rate = (BILLION + i128::from(self.drift_ppb)).max(1);
        let ps = (i128::from(counted.as_ps()) * BILLION + rate - 1) / rate;
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::LocalClock;
    use crate::{Duration, Instant};

    #[test]
    fn a_clock_that_is_50_ppm_fast_has_gained_50_us_after_a_second_and_a_slow_one_lost_them() {
        let second = Instant::from_ps(1_000_000_000_000);
        for (drift_ppb, gained_ps) in [(50_000, 50_000_000), (-50_000, -50_000_000), (0, 0)] {
            let clock = LocalClock { start_ps: 77, drift_ppb, tick_ps: 1 };
            assert_eq!(clock.read(second).ps, 1_000_000_000_077 + gained_ps);
        }
    }

    #[test]
    fn a_coarse_clock_shows_the_last_whole_tick() {
        let clock = LocalClock { start_ps: 3, drift_ppb: 0, tick_ps: 10 };
        let shown = [0, 6, 7, 16, 17].map(|ps| clock.read(Instant::from_ps(ps)).ps);
        assert_eq!(shown, [0, 0, 10, 10, 20]);
    }

    #[test]
    fn what_a_clock_counts_in_a_span_is_at_least_what_it_was_to_count() {
        for drift_ppb in [-999_999, -1, 0, 1, 999_999] {
            let clock = LocalClock { start_ps: 0, drift_ppb, tick_ps: 1 };
            let took = clock.takes(Duration::from_us(1000));
            let counted = clock.read(Instant::START + took).ps;
            assert!((1_000_000_000..1_000_000_003).contains(&counted), "{drift_ppb}: {counted}");
        }
    }
}
