//! Chooses between writes through the page cache and past it: both are tried, the faster one is
//! used.
//!
//! The cost of a byte is remembered for each way. The slower way is tried again now and then, since
//! a busy disk becomes free, and a free page cache becomes full. Costs are averaged, not rates: one
//! stall then weighs as much as it delayed. Time comes from the caller's clock: this crate has
//! none.

use fluxline_core::Moment;
use serde::{Deserialize, Serialize};

/// The way of recorded bytes to the file.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// The faster way, measured during the run. Needs a clock ([`super::Recorder::measure_with`]);
    /// without one, as `Buffered`.
    #[default]
    Auto,
    /// Large messages past the page cache, where the file system allows it: a steady rate, and the
    /// memory is left to others.
    Direct,
    /// Through the page cache: absorbs bursts beyond the disk's rate.
    Buffered,
}

/// The way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ThroughCache,
    PastCache,
}

/// Messages after which the way that is not in use is tried again.
const TRY_EVERY: u32 = 32;
/// Weight of the newest cost against the remembered one.
const NEWEST_SHARE: f64 = 0.5;

/// Chooses the way of each message.
#[derive(Debug)]
pub(super) struct Ways {
    mode: WriteMode,
    clock: Option<fn() -> Moment>,
    messages: u32,
    /// Costs through and past the cache \[ns/byte\].
    costs: [Option<f64>; 2],
}

impl Ways {
    pub fn new(mode: WriteMode) -> Ways {
        Ways { mode, clock: None, messages: 0, costs: [None; 2] }
    }

    /// Sets a clock to measure with.
    pub fn measure_with(&mut self, clock: fn() -> Moment) {
        self.clock = Some(clock);
    }

    /// Returns true when direct writes may be wanted.
    pub fn may_go_past_cache(&self) -> bool {
        self.mode == WriteMode::Direct || (self.mode == WriteMode::Auto && self.clock.is_some())
    }

    /// Writes a message of `bytes` the way that is due, and remembers its cost.
    pub fn timed<T>(&mut self, bytes: usize, write: impl FnOnce(Way) -> T) -> T {
        let way = self.choose();
        let Some(clock) = self.clock else { return write(way) };
        let began = clock();
        let result = write(way);
        let cost = clock().since(began).as_ns() as f64 / bytes.max(1) as f64;
        let known = &mut self.costs[way as usize];
        *known = Some(known.map_or(cost, |old| old + (cost - old) * NEWEST_SHARE));
        self.messages = self.messages.wrapping_add(1);
        result
    }

    fn choose(&self) -> Way {
        match (self.mode, self.costs) {
            (WriteMode::Direct, _) | (WriteMode::Auto, [Some(_), None]) => Way::PastCache,
            (WriteMode::Auto, [Some(through), Some(past)]) => {
                let other_is_due = self.messages.is_multiple_of(TRY_EVERY);
                if (past < through) != other_is_due { Way::PastCache } else { Way::ThroughCache }
            }
            _ => Way::ThroughCache,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use fluxline_core::{Moment, Span};

    use super::{Way, Ways, WriteMode};

    thread_local! {
        static NOW_NS: Cell<u64> = const { Cell::new(1) };
    }

    fn now() -> Moment {
        Moment::from_ns(NOW_NS.get())
    }

    /// Writes 1000 messages, each way with its time per message \[ns\]; returns the number of those
    /// written past the cache.
    fn past_cache_of_1000(ways: &mut Ways, through_ns: u64, past_ns: u64) -> u32 {
        let mut past = 0;
        for _ in 0..1000 {
            ways.timed(4096, |way| {
                let span = if way == Way::PastCache { past_ns } else { through_ns };
                past += u32::from(way == Way::PastCache);
                NOW_NS.set((now() + Span::from_ns(span)).as_ns());
            });
        }
        past
    }

    #[test]
    fn the_faster_way_is_used_and_the_other_is_not_forgotten() {
        let mut ways = Ways::new(WriteMode::Auto);
        ways.measure_with(now);
        assert!(ways.may_go_past_cache());
        let past = past_cache_of_1000(&mut ways, 1000, 3000);
        assert!((2..60).contains(&past), "{past}");
        // The page cache is full now: writes through it wait for the disk.
        let past = past_cache_of_1000(&mut ways, 9000, 3000);
        assert!(past > 940, "{past}");
    }

    #[test]
    fn without_a_clock_nothing_is_guessed() {
        let mut ways = Ways::new(WriteMode::Auto);
        assert!(!ways.may_go_past_cache());
        assert_eq!(past_cache_of_1000(&mut ways, 9000, 1), 0);
        assert_eq!(past_cache_of_1000(&mut Ways::new(WriteMode::Direct), 1, 9000), 1000);
    }
}
