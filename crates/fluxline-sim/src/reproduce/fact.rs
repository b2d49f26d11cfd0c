//! Facts: statements of papers as data, joined with a model's numbers.

use std::ops::RangeInclusive;

/// Largest deviation at which a number counts as reproduced.
pub const NUMBER: f64 = 0.10;
/// Tolerance of a shape or a bound: the model's number is within the published range.
pub const SHAPE: f64 = 0.0;

/// A statement of a source, as a number.
#[derive(Debug, PartialEq)]
pub struct Fact {
    /// A name, unique in its set.
    pub id: &'static str,
    /// The name of its source.
    pub source: &'static str,
    /// The position in the source.
    pub place: &'static str,
    /// The statement; a shape names the number that decides.
    pub statement: &'static str,
    /// The unit; empty for a ratio.
    pub unit: &'static str,
    /// The published range; a single number has two equal ends.
    pub published: RangeInclusive<f64>,
    /// Largest deviation from the range, as a fraction of its nearer end.
    pub tolerance: f64,
}

/// A fact with the model's number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The fact.
    pub fact: &'static Fact,
    /// The model's number.
    pub model: f64,
}

impl Fact {
    /// Joins the model's number to the fact.
    #[must_use]
    pub fn model(&'static self, model: f64) -> Finding {
        Finding { fact: self, model }
    }

    /// Returns true for a shape or a bound.
    #[must_use]
    pub fn is_shape(&self) -> bool {
        self.tolerance == SHAPE
    }

    /// Returns the value that is farthest from the published range.
    #[must_use]
    pub fn worst(&self, values: impl IntoIterator<Item = f64>) -> f64 {
        let far = |value: &f64| self.deviation(*value).abs();
        let values = values.into_iter();
        values.max_by(|one, other| far(one).total_cmp(&far(other))).unwrap_or(f64::NAN)
    }

    /// Returns the deviation from the published range, as a fraction of its nearer end; inside: 0.
    fn deviation(&self, model: f64) -> f64 {
        let near = model.clamp(*self.published.start(), *self.published.end());
        if near == 0.0 { model } else { (model - near) / near }
    }
}

impl Finding {
    /// Returns the deviation from the published range, as a fraction of its nearer end.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.fact.deviation(self.model)
    }

    /// Returns true if the model agrees with the source.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.deviation().abs() <= self.fact.tolerance
    }
}
