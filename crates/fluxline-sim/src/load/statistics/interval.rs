//! The interval of 95 % confidence of the mean of a correlated, skewed series.
//!
//! Means of long batches are almost independent, so Student's t gives an interval. Latencies are
//! skewed: a run with few long waits has both a low mean and a low variance, so a symmetric
//! interval lies too low. Willink's interval bends the two sides by the skewness.

use super::Moments;

/// Batches used for a confidence interval. Source: B. Schmeiser, "Batch size effects in the
/// analysis of simulation output", Operations Research 30 (1982): 10 to 30 are enough.
const BATCHES: usize = 20;
/// Batches that are tested for correlation, for each batch of the interval, and the least number of
/// batches of an interval. Source: A. Law, J. Carson, "A sequential procedure for determining the
/// length of a steady-state simulation", Operations Research 27 (1979): if fine batches have a low
/// correlation, batches ten times as long have almost none.
const FINE_BATCHES: usize = 10;
const BATCHES_LEAST: usize = 5;
/// The largest correlation of neighbours among fine batches. Law and Carson take 0.4; with it, nine
/// of ten intervals of an Ethernet switch at 0.6 held the truth (`tools/campaign.sh intervals`).
const CORRELATION_MAX: f64 = 0.2;
/// Student's t for 95 % and 1 to 19 degrees of freedom. Source: any table of the distribution.
const T_95: [f64; BATCHES - 1] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
];

/// The sides of an interval, as distances from the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sides {
    pub below: f64,
    pub above: f64,
    /// True if the batches passed the test for correlation.
    pub is_independent: bool,
}

/// Returns the sides of the interval of the mean of some batches; `None`: there are fewer than two.
pub(super) fn sides(batches: &[f64]) -> Option<Sides> {
    let (count, is_independent) = independent(batches);
    let groups = group(batches, count);
    let moments = moments(&groups);
    if groups.len() < 2 {
        return None;
    }
    let number = groups.len() as f64;
    let error = (moments.variance() / number).sqrt();
    let student = T_95[groups.len() - 2];
    // Batches of ten independent ones have the skewness of one over the square root of ten.
    let skewness = skewness(&group(batches, count * FINE_BATCHES)) / (FINE_BATCHES as f64).sqrt();
    let bend = skewness / (6.0 * number.sqrt());
    let (below, above) = (bent(student, bend) * error, -bent(-student, bend) * error);
    Some(Sides { below, above, is_independent })
}

/// Returns a quantile of Student's t, bent for the skewness.
///
/// Source: R. Willink, "A confidence interval and test for the mean of an asymmetric distribution",
/// Communications in Statistics 34 (2005), which inverts the statistic of N. Johnson, "Modified t
/// tests and confidence intervals for asymmetrical populations", Journal of the American
/// Statistical Association 73 (1978).
fn bent(student: f64, bend: f64) -> f64 {
    // The limit of the formula; far below this, its numerator has no digits left.
    if bend.abs() < 1e-6 {
        return student;
    }
    ((1.0 + 6.0 * bend * (student - bend)).cbrt() - 1.0) / (2.0 * bend)
}

/// Returns the largest number of batches for an interval whose means seem independent, or the least
/// number; and true if these are all batches. Fewer are too few to be sure of it.
fn independent(batches: &[f64]) -> (usize, bool) {
    let mut count = BATCHES;
    loop {
        let fine = group(batches, count * FINE_BATCHES);
        if fine.len() == count * FINE_BATCHES && correlation(&fine) < CORRELATION_MAX {
            return (count, count == BATCHES);
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
    let moments = moments(values);
    let squares = moments.variance() * (moments.count().max(1) - 1) as f64;
    let product = |pair: &[f64]| (pair[0] - moments.mean()) * (pair[1] - moments.mean());
    let products: f64 = values.windows(2).map(product).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Returns the skewness, without the bias of a small sample; 0 for equal or fewer than three
/// values.
fn skewness(values: &[f64]) -> f64 {
    let (moments, number) = (moments(values), values.len() as f64);
    if values.len() < 3 || moments.variance() <= 0.0 {
        return 0.0;
    }
    let cubes: f64 = values.iter().map(|value| (value - moments.mean()).powi(3)).sum();
    number / ((number - 1.0) * (number - 2.0)) * cubes / moments.variance().powf(1.5)
}

fn moments(values: &[f64]) -> Moments {
    let mut moments = Moments::default();
    values.iter().for_each(|&value| moments.add(value));
    moments
}

#[cfg(test)]
mod tests {
    use super::{Moments, bent, sides, skewness};
    use fluxline_core::random::Draw;

    #[test]
    fn without_skewness_the_sides_are_equal() {
        // 200 batches: +1 and -1 in a row of four, so that neighbours have no correlation.
        let batches: Vec<f64> = (0..200).map(|at| [1.0, 1.0, -1.0, -1.0][at % 4]).collect();
        let sides = sides(&batches).expect("an interval");
        assert!(sides.is_independent);
        // Means of ten: 0.2 and -0.2 in turn; t of 19 is 2.093.
        let expected = 2.093 * (0.04 * 20.0 / 19.0 / 20.0_f64).sqrt();
        assert!((sides.below - expected).abs() < 1e-9, "{sides:?} {expected}");
        assert!((sides.above - expected).abs() < 1e-9, "{sides:?} {expected}");
    }

    #[test]
    fn skewness_of_a_sample_by_hand() {
        // Mean 2, squares 22, cubes 4^3 - 2^3 - 1 - 1 + 0 = 54; s^2 = 5.5.
        let by_hand = 5.0 / (4.0 * 3.0) * 54.0 / 5.5_f64.powf(1.5);
        assert!((skewness(&[6.0, 0.0, 1.0, 1.0, 2.0]) - by_hand).abs() < 1e-12);
        assert_eq!(skewness(&[1.0, 1.0, 1.0]), 0.0);
    }

    #[test]
    fn a_long_tail_above_moves_the_interval_up() {
        // (cbrt(1 + 6 x 0.02 x 2.073) - 1) / 0.04, and with -2.113.
        assert!((bent(2.093, 0.02) - 1.921_5).abs() < 1e-3, "{}", bent(2.093, 0.02));
        assert!((bent(-2.093, 0.02) + 2.322_0).abs() < 1e-3, "{}", bent(-2.093, 0.02));
    }

    /// Exponential values, 200 a sample: the textbook case of a skewed mean.
    #[test]
    fn misses_of_a_skewed_series_lie_on_both_sides() {
        let (mut low, mut high, mut low_without) = (0, 0, 0);
        for seed in 0..2_000 {
            let mut draw = Draw::new(seed);
            let exponential = |_| -((draw.bits() >> 11) as f64 + 1.0).ln() + 53.0 * 2_f64.ln();
            let batches: Vec<f64> = (0..200).map(exponential).collect();
            let mut moments = Moments::default();
            batches.iter().for_each(|&value| moments.add(value));
            let sides = sides(&batches).expect("an interval");
            low += u32::from(moments.mean() + sides.above < 1.0);
            high += u32::from(moments.mean() - sides.below > 1.0);
            low_without += u32::from(moments.mean() + (sides.above + sides.below) / 2.0 < 1.0);
        }
        // 100 are expected in all; 70 and 130 are three standard deviations away.
        assert!((70..130).contains(&(low + high)), "{low} low, {high} high");
        assert!(low < 75 && high < 75 && low < low_without, "{low} {high} {low_without}");
    }
}
