//! The clock of the links: ticks as moments, and moments as ticks.

use crate::{Clock, Instant};

/// Ticks of a clock as moments, without a division where a tick is a whole number of picoseconds,
/// and moments as ticks, with one division for all questions about the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    clock: Clock,
    whole_ps: Option<u64>,
    /// The moment of the last question.
    asked: Instant,
    /// The answer to it.
    tick: u64,
}

impl Ticks {
    pub fn new(clock: Clock) -> Ticks {
        let ps_per_s = 1_000_000_000_000_u64;
        let whole = ps_per_s.is_multiple_of(clock.hertz());
        let whole_ps = whole.then(|| ps_per_s / clock.hertz());
        Ticks { clock, whole_ps, asked: Instant::START, tick: 0 }
    }

    pub fn at(self, tick: u64) -> Instant {
        match self.whole_ps {
            Some(ps) => Instant::from_ps(tick * ps),
            None => self.clock.at(tick),
        }
    }

    /// Returns the tick that is running at `now`.
    #[inline]
    pub fn running(&mut self, now: Instant) -> u64 {
        if now != self.asked {
            (self.asked, self.tick) = (now, self.divide(now));
        }
        self.tick
    }

    fn divide(self, now: Instant) -> u64 {
        match self.whole_ps {
            Some(ps) => now.as_ps() / ps,
            None => self.clock.tick_from(Instant::from_ps(now.as_ps() + 1)) - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::Draw;

    use super::Ticks;
    use crate::{Clock, Instant};

    #[test]
    fn the_tick_of_a_moment_is_the_last_one_that_began_by_then() {
        // Of 2 ns; of 5998.8 ps; of 6 ns.
        for hertz in [500_000_000, 166_700_000, 166_666_667] {
            println!("seed 1, {hertz} Hz");
            let (mut draw, mut ticks) = (Draw::new(1), Ticks::new(Clock::from_hertz(hertz)));
            for _ in 0..10_000 {
                let tick = draw.below(1 << 40);
                let (begins, ends) = (ticks.at(tick), ticks.at(tick + 1).as_ps() - 1);
                for moment in [begins, begins, Instant::from_ps(ends), begins] {
                    assert_eq!(ticks.running(moment), tick, "{moment:?}");
                }
            }
        }
    }
}
