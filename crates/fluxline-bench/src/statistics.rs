//! Medians, spread, and the comparison of two results.
//!
//! Samples on a shared machine have a long tail on one side, and there are few of them. So: no
//! means, no normal distribution. Spread is the interquartile range. The interval of a median
//! comes from order statistics. Two results differ if the exact rank-sum test says so *and* the
//! medians are further apart than the noise of either.
//! Source: Mann and Whitney 1947, for the test; its distribution is counted out here.

mod median;

/// The smallest difference that counts, as a share. Medians of one binary, run twice on a shared
/// machine, differ by less. Assumed: measured on one machine only.
pub const NOISE_LEAST: f64 = 0.02;
/// The share of equal results that may be reported as different.
pub const ERROR_SHARE: f64 = 0.05;
/// More samples of one result than this are thinned before they are ranked.
const RANKED_MAX: usize = 60;

/// The median and spread of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// A quarter lies below.
    pub low: f64,
    /// A quarter lies above.
    pub high: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// The number of samples.
    pub count: usize,
}

impl Summary {
    /// Summarizes samples; samples that are not finite do not count. `None`: none is left.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let sorted = sorted(samples);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        Some(Summary {
            median: quantile(&sorted, 0.5),
            low: quantile(&sorted, 0.25),
            high: quantile(&sorted, 0.75),
            least,
            most,
            count: sorted.len(),
        })
    }

    /// Returns half the interquartile range as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() }
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|one| one.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A quantile of sorted samples, between two of them in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let position = part * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

/// Returns the value that a share of the samples does not exceed; `None` without samples.
#[must_use]
pub fn percentile(samples: &[f64], part: f64) -> Option<f64> {
    let sorted = sorted(samples);
    (!sorted.is_empty()).then(|| quantile(&sorted, part))
}

/// Returns the median; `None`: there is no sample.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    Some(median::median(samples)).filter(|median| median.is_finite())
}

/// The direction in which a number is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less: a latency.
    Lower,
    /// More: a rate.
    Higher,
}

impl Better {
    /// By the unit of a number: times, shares and sizes at which something is reached are better
    /// when low, rates when high.
    #[must_use]
    pub fn by_unit(unit: &str) -> Better {
        let lower = ["ns", "us", "ms", "s", "B", "%", "% of a core", "s/GB", "ppm"];
        if lower.contains(&unit) { Better::Lower } else { Better::Higher }
    }
}

/// The verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They do not differ beyond the noise.
    Same,
    /// The second is better.
    Better,
    /// The second is worse.
    Worse,
    /// Too few samples to say.
    Unknown,
}

impl Verdict {
    /// Returns the verdict in a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Better => "faster",
            Verdict::Worse => "slower",
            Verdict::Unknown => "too few samples",
        }
    }
}

/// Compares two results. Cost: a few thousand additions.
#[must_use]
pub fn compare(before: &[f64], after: &[f64], better: Better) -> Verdict {
    let (Some(one), Some(other)) = (Summary::of(before), Summary::of(after)) else {
        return Verdict::Unknown;
    };
    let noise = NOISE_LEAST.max(one.spread()).max(other.spread());
    let change = (other.median - one.median) / one.median.abs().max(f64::MIN_POSITIVE);
    if change.abs() <= noise {
        return Verdict::Same;
    }
    match rank_sum(before, after) {
        None => Verdict::Unknown,
        Some(chance) if chance > ERROR_SHARE => Verdict::Same,
        Some(_) if (change < 0.0) == (better == Better::Lower) => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

/// Returns the probability that equal results are ranked as unevenly as these (two-sided, exact
/// without ties; ties count half). `None`: too few samples for any order to be uneven enough.
#[must_use]
pub fn rank_sum(before: &[f64], after: &[f64]) -> Option<f64> {
    let (before, after) = (thinned(sorted(before)), thinned(sorted(after)));
    let ways = ways(before.len(), after.len());
    let all: f64 = ways.iter().sum();
    if 2.0 * ways[0] / all > ERROR_SHARE {
        return None;
    }
    // How many pairs are in order; of equal ones half.
    let in_order: f64 = before
        .iter()
        .flat_map(|one| after.iter().map(move |other| one.total_cmp(other)))
        .map(|order| match order {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        })
        .sum();
    let pairs = (before.len() * after.len()) as f64;
    let least = in_order.min(pairs - in_order).ceil() as usize;
    let tail: f64 = ways[..=least.min(ways.len() - 1)].iter().sum();
    Some((2.0 * tail / all).min(1.0))
}

/// Evenly fewer of many.
fn thinned(sorted: Vec<f64>) -> Vec<f64> {
    if sorted.len() <= RANKED_MAX {
        return sorted;
    }
    let index = |number: usize| number * (sorted.len() - 1) / (RANKED_MAX - 1);
    (0..RANKED_MAX).map(|number| sorted[index(number)]).collect()
}

/// Counts the orders of `few` and `many` things by the number of pairs in order: the coefficients
/// of the Gaussian binomial.
fn ways(few: usize, many: usize) -> Vec<f64> {
    let mut ways = vec![0.0; few * many + 1];
    ways[0] = 1.0;
    for step in 1..=few {
        // Times (1 - x^(many + step)), divided by (1 - x^step).
        for index in (many + step..ways.len()).rev() {
            ways[index] -= ways[index - many - step];
        }
        for index in step..ways.len() {
            ways[index] += ways[index - step];
        }
    }
    ways
}

#[cfg(test)]
mod tests;
