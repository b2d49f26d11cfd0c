//! How far a clock was off.

use crate::statistics::Moments;

/// Errors of one node's global time, in fixed memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    moments: Moments,
    largest_ps: u128,
}

impl Errors {
    /// Takes in one: positive when the node was ahead \[ps\].
    pub fn add(&mut self, ahead_ps: i128) {
        self.moments.add(ahead_ps as f64);
        self.largest_ps = self.largest_ps.max(ahead_ps.unsigned_abs());
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// Their mean \[ps\]; 0 without errors.
    #[must_use]
    pub fn mean_ps(&self) -> f64 {
        self.moments.mean()
    }

    /// Their standard deviation \[ps\]; 0 for fewer than two.
    #[must_use]
    pub fn deviation_ps(&self) -> f64 {
        self.moments.variance().sqrt()
    }

    /// The largest, whichever way \[ps\].
    #[must_use]
    pub fn largest_ps(&self) -> u128 {
        self.largest_ps
    }
}
