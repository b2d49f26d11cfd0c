//! The distrust of links that change again and again.
//!
//! Source of the idea: the skeptics of Autonet (T. Rodeheffer, M. Schroeder, 1991). Each further
//! failure doubles the time for which a link must stay up before it is used; quiet times halve it.

use crate::{Duration, Instant};

/// The distrust of one link.
#[derive(Clone, Copy, Debug)]
pub struct Skeptic {
    least: Duration,
    most: Duration,
    hold: Duration,
    changed_at: Instant,
}

impl Skeptic {
    /// Begins with the shortest hold.
    #[must_use]
    pub fn new(least: Duration, most: Duration) -> Skeptic {
        let most = most.max(least);
        Skeptic { least, most, hold: least, changed_at: Instant::START }
    }

    /// Notes that the link went down: distrust grows if it was up for a short time only.
    pub fn went_down(&mut self, now: Instant) {
        let quiet = now.since(self.changed_at);
        self.changed_at = now;
        if quiet < self.hold.times(8) {
            self.hold = self.hold.times(2).min(self.most);
            return;
        }
        let mut left = quiet;
        while left >= self.hold.times(8) && self.hold > self.least {
            left = left - self.hold.times(8);
            self.hold = Duration::from_ps(self.hold.as_ps() / 2).max(self.least);
        }
    }

    /// Notes that the link came up; returns the time for which it must stay so.
    pub fn came_up(&mut self, now: Instant) -> Duration {
        self.changed_at = now;
        self.hold
    }

    /// Returns the rest of the time for which the link must stay up.
    #[must_use]
    pub fn hold_left(&self, now: Instant) -> Duration {
        (self.changed_at + self.hold).since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::Skeptic;
    use crate::{Duration, Instant};

    #[test]
    fn a_flapping_link_waits_longer_each_time_and_a_quiet_one_is_trusted_again() {
        let us = Duration::from_us;
        let mut skeptic = Skeptic::new(us(500), us(4_000));
        let mut now = Instant::START + us(1_000_000);
        let mut holds = Vec::new();
        for _ in 0..6 {
            skeptic.went_down(now);
            now += us(10);
            holds.push(skeptic.came_up(now));
            now += us(10);
        }
        assert_eq!(holds, [us(500), us(1000), us(2000), us(4000), us(4000), us(4000)]);
        now += us(10_000_000);
        skeptic.went_down(now);
        assert_eq!(skeptic.came_up(now), us(500));
    }
}
