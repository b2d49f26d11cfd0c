//! A series of correlated values, stored as means of batches: finds the end of its start-up, and
//! the confidence interval of its mean.

use super::Moments;

/// Most batches that are kept; beyond them, neighbours are merged and batches become twice as long.
const BATCHES_MAX: usize = 1024;
/// Values of the shortest batch. Source: K. P. White, "An effective truncation heuristic for bias
/// reduction in simulation output", Simulation 69 (1997): MSER-5.
const BATCH_MIN: u64 = 5;
/// Batches used for a confidence interval. Source: B. Schmeiser, "Batch size effects in the
/// analysis of simulation output", Operations Research 30 (1982): 10 to 30 are enough.
const BATCHES_OF_INTERVAL: usize = 20;
/// Batches that are tested for correlation, for each batch of the interval; the largest correlation
/// of neighbours; and the least number of batches of an interval. Source of the procedure and of
/// the first two: A. Law, J. Carson, "A sequential procedure for determining the length of a
/// steady-state simulation", Operations Research 27 (1979): a correlation below 0.4 of fine batches
/// leaves almost none between batches ten times as long.
const FINE_BATCHES: usize = 10;
const CORRELATION_MAX: f64 = 0.4;
const BATCHES_LEAST: usize = 5;
/// Student's t for 95 % and 1 to 30 degrees of freedom. Source: any table of the distribution.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; infinite with too few values.
    pub half_width: f64,
    /// True if the batches passed the test for correlation; otherwise the interval is too narrow,
    /// and a longer run is needed.
    pub is_independent: bool,
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
        let (count, is_independent) = independent(kept);
        let groups = group(kept, count);
        let mut moments = Moments::default();
        groups.iter().for_each(|&mean| moments.add(mean));
        // Without a start-up, every value counts, also those that fill no batch.
        let mean = match first {
            0 => self.total.mean(),
            _ => kept.iter().sum::<f64>() / kept.len().max(1) as f64,
        };
        if moments.count() < 2 {
            return Estimate { mean, half_width: f64::INFINITY, is_independent: false };
        }
        let freedom = (moments.count() - 1) as usize;
        let student = T_95[freedom.min(T_95.len()) - 1];
        let error = (moments.variance() / moments.count() as f64).sqrt();
        Estimate { mean, half_width: student * error, is_independent }
    }
}

/// Returns the largest number of batches for an interval whose means are independent, and true; if
/// there is none, the least number, and false.
fn independent(batches: &[f64]) -> (usize, bool) {
    let mut count = BATCHES_OF_INTERVAL;
    loop {
        let fine = group(batches, count * FINE_BATCHES);
        if fine.len() == count * FINE_BATCHES && correlation(&fine) < CORRELATION_MAX {
            return (count, true);
        }
        if count / 2 < BATCHES_LEAST {
            return (count, false);
        }
        count /= 2;
    }
}

/// Returns the means of `count` groups of neighbours of equal size, or fewer if there are fewer
/// batches. Batches that do not fill a group are left out at the front, next to the start-up.
fn group(batches: &[f64], count: usize) -> Vec<f64> {
    let count = count.min(batches.len());
    let size = batches.len() / count.max(1);
    let groups = batches[batches.len() - count * size..].chunks(size.max(1));
    groups.map(|group| group.iter().sum::<f64>() / group.len() as f64).collect()
}

/// Returns the correlation of neighbours; 0 for equal values.
fn correlation(values: &[f64]) -> f64 {
    let mut moments = Moments::default();
    values.iter().for_each(|&value| moments.add(value));
    let squares = moments.variance() * (moments.count().max(1) - 1) as f64;
    let product = |pair: &[f64]| (pair[0] - moments.mean()) * (pair[1] - moments.mean());
    let products: f64 = values.windows(2).map(product).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
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
            held += usize::from((estimate.mean - 100.0).abs() <= estimate.half_width);
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
        assert!(series.estimate(0).half_width.is_infinite());
        assert_eq!(Series::default().estimate(3).mean, 0.0);
    }
}
