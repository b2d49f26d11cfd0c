//! The published experiments, run on models of their machines: what the papers say beside what the
//! models say.
//!
//! A fact that a model misses is shown as missed. A constant that was chosen from a fact makes that
//! fact *calibrated*: that it holds proves nothing, and the fact says so.

mod figure;
mod page;
pub mod pair;
pub mod scinet;
#[cfg(test)]
mod tests;
pub mod trams;
pub mod validation;
pub mod wire;

use pair::BadStand;

pub use figure::{Axis, Curve, Fact, Figure, Kind, TOLERANCE};
pub use page::page;

/// All figures, in the order of the papers.
///
/// # Errors
/// [`BadStand`]: a preset cannot be (a defect).
pub fn all() -> Result<Vec<Figure>, BadStand> {
    let mut figures = scinet::stand_a::figures()?;
    figures.extend(scinet::stand_b::figures()?);
    figures.extend(trams::figures()?);
    Ok(figures)
}
