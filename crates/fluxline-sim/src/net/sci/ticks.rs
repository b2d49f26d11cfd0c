//! The clock of the links: ticks as moments, and moments as ticks.

use crate::{Clock, Instant};

/// Ticks of a clock as moments, without a division where a tick is a whole number of picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    clock: Clock,
    whole_ps: Option<u64>,
}

impl Ticks {
    pub fn new(clock: Clock) -> Ticks {
        let ps_per_s = 1_000_000_000_000_u64;
        let whole = ps_per_s.is_multiple_of(clock.hertz());
        Ticks { clock, whole_ps: whole.then(|| ps_per_s / clock.hertz()) }
    }

    pub fn at(self, tick: u64) -> Instant {
        match self.whole_ps {
            Some(ps) => Instant::from_ps(tick * ps),
            None => self.clock.at(tick),
        }
    }

    /// The tick that is running at `now`.
    pub fn running(self, now: Instant) -> u64 {
        match self.whole_ps {
            Some(ps) => now.as_ps() / ps,
            None => self.clock.tick_from(Instant::from_ps(now.as_ps() + 1)) - 1,
        }
    }
}
