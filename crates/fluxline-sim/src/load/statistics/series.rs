//! A series of correlated values, stored as means of batches: finds the end of its start-up, and
//! the confidence interval of its mean.

use super::Moments;
use super::interval::{Sides, sides};

/// Most batches that are kept; beyond them, neighbours are merged and batches become twice as long.
const BATCHES_MAX: usize = 1024;
/// Values of the shortest batch. Source: K. P. White, "An effective truncation heuristic for bias
/// reduction in simulation output", Simulation 69 (1997): MSER-5.
const BATCH_MIN: u64 = 5;
/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The lower end of the interval; minus infinity with too few values.
    pub low: f64,
    /// The upper end of the interval; infinite with too few values. Above a skewed mean it is
    /// further away than the lower end.
    pub high: f64,
    /// True if the batches passed the test for correlation; otherwise the interval is too narrow,
    /// and a longer run is needed.
    pub is_independent: bool,
}

impl Estimate {
    /// Returns half the width of the interval; infinite with too few values.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Returns true if a value is in the interval.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Means of batches of equal length, at most 1024 (8 KiB).
#[derive(Clone, Debug)]
pub struct Series {
    batches: Vec<f64>,
    /// Values of a batch.
    length: u64,
    /// Sum and number of the values of the batch that is not full.
    sum: f64,
    pending: u64,
    total: Moments,
}

impl Default for Series {
    fn default() -> Series {
        Series {
            batches: Vec::with_capacity(BATCHES_MAX),
            length: BATCH_MIN,
            sum: 0.0,
            pending: 0,
            total: Moments::default(),
        }
    }
}

impl Series {
    /// Adds the next value.
    pub fn add(&mut self, value: f64) {
        self.total.add(value);
        self.sum += value;
        self.pending += 1;
        if self.pending == self.length {
            self.batches.push(self.sum / self.length as f64);
            (self.sum, self.pending) = (0.0, 0);
            if self.batches.len() == BATCHES_MAX {
                self.join();
            }
        }
    }

    fn join(&mut self) {
        let pairs = self.batches.chunks_exact(2);
        let joined: Vec<f64> = pairs.map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        self.batches.clear();
        self.batches.extend(joined);
        self.length *= 2;
    }

    /// Returns mean and variance of all values.
    #[must_use]
    pub fn moments(&self) -> Moments {
        self.total
    }

    /// Returns the number of first values that belong to the start-up (MSER): leaving them out
    /// minimizes the standard error of the mean of the others. `None` if that leaves out more than
    /// half, because the start-up is not over, or if there are fewer than ten batches.
    #[must_use]
    pub fn start(&self) -> Option<u64> {
        let count = self.batches.len();
        if count < 10 {
            return None;
        }
        let mut rest = Moments::default();
        let mut best = (f64::INFINITY, count);
        for (cut, &batch) in self.batches.iter().enumerate().rev() {
            rest.add(batch);
            let left = count - cut;
            let error = rest.variance() * (left - 1) as f64 / (left * left) as f64;
            // The last few batches can agree by chance; White excludes the last five.
            if left >= 5 && error <= best.0 {
                best = (error, cut);
            }
        }
        (best.1 <= count / 2).then_some(best.1 as u64 * self.length)
    }

    /// Returns the mean without the first `skipped` values, rounded up to whole batches, with its
    /// interval by batch means.
    #[must_use]
    pub fn estimate(&self, skipped: u64) -> Estimate {
        let first = (skipped.div_ceil(self.length) as usize).min(self.batches.len());
        let kept = &self.batches[first..];
        // Without a start-up, every value counts, also those that fill no batch.
        let mean = match first {
            0 => self.total.mean(),
            _ => kept.iter().sum::<f64>() / kept.len().max(1) as f64,
        };
        match sides(kept) {
            Some(Sides { below, above, is_independent }) => {
                Estimate { mean, low: mean - below, high: mean + above, is_independent }
            }
            None => {
                let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                Estimate { mean, low, high, is_independent: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Series;
    use fluxline_core::random::Draw;

    /// Returns a value with correlation 0.9 to its predecessor and mean 100, as in queues.
    fn queue_like(draw: &mut Draw, previous: f64) -> f64 {
        let noise = draw.below(2_000_001) as f64 / 1e6 - 1.0;
        100.0 + 0.9 * (previous - 100.0) + noise
    }

    #[test]
    fn a_start_far_from_the_rest_is_found_and_nothing_else() {
        let mut draw = Draw::new(11);
        let mut series = Series::default();
        (0..500).for_each(|index| series.add(f64::from(index) / 5.0));
        let mut value = 100.0;
        for _ in 0..20_000 {
            value = queue_like(&mut draw, value);
            series.add(value);
        }
        let start = series.start().expect("the start is over");
        assert!((400..1_000).contains(&start), "{start}");
    }

    #[test]
    fn a_ramp_without_end_has_no_end_of_its_start() {
        let mut series = Series::default();
        (0..10_000).for_each(|index| series.add(f64::from(index)));
        assert_eq!(series.start(), None);
    }

    #[test]
    fn the_interval_holds_the_true_mean_about_as_often_as_it_says() {
        let mut held = 0;
        for seed in 0..200 {
            let (mut draw, mut series, mut value) = (Draw::new(seed), Series::default(), 100.0);
            for _ in 0..8_000 {
                value = queue_like(&mut draw, value);
                series.add(value);
            }
            let estimate = series.estimate(0);
            held += usize::from(estimate.holds(100.0));
        }
        // 190 are expected; a correct interval gives fewer than 178 in one of a thousand tests.
        assert!((178..=200).contains(&held), "{held} of 200");
    }

    #[test]
    fn joined_batches_keep_the_mean_and_the_memory() {
        let mut series = Series::default();
        (0..1_000_000).for_each(|index| series.add(f64::from(index % 1000)));
        assert!(series.batches.len() < super::BATCHES_MAX);
        let estimate = series.estimate(0);
        assert!((estimate.mean - 499.5).abs() < 1.0, "{estimate:?}");
        assert!((series.moments().mean() - 499.5).abs() < 1e-6);
    }

    #[test]
    fn too_few_values_make_no_interval() {
        let mut series = Series::default();
        (0..7).for_each(|_| series.add(1.0));
        assert!(series.estimate(0).half_width().is_infinite());
        assert_eq!(Series::default().estimate(3).mean, 0.0);
    }
}
