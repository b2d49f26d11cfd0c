//! Positions on a circle.

use std::f64::consts::TAU;

use super::Way;

/// Returns places on a circle, whose neighbours are 1 apart or a little more.
pub fn circle(count: usize) -> Vec<Way> {
    let radius = (count as f64 / TAU).max(0.6) * 1.1;
    let place = |at: usize| on_circle(radius, at as f64 / count as f64);
    (0..count).map(place).collect()
}

/// Returns a place on a circle around the origin; 0 is at the top, and it goes clockwise.
pub fn on_circle(radius: f64, turn: f64) -> Way {
    Way { x: radius * (turn * TAU).sin(), y: -radius * (turn * TAU).cos() }
}
