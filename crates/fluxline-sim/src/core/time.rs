//! Virtual time in integer picoseconds, and clocks whose ticks are exact.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment in virtual time \[ps since the start\]. A `u64` reaches 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ps: u64,
}

/// A span of virtual time \[ps\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    ps: u64,
}

/// Picoseconds in a second.
const PS_PER_S: u128 = 1_000_000_000_000;

impl Instant {
    /// The start of virtual time.
    pub const START: Instant = Instant { ps: 0 };
    /// The latest moment, later than all others.
    pub const NEVER: Instant = Instant { ps: u64::MAX };

    /// Returns the moment `ps` picoseconds after the start.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Instant {
        Instant { ps }
    }

    /// Returns the picoseconds since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.ps
    }

    /// Returns the span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration { ps: self.ps.saturating_sub(earlier.ps) }
    }
}

impl Duration {
    /// The empty span.
    pub const ZERO: Duration = Duration { ps: 0 };

    /// A span of `ps` picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Duration {
        Duration { ps }
    }

    /// A span of `ns` nanoseconds; saturates.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Duration {
        Duration { ps: ns.saturating_mul(1000) }
    }

    /// A span of `us` microseconds; saturates.
    #[must_use]
    pub const fn from_us(us: u64) -> Duration {
        Duration { ps: us.saturating_mul(1_000_000) }
    }

    /// Returns the value in picoseconds.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.ps
    }

    /// Microseconds, for tables and plots.
    #[must_use]
    pub fn as_us(self) -> f64 {
        self.ps as f64 / 1e6
    }

    /// Returns this span `count` times; saturates.
    #[must_use]
    pub const fn times(self, count: u64) -> Duration {
        Duration { ps: self.ps.saturating_mul(count) }
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant { ps: self.ps.saturating_add(span.ps) }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration { ps: self.ps.saturating_add(other.ps) }
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration { ps: self.ps.saturating_sub(other.ps) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ps {
            ps if ps >= 1_000_000_000 => write!(out, "{:.3} ms", ps as f64 / 1e9),
            ps if ps >= 1_000_000 => write!(out, "{:.3} us", ps as f64 / 1e6),
            ps => write!(out, "{:.3} ns", ps as f64 / 1e3),
        }
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", Duration { ps: self.ps })
    }
}

/// Ticks of one frequency. Tick k begins at floor(k / frequency): errors do not add up, even if a
/// tick is not a whole number of picoseconds (333.5 MHz: 2998.5 ps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hertz: u64,
}

impl Clock {
    /// Makes a clock of `hertz` ticks a second, at least 1.
    ///
    /// # Panics
    /// When `hertz` is 0. Check frequencies from outside before the call.
    #[must_use]
    pub const fn from_hertz(hertz: u64) -> Clock {
        assert!(hertz > 0, "a clock that does not tick");
        Clock { hertz }
    }

    /// Ticks a second.
    #[must_use]
    pub const fn hertz(self) -> u64 {
        self.hertz
    }

    /// Returns the time at which tick `tick` begins.
    #[must_use]
    pub const fn at(self, tick: u64) -> Instant {
        Instant { ps: (tick as u128 * PS_PER_S / self.hertz as u128) as u64 }
    }

    /// Returns the first tick that does not begin before `moment`.
    #[must_use]
    pub const fn tick_from(self, moment: Instant) -> u64 {
        // floor(k * P / h) >= m  <=>  k * P / h >= m  <=>  k >= m * h / P, m being whole.
        (moment.ps as u128 * self.hertz as u128).div_ceil(PS_PER_S) as u64
    }

    /// Returns the length of the first `ticks` ticks of the clock; elsewhere it differs by at most
    /// 1 ps.
    #[must_use]
    pub const fn span(self, ticks: u64) -> Duration {
        Duration { ps: self.at(ticks).as_ps() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Instant};
    use proptest::prelude::*;

    #[test]
    fn a_clock_of_no_whole_picoseconds_has_no_error_after_a_second() {
        let clock = Clock::from_hertz(333_500_000);
        assert_eq!(clock.at(1).as_ps(), 2998);
        assert_eq!(clock.at(2).as_ps(), 5997);
        assert_eq!(clock.at(333_500_000).as_ps(), 1_000_000_000_000);
    }

    proptest! {
        #[test]
        fn a_tick_is_found_again_from_its_moment(
            hertz in 1_u64..4_000_000_000, tick in 0_u64..10_000_000_000,
        ) {
            let clock = Clock::from_hertz(hertz);
            prop_assume!(u128::from(tick) * 1_000_000_000_000 / u128::from(hertz) < 1 << 63);
            let moment = clock.at(tick);
            prop_assert_eq!(clock.tick_from(moment), tick);
            let after = clock.tick_from(Instant::from_ps(moment.as_ps() + 1));
            prop_assert_eq!(after, tick + 1);
        }
    }
}
