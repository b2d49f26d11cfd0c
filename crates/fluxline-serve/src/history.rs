//! Values over time, decimated by minimum and maximum: a peak of one tick is seen at every zoom.
//!
//! Level 0 has one value a tick; each value of a higher level has the least and the greatest of
//! [`FAN`] values of the level below. A query takes the finest level that fits the wanted number of
//! points, so its cost depends on that number and not on the time shown. The newest
//! [`LEVEL_VALUES_MAX`] values of each level are kept: at ten ticks a second an hour of ticks, and
//! months of the coarsest level.

use std::collections::VecDeque;

/// Values of a level that become one of the next.
const FAN: usize = 8;
/// Values kept of a level.
const LEVEL_VALUES_MAX: usize = 36_000;
/// Number of levels.
const LEVELS: usize = 6;

/// The least and the greatest of the values of a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Extent {
    fn of(value: f64) -> Extent {
        Extent { least: value, greatest: value }
    }

    fn with(self, other: Extent) -> Extent {
        Extent { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }
}

/// A part of a series, evenly spaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The tick of the first value.
    pub first: u64,
    /// Ticks from value to value.
    pub step: u64,
    /// The values.
    pub values: Vec<Extent>,
}

/// Values over time, one a tick.
#[derive(Clone, Debug)]
pub struct Series {
    /// Number of values so far.
    ticks: u64,
    levels: Vec<VecDeque<Extent>>,
}

impl Default for Series {
    fn default() -> Series {
        Series { ticks: 0, levels: vec![VecDeque::new(); LEVELS] }
    }
}

impl Series {
    /// Adds the value of the next tick.
    pub fn push(&mut self, value: f64) {
        self.ticks += 1;
        let mut next = Some(Extent::of(value));
        let mut ticks = self.ticks;
        for level in 0..LEVELS {
            let Some(extent) = next else { break };
            let values = &mut self.levels[level];
            values.push_back(extent);
            let full = ticks.is_multiple_of(FAN as u64);
            ticks /= FAN as u64;
            let newest = values.iter().rev().take(FAN).copied();
            next = if full { newest.reduce(Extent::with) } else { None };
            if values.len() > LEVEL_VALUES_MAX {
                values.pop_front();
            }
        }
    }

    /// Returns the number of values so far.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns the values from tick `from` to before tick `to`, at most about `points` of them.
    ///
    /// Values that are no longer kept at the level are left out. Values of the newest ticks that do
    /// not fill one of a higher level yet are left out too.
    pub fn part(&self, from: u64, to: u64, points: usize) -> Part {
        let (to, points) = (to.min(self.ticks), points.max(1) as u64);
        let wanted = to.saturating_sub(from);
        let mut level = 0;
        let mut step = 1;
        while level + 1 < LEVELS && (wanted / step > points || !self.keeps(level, step, from)) {
            level += 1;
            step *= FAN as u64;
        }
        let values = &self.levels[level];
        let made = self.ticks / step;
        let oldest = made - values.len() as u64;
        let first = (from / step).clamp(oldest, made);
        let last = to.div_ceil(step).clamp(first, made);
        let range = (first - oldest) as usize..(last - oldest) as usize;
        Part { first: first * step, step, values: values.range(range).copied().collect() }
    }

    /// Returns true when a level still has the value of tick `from`.
    fn keeps(&self, level: usize, step: u64, from: u64) -> bool {
        let oldest = self.ticks / step - self.levels[level].len() as u64;
        from / step >= oldest
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::{Draw, test_seed};

    use super::*;

    /// The least and greatest of each step, computed from all values.
    fn obvious(all: &[f64], part: &Part) -> Vec<Extent> {
        let step = part.step as usize;
        let of = |at: usize| {
            let first = part.first as usize + at * step;
            let values = all[first..first + step].iter().copied().map(Extent::of);
            values.reduce(Extent::with).unwrap()
        };
        (0..part.values.len()).map(of).collect()
    }

    #[test]
    fn every_part_has_the_extremes_of_its_ticks() {
        let mut random = Draw::new(test_seed!(16));
        let (mut series, mut all) = (Series::default(), Vec::new());
        for _ in 0..20_000 {
            let value = f64::from(random.below(1_000_000) as u32);
            series.push(value);
            all.push(value);
        }
        for _ in 0..500 {
            let from = random.below(20_000);
            let to = from + random.below(20_001 - from);
            let points = 1 + random.below(2_000) as usize;
            let part = series.part(from, to, points);
            assert_eq!(part.values, obvious(&all, &part), "{from}..{to} by {points}");
            assert!(part.first <= from && from - part.first < part.step.max(1));
            let most = points.max(((to - from) / (8 * 8 * 8 * 8 * 8)) as usize) + 2;
            assert!(part.values.len() <= most, "{} > {most}", part.values.len());
        }
    }

    #[test]
    fn a_long_series_keeps_its_beginning_in_coarse_steps() {
        let mut series = Series::default();
        let ticks = 400_000;
        for tick in 0..ticks {
            series.push(if tick == 17 { 1e9 } else { tick as f64 });
        }
        let part = series.part(0, ticks, 1_000);
        assert!(part.values[0].greatest >= 1e9, "the peak of one tick is seen");
        let newest = series.part(ticks - 100, ticks, 1_000);
        assert_eq!((newest.step, newest.values.len()), (1, 100));
        assert!(series.levels.iter().all(|level| level.len() <= LEVEL_VALUES_MAX));
        assert_eq!(Series::default().part(0, 10, 5).values, []);
    }

    #[test]
    fn a_part_behind_the_newest_tick_is_empty_at_every_level() {
        let mut series = Series::default();
        for ticks in 0..5_000 {
            let beyond = [0, 1, ticks / 2, ticks, ticks + 1, ticks + 7, 1_000_000, u64::MAX];
            if ticks % 97 < 10 {
                for (from, to) in beyond.into_iter().flat_map(|from| beyond.map(|to| (from, to))) {
                    for points in [0, 1, 1_000, usize::MAX] {
                        let part = series.part(from, to, points);
                        assert!(from < ticks || part.values.is_empty(), "{from}..{to} of {ticks}");
                    }
                }
            }
            series.push(ticks as f64);
        }
    }
}
