//! The load at which a model saturates.

use std::ops::RangeInclusive;

use super::Outcome;

/// The criterion of saturation: one of the two is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Smallest accepted part of the offered load. The usual choice is 0.95.
    pub accepted_min: f64,
    /// Largest mean latency \[ns\]: a multiple of that without load.
    pub latency_max_ns: f64,
}

impl Criterion {
    /// Returns the usual criterion: less than 95 % of the load accepted, or a latency above
    /// `factor` times that without load \[ns\].
    #[must_use]
    pub fn usual(factor: f64, zero_load_ns: f64) -> Criterion {
        Criterion { accepted_min: 0.95, latency_max_ns: factor * zero_load_ns }
    }

    /// Returns true if a point is saturated.
    #[must_use]
    pub fn is_met(&self, outcome: &Outcome) -> bool {
        outcome.accepted_bytes_per_s < self.accepted_min * outcome.offered_bytes_per_s
            || outcome.latency_ns.mean > self.latency_max_ns
    }
}

/// The two loads between which a model saturates.
#[derive(Clone, Debug)]
pub struct Saturation {
    /// The highest load that the model followed; the lower end of the search if it followed none.
    pub followed: f64,
    /// The lowest load that it did not follow; the upper end of the search if it followed all.
    pub saturated: f64,
    /// Every point that was measured, in the order of the search.
    pub points: Vec<(f64, Outcome)>,
}

/// Searches by bisection between two loads, in the unit of `measure`, until they differ by at most
/// `resolution`: at most 1 + log2((high - low) / resolution) measurements, and never more than 64.
/// Assumes that a model that follows a load also follows all lower ones.
///
/// # Errors
/// The first error that `measure` returns.
pub fn saturation<E>(
    loads: RangeInclusive<f64>,
    resolution: f64,
    criterion: Criterion,
    mut measure: impl FnMut(f64) -> Result<Outcome, E>,
) -> Result<Saturation, E> {
    let (low, high) = loads.into_inner();
    let mut found = Saturation { followed: low, saturated: high, points: Vec::new() };
    let first = measure(high)?;
    let is_followed = !criterion.is_met(&first);
    found.points.push((high, first));
    if is_followed {
        found.followed = high;
        return Ok(found);
    }
    while found.saturated - found.followed > resolution && found.points.len() < 64 {
        let load = f64::midpoint(found.followed, found.saturated);
        let outcome = measure(load)?;
        if criterion.is_met(&outcome) {
            found.saturated = load;
        } else {
            found.followed = load;
        }
        found.points.push((load, outcome));
    }
    Ok(found)
}
