//! Counts of event building in the measured time.

use crate::load::statistics::Histogram;
use crate::{Duration, Instant};

/// A number that changes in steps, with its greatest value and its mean over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    now: u64,
    most: u64,
    /// Sum of value times ps until `changed`.
    area: f64,
    changed: Instant,
}

impl Level {
    /// Adds a number, or takes it away.
    pub(super) fn change(&mut self, by: i64, at: Instant) {
        self.area += self.now as f64 * at.since(self.changed).as_ps() as f64;
        self.changed = at;
        self.now = self.now.checked_add_signed(by).expect("no more is taken than was added");
        self.most = self.most.max(self.now);
    }

    /// Starts to measure.
    pub(super) fn reset(&mut self, at: Instant) {
        *self = Level { now: self.now, most: self.now, area: 0.0, changed: at };
    }

    /// Returns the greatest value.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the mean over a time that ends now.
    #[must_use]
    pub fn mean(&self, measured: Duration, now: Instant) -> f64 {
        let area = self.area + self.now as f64 * now.since(self.changed).as_ps() as f64;
        area / measured.as_ps().max(1) as f64
    }
}

/// Events since the measurement began.
#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    /// Events of which every fragment has arrived.
    pub built: u64,
    /// Events that their builder gave up, because a fragment had not arrived in time.
    pub incomplete: u64,
    /// Triggers that were refused, because too many events waited.
    pub vetoed: u64,
    /// Fragments that arrived after their event was given up.
    pub late: u64,
    /// Payload of the events that were built \[bytes\].
    pub bytes: u64,
    /// Times from the trigger to the last fragment of the events that were built.
    pub latency: Histogram,
    /// Fragments that were triggered and have not arrived.
    pub waiting: Level,
    /// Bytes of open events in each builder.
    pub memory: Vec<Level>,
}

impl EventCounts {
    /// Forgets all events; the levels stay.
    pub(super) fn reset(&mut self, now: Instant) {
        let (mut waiting, mut memory) = (self.waiting, std::mem::take(&mut self.memory));
        waiting.reset(now);
        memory.iter_mut().for_each(|level| level.reset(now));
        *self = EventCounts { waiting, memory, ..EventCounts::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Level};

    #[test]
    fn the_mean_of_a_level_is_over_time_and_a_reset_keeps_the_level() {
        let at = |ns: u64| Instant::from_ps(ns * 1000);
        let mut level = Level::default();
        level.change(4, at(10));
        level.change(-1, at(20));
        // 10 ns of 0, 10 of 4, 20 of 3.
        assert_eq!(level.mean(Duration::from_ns(40), at(40)), 2.5);
        level.reset(at(40));
        level.change(-3, at(50));
        assert_eq!((level.most(), level.mean(Duration::from_ns(20), at(60))), (3, 1.5));
    }
}
