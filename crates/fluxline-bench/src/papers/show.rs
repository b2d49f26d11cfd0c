//! Series, facts and trials in the few shapes that these experiments share.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::environment::Environment;
use crate::result::{Axis, Point, Series, axis};
use crate::role::TrialKind;
use crate::statistics::median;

/// Samples, one per round, by size, number or degree.
pub type Samples = BTreeMap<u64, Vec<f64>>;

/// Blocks by size.
pub const BLOCK: Axis<'static> = axis("block", "B");

/// The longest block of any trial \[byte\]: roles keep one in memory of their own. Chosen: far
/// above the largest that any experiment takes.
pub const BYTES_MAX: u64 = 1 << 28;

/// Makes a curve of samples.
pub fn series(label: &str, x: Axis<'_>, y: Axis<'_>, samples: &Samples) -> Series {
    let point = |(x, samples): (&u64, &Vec<f64>)| Point { x: *x as f64, samples: samples.clone() };
    Series::new(label, x, y, samples.iter().map(point).collect())
}

/// Returns the median, or NaN.
pub fn middle(samples: &[f64]) -> f64 {
    median(samples).unwrap_or(f64::NAN)
}

/// Finds the x with the largest median, and its samples.
pub fn largest(samples: &Samples) -> Option<(u64, &Vec<f64>)> {
    let by_middle = |one: &(&u64, &Vec<f64>), other: &(&u64, &Vec<f64>)| {
        middle(one.1).total_cmp(&middle(other.1))
    };
    samples.iter().max_by(by_middle).map(|(x, samples)| (*x, samples))
}

/// Finds the smallest x whose median is at least `least`.
pub fn reached_at(samples: &Samples, least: f64) -> Option<u64> {
    samples.iter().find(|(_, samples)| middle(samples) >= least).map(|(x, _)| *x)
}

/// Powers of two, each `factor` times the one before, within the bounds.
pub fn powers(least: u64, most: u64, factor: u64) -> Vec<u64> {
    std::iter::successors(Some(least), |size| size.checked_mul(factor))
        .take_while(|size| *size <= most)
        .collect()
}

/// Runs a trial with typed parameters and outcomes. Errors: the trial's, or no outcome.
pub fn trial<N: DeserializeOwned>(
    environment: &mut dyn Environment,
    kind: &TrialKind,
    task: &impl Serialize,
) -> Result<(N, Value), Error> {
    let parameters = serde_json::to_value(task).unwrap_or_default();
    let [near, far] = environment.trial(kind, &parameters)?;
    Ok((typed(near)?, far))
}

/// Reads an outcome. Errors: another shape.
pub fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value)
        .map_err(|error| Error::Garbled { what: format!("no result ({error})") })
}

/// Reads the parameters of a trial; `what` names it. Errors: another shape.
pub fn task<T: DeserializeOwned>(parameters: &Value, what: &str) -> Result<T, Error> {
    serde_json::from_value(parameters.clone())
        .map_err(|error| Error::Input(format!("{what}: {error}")))
}
