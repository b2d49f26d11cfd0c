//! Figures: curves of a model, with the numbers that a paper gives for them.

use super::fact::Fact;

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

/// A fact that is a point of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The position on the horizontal axis.
    pub x: f64,
    /// The fact.
    pub fact: &'static Fact,
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
    /// The paper's numbers that are points of it.
    pub points: Vec<Point>,
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
    /// Returns the paper's numbers, by x; a range gives both its ends.
    #[must_use]
    pub fn published(&self) -> Vec<(f64, f64)> {
        let ends = |point: &Point| {
            let range = &point.fact.published;
            [(point.x, *range.start()), (point.x, *range.end())]
        };
        let mut points: Vec<(f64, f64)> = self.points.iter().flat_map(ends).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        points.dedup();
        points
    }
}

/// Makes the points of a figure from positions \[B\] and facts.
pub(super) fn points<const N: usize>(points: [(u32, &'static Fact); N]) -> Vec<Point> {
    points.map(|(x, fact)| Point { x: f64::from(x), fact }).to_vec()
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
