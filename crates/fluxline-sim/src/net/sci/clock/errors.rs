//! Statistics of a clock's errors.

use crate::load::statistics::Moments;

/// Errors of one node's global time, in fixed memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    moments: Moments,
    largest_ps: u128,
}

impl Errors {
    /// Adds a sample: positive when the node was ahead \[ps\].
    pub fn add(&mut self, ahead_ps: i128) {
        self.moments.add(ahead_ps as f64);
        self.largest_ps = self.largest_ps.max(ahead_ps.unsigned_abs());
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// Returns the mean error \[ps\]; 0 without samples.
    #[must_use]
    pub fn mean_ps(&self) -> f64 {
        self.moments.mean()
    }

    /// Returns the standard deviation \[ps\]; 0 for fewer than two samples.
    #[must_use]
    pub fn deviation_ps(&self) -> f64 {
        self.moments.variance().sqrt()
    }

    /// Returns the largest absolute error \[ps\].
    #[must_use]
    pub fn largest_ps(&self) -> u128 {
        self.largest_ps
    }
}
