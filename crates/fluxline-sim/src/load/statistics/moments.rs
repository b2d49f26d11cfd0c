//! Running mean and variance.

/// Running mean and variance, without stored values and without numerical cancellation.
///
/// Source: B. P. Welford, "Note on a method for calculating corrected sums of squares and
/// products", Technometrics 4 (1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squared differences from the mean.
    squares: f64,
}

impl Moments {
    /// Adds one value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the sample variance; 0 for fewer than two values.
    #[must_use]
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::Moments;

    #[test]
    fn a_large_offset_does_not_eat_the_variance() {
        let mut moments = Moments::default();
        [4.0, 7.0, 13.0, 16.0].iter().for_each(|value| moments.add(1e9 + value));
        assert!((moments.mean() - 1e9 - 10.0).abs() < 1e-6);
        assert!((moments.variance() - 30.0).abs() < 1e-6, "{}", moments.variance());
    }

    #[test]
    fn one_value_has_no_variance() {
        let mut moments = Moments::default();
        moments.add(5.0);
        assert_eq!((moments.mean(), moments.variance()), (5.0, 0.0));
    }
}
