//! Fairness of shares.

/// The fairness of a quantity over nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fairness {
    /// The least share.
    pub min: f64,
    /// The largest share.
    pub max: f64,
    /// Jain's index: 1 when all are equal, 1/n when one of n has everything. Source: R. Jain,
    /// D. Chiu, W. Hawe, DEC TR-301 (1984).
    pub jain: f64,
}

impl Fairness {
    /// Returns the fairness of these shares; an empty list and a list of zeros count as fair.
    #[must_use]
    pub fn of(shares: &[f64]) -> Fairness {
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let jain = if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 };
        let max = shares.iter().copied().fold(0.0, f64::max);
        Fairness { min: shares.iter().copied().fold(f64::INFINITY, f64::min).min(max), max, jain }
    }

    /// Returns the largest share divided by the least; infinite if the least is zero.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.max == self.min { 1.0 } else { self.max / self.min }
    }
}

#[cfg(test)]
mod tests {
    use super::Fairness;

    #[test]
    fn one_that_takes_everything_is_seen() {
        let unfair = Fairness::of(&[8.0, 0.0, 0.0, 0.0]);
        assert_eq!((unfair.jain, unfair.ratio()), (0.25, f64::INFINITY));
        let fair = Fairness::of(&[3.0; 5]);
        assert!((fair.jain - 1.0).abs() < 1e-12 && fair.ratio() == 1.0);
        assert_eq!(Fairness::of(&[]).jain, 1.0);
        assert_eq!(Fairness::of(&[0.0, 0.0]).ratio(), 1.0);
    }
}
