//! Bins of numbers.

/// Bins of equal width, or of equal ratio.
///
/// Bin `i` has the numbers from edge `i` to below edge `i + 1`. The edges decide, not a quotient:
/// a count by the edges of plots.json is the same to the last packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// One more than there are bins.
    edges: Vec<f64>,
}

/// The place of a number on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Below the first edge.
    Below,
    /// In this bin.
    In(usize),
    /// At the last edge or above it.
    Above,
    /// Not a number.
    Nowhere,
}

impl Axis {
    /// Makes an axis of a checked range.
    #[must_use]
    pub fn new([low, high]: [f64; 2], bins: u32, log: bool) -> Axis {
        let all = f64::from(bins);
        let edge = |number: u32| match log {
            _ if number == bins => high,
            false => low + f64::from(number) * ((high - low) / all),
            true => low * (high / low).powf(f64::from(number) / all),
        };
        Axis { low, high, log, edges: (0..=bins).map(edge).collect() }
    }

    /// Returns its number of bins.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns the edges of its bins.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// Returns the place of a number.
    #[inline]
    #[must_use]
    pub fn place(&self, value: f64) -> Place {
        if value < self.low {
            return Place::Below;
        }
        if value >= self.high {
            return Place::Above;
        }
        if value.is_nan() {
            return Place::Nowhere;
        }
        let share = match self.log {
            false => (value - self.low) / (self.high - self.low),
            true => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        let bins = self.bins();
        let mut at = ((share * bins as f64) as usize).min(bins - 1);
        while value < self.edges[at] {
            at -= 1;
        }
        while value >= self.edges[at + 1] {
            at += 1;
        }
        Place::In(at)
    }
}
