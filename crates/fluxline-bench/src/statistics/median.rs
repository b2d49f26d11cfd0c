//! The median. A file that imports nothing of ours: the `cargo bench` programs of every crate
//! include it by `#[path]`, and need no crate of statistics.

use std::borrow::Borrow;

/// Returns the median of some numbers; of an even count the mean of the middle two. NaN: none of
/// them is finite.
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.retain(|value| value.is_finite());
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count.is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}
