//! The times at which a paced sender's batches are due. Pure: time is an argument.

/// A sender that was held up catches up by at most this time \[ns\]: one or two time slices of
/// Linux's scheduler. Catching up is a burst, and a
/// burst is harder to receive than an even rate: the result is at worst too low. (assumed)
const CATCH_UP_NS: u64 = 10_000_000;

/// Equal batches at equal distances.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Distance of two batches \[ps\]: 20 minutes fit 2^50.
    period_ps: u64,
    /// The time at which the next one is due \[ps\].
    due_ps: u64,
    late_most_ns: u64,
}

impl Schedule {
    /// `batch` datagrams at a time, `rate` \[1/s\] of them in all; the first is due at 0.
    ///
    /// A rate of 0 or less means no limit.
    #[must_use]
    pub fn new(rate: f64, batch: usize) -> Schedule {
        let limited = rate.is_finite() && rate > 0.0;
        let period_ps = if limited { (batch as f64 * 1e12 / rate).round() as u64 } else { 0 };
        Schedule { period_ps, due_ps: 0, late_most_ns: 0 }
    }

    /// Returns true if a batch is due `now_ns` after the start; it then counts as sent.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let due_ns = self.due_ps / 1_000;
        let Some(late_ns) = now_ns.checked_sub(due_ns) else { return false };
        if self.period_ps == 0 {
            return true;
        }
        self.late_most_ns = self.late_most_ns.max(late_ns);
        let forgiven_ns = late_ns.saturating_sub(CATCH_UP_NS);
        let forgiven_ps = forgiven_ns.saturating_mul(1_000);
        self.due_ps = self.due_ps.saturating_add(self.period_ps).saturating_add(forgiven_ps);
        true
    }

    /// The latest that a batch was sent after it was due \[ns\].
    #[must_use]
    pub fn late_most_ns(&self) -> u64 {
        self.late_most_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of batches taken at these times.
    fn taken(schedule: &mut Schedule, times: impl Iterator<Item = u64>) -> u64 {
        times.map(|now| u64::from(schedule.take(now))).sum()
    }

    #[test]
    fn a_sender_that_is_on_time_keeps_its_rate_to_the_datagram() {
        for (rate, batch) in [(1e6, 16), (333_333.0, 7), (3.0, 1), (20e6, 64)] {
            let mut schedule = Schedule::new(rate, batch);
            let seconds = 2_u64;
            let batches = taken(&mut schedule, (0..seconds * 10_000_000).map(|tick| tick * 100));
            let expected = rate * seconds as f64 / batch as f64;
            assert!((batches as f64 - expected).abs() <= 1.0, "{rate}: {batches} of {expected}");
        }
    }

    #[test]
    fn a_short_hold_up_is_made_good_and_a_long_one_is_not() {
        for (pause_ns, lost_ns) in [(9_000_000, 0), (25_000_000, 15_000_000)] {
            let mut schedule = Schedule::new(1e6, 1);
            let before = taken(&mut schedule, (0..1_000_000).step_by(100));
            let after = 1_000_000 + pause_ns;
            let made_good = taken(&mut schedule, (after..after + 20_000_000).step_by(100));
            let due = (after + 20_000_000 - lost_ns) / 1_000;
            assert!((before + made_good).abs_diff(due) <= 1, "{pause_ns}");
            assert!(schedule.late_most_ns().abs_diff(pause_ns) <= 1_000);
        }
    }

    #[test]
    fn no_rate_is_no_limit_and_extremes_do_not_wrap() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut schedule = Schedule::new(rate, 5);
            assert!((0..100).all(|_| schedule.take(7)));
        }
        let mut slow = Schedule::new(1e-9, 64);
        assert!(slow.take(0) && !slow.take(u64::MAX / 2_000_000));
        let mut held_up = Schedule::new(1e6, 1);
        assert!(held_up.take(u64::MAX) && held_up.late_most_ns() == u64::MAX);
    }
}
