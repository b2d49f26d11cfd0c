//! Figures: curves of a model, compared with the statements of a paper.

use std::ops::RangeInclusive;

/// Largest deviation at which a number counts as reproduced.
pub const TOLERANCE: f64 = 0.10;

/// An axis of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// The quantity.
    pub label: &'static str,
    /// The unit of the quantity.
    pub unit: &'static str,
    /// True if it is logarithmic.
    pub log: bool,
}

/// A line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name.
    pub name: String,
    /// (x, y), by x.
    pub points: Vec<(f64, f64)>,
}

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number: it holds within [`TOLERANCE`] of the paper's range.
    Number,
    /// The shape of a curve: the fact's text defines when it holds.
    Shape,
}

/// A statement of the paper, with the model's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The statement, with its unit.
    pub text: &'static str,
    /// The paper's number, as a range.
    pub paper: RangeInclusive<f64>,
    /// The model's number.
    pub model: f64,
    /// The deviation from the paper's range, as a fraction of the nearer end.
    pub deviation: f64,
    /// The kind of statement.
    pub kind: Kind,
    /// True if the model agrees.
    pub holds: bool,
    /// True if a constant of the model was chosen to match it.
    pub calibrated: bool,
    /// The fact's position on the figure's horizontal axis, if the fact is a point of the figure.
    pub x: Option<f64>,
}

/// A published figure, reproduced by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A short name: `scinet-7`.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves of the model.
    pub curves: Vec<Curve>,
    /// The paper's statements about it.
    pub facts: Vec<Fact>,
}

impl Fact {
    /// Makes a fact that is a number.
    #[must_use]
    pub fn number(text: &'static str, paper: RangeInclusive<f64>, model: f64) -> Fact {
        let deviation = deviation(&paper, model);
        let holds = deviation.abs() <= TOLERANCE;
        let kind = Kind::Number;
        Fact { text, paper, model, deviation, kind, holds, calibrated: false, x: None }
    }

    /// Makes a fact that is a shape: the text names the number that decides, and `paper` is its
    /// range.
    #[must_use]
    pub fn shape(text: &'static str, paper: RangeInclusive<f64>, model: f64) -> Fact {
        let holds = paper.contains(&model);
        let deviation = deviation(&paper, model);
        let kind = Kind::Shape;
        Fact { text, paper, model, deviation, kind, holds, calibrated: false, x: None }
    }

    /// Marks the fact as one that a constant was chosen to match.
    #[must_use]
    pub fn calibrated(self) -> Fact {
        Fact { calibrated: true, ..self }
    }

    /// Marks the fact as a point of the figure at `x`.
    #[must_use]
    pub fn at(self, x: u32) -> Fact {
        Fact { x: Some(f64::from(x)), ..self }
    }
}

/// Returns the deviation from a range, as a fraction of the nearer end; inside: 0.
fn deviation(paper: &RangeInclusive<f64>, model: f64) -> f64 {
    let near = model.clamp(*paper.start(), *paper.end());
    if near == 0.0 { model } else { (model - near) / near }
}

impl Curve {
    /// Returns the value at `x`; 0 if the curve has no such point.
    #[must_use]
    pub fn at(&self, x: u32) -> f64 {
        let found = self.points.iter().find(|point| point.0 == f64::from(x));
        found.map_or(0.0, |point| point.1)
    }

    /// Returns the largest value.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Returns the first x whose value is at least `part` of the largest.
    #[must_use]
    pub fn first_at(&self, part: f64) -> f64 {
        let enough = part * self.most();
        self.points.iter().find(|point| point.1 >= enough).map_or(0.0, |point| point.0)
    }
}

impl Figure {
    /// Returns the paper's numbers that are points of the figure, by x; a range gives both its
    /// ends.
    #[must_use]
    pub fn published(&self) -> Vec<(f64, f64)> {
        let of = |fact: &Fact| fact.x.map(|x| [(x, *fact.paper.start()), (x, *fact.paper.end())]);
        let mut points: Vec<(f64, f64)> = self.facts.iter().filter_map(of).flatten().collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        points.dedup();
        points
    }
}

/// Returns a logarithmic axis of block sizes.
pub(super) const fn bytes_axis() -> Axis {
    Axis { label: "block size", unit: "B", log: true }
}

/// Returns an axis of throughput.
pub(super) const fn rate_axis() -> Axis {
    Axis { label: "throughput", unit: "MB/s", log: false }
}

/// Returns an axis of time.
pub(super) const fn time_axis(log: bool) -> Axis {
    Axis { label: "time", unit: "us", log }
}
