//! Published experiments, run on models of their machines: the papers' results compared with the
//! models'.
//!
//! A fact that a model misses is shown as missed. A fact is marked *calibrated* if a constant was
//! chosen to match it: its agreement proves nothing.

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

/// Returns all figures, in the order of the papers.
///
/// # Errors
/// [`BadStand`]: a preset is invalid (a defect).
pub fn all() -> Result<Vec<Figure>, BadStand> {
    let mut figures = scinet::stand_a::figures()?;
    figures.extend(scinet::stand_b::figures()?);
    figures.extend(trams::figures()?);
    Ok(figures)
}
