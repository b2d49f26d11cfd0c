//! A histogram that finds its range by itself.
//!
//! The width of a bin is a power of two. A value outside doubles it and joins the bins in pairs, so
//! memory is constant and no value is lost.

use serde_json::{Value, json};

/// Number of bins.
const BINS: usize = 128;
/// The narrowest bin.
const WIDTH_MIN: f64 = 1e-300;
/// Beyond this, a value is not counted: the range would not be finite.
const VALUE_MAX: f64 = 1e300;

/// Counts of values by size.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The start of the first bin, a multiple of the width.
    low: f64,
    /// The width of a bin; 0 before the first value.
    width: f64,
    counts: Vec<u64>,
    /// Values that are not finite or too large.
    skipped: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { low: 0.0, width: 0.0, counts: vec![0; BINS], skipped: 0 }
    }
}

impl Histogram {
    /// Adds values.
    pub fn add(&mut self, values: &[f64]) {
        let usable = |value: &f64| value.is_finite() && value.abs() <= VALUE_MAX;
        if self.width == 0.0 {
            let usable: Vec<f64> = values.iter().copied().filter(usable).collect();
            self.begin(&usable);
        }
        for value in values {
            if !usable(value) {
                self.skipped += 1;
                continue;
            }
            while !self.has(*value) {
                self.widen(*value);
            }
            // Exact, since the width is a power of two.
            let at = (value / self.width).floor() - self.low / self.width;
            self.counts[(at as usize).min(BINS - 1)] += 1;
        }
    }

    /// Chooses the range of the first values: bins of 1 for integers, narrower ones for others.
    fn begin(&mut self, values: &[f64]) {
        let Some(first) = values.first() else { return };
        let least = values.iter().copied().fold(*first, f64::min);
        let greatest = values.iter().copied().fold(*first, f64::max);
        let integers = values.iter().all(|value| value.fract() == 0.0);
        let wanted = (greatest - least) / (BINS - 2) as f64;
        let wanted = match (integers, wanted > 0.0) {
            (true, _) => wanted.max(1.0),
            (false, true) => wanted,
            (false, false) => (first.abs() / BINS as f64).max(WIDTH_MIN),
        };
        self.width = wanted.log2().ceil().exp2();
        self.low = (least / self.width).floor() * self.width;
    }

    fn has(&self, value: f64) -> bool {
        value >= self.low && value < self.low + self.width * BINS as f64
    }

    /// Doubles the width, towards the value.
    fn widen(&mut self, value: f64) {
        let wide = self.width * 2.0;
        let low = match value < self.low {
            true => ((self.low - self.width * BINS as f64) / wide).ceil() * wide,
            false => (self.low / wide).floor() * wide,
        };
        let shift = ((self.low - low) / self.width).round() as usize;
        let mut counts = vec![0; BINS];
        for (at, count) in self.counts.iter().enumerate() {
            counts[((at + shift) / 2).min(BINS - 1)] += count;
        }
        (self.low, self.width, self.counts) = (low, wide, counts);
    }

    /// Returns it as JSON, without empty bins at its ends.
    pub fn document(&self) -> Value {
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(0);
        let end = self.counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        json!({
            "low": self.low + first as f64 * self.width, "width": self.width,
            "counts": self.counts[first..end], "skipped": self.skipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::{Draw, test_seed};

    use super::*;

    #[test]
    fn every_value_is_in_the_bin_that_has_it_whatever_the_range_was_before() {
        let mut random = Draw::new(test_seed!(32));
        for round in 0..200 {
            let (mut histogram, mut all) = (Histogram::default(), Vec::new());
            for _ in 0..20 {
                let scale = 10f64.powi(random.below(20) as i32 - 10);
                let integers = round % 2 == 0;
                let mut draw = || {
                    let value = (random.below(2_000_001) as f64 - 1e6) * scale;
                    if integers { value.round() } else { value }
                };
                let values: Vec<f64> = (0..10).map(|_| draw()).collect();
                histogram.add(&values);
                all.extend(values);
            }
            let Histogram { low, width, counts, skipped } = &histogram;
            assert_eq!((counts.iter().sum::<u64>(), *skipped), (200, 0), "{histogram:?}");
            for (at, count) in counts.iter().enumerate() {
                let from = low + at as f64 * width;
                let inside = |value: &&f64| **value >= from && **value < from + width;
                assert_eq!(all.iter().filter(inside).count() as u64, *count, "bin {at}, {round}");
            }
        }
    }

    #[test]
    fn integers_have_bins_of_their_own_and_wild_values_are_counted_apart() {
        let mut histogram = Histogram::default();
        histogram.add(&[3.0, 4.0, 4.0, 7.0]);
        let document = histogram.document();
        assert_eq!((document["low"].as_f64(), document["width"].as_f64()), (Some(3.0), Some(1.0)));
        assert_eq!(document["counts"], json!([1, 2, 0, 0, 1]));
        histogram.add(&[f64::NAN, f64::INFINITY, f64::MAX, -f64::MAX]);
        assert_eq!(histogram.skipped, 4);
        histogram.add(&[1e300, -1e300, 5e-324]);
        assert_eq!(histogram.counts.iter().sum::<u64>(), 7);
        assert_eq!(Histogram::default().document()["counts"], json!([]));
    }
}
