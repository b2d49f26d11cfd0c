//! The legend of a drawing: the colour scale and the signs that occur in it.

use std::fmt::Write as _;

use super::super::escape::escape;
use super::super::heat::STEPS;
use crate::network::Network;
use crate::number::digits;

/// The height of the legend in user units, without its lines of signs.
pub const HEIGHT: f64 = 34.0;
/// The distance from the drawing.
pub const GAP: f64 = 10.0;
/// The height of a line of signs.
pub const LINE: f64 = 22.0;
/// The least width of a drawing with a legend.
pub const WIDTH: f64 = 420.0;

/// Returns the signs that a drawing needs.
fn signs(network: &Network) -> Vec<[&'static str; 2]> {
    let states = &network.states;
    let mut signs = Vec::new();
    if !network.path.is_empty() {
        signs.push(["path", "the route"]);
    }
    if states.iter().any(|state| !state.dead_links.is_empty()) {
        signs.push(["dead", "a dead link"]);
    }
    if states.iter().any(|state| !state.circle.is_empty()) {
        signs.push(["circle", "links that wait for each other: a deadlock"]);
    }
    signs
}

/// Returns the height of the whole legend.
pub fn height(network: &Network) -> f64 {
    GAP + HEIGHT + LINE * signs(network).len() as f64
}

/// Writes the legend with its upper left corner at a point.
pub fn push(out: &mut String, network: &Network, x: f64, y: f64) {
    let high = network.high();
    let (box_width, text_y) = (14.0, y + 11.0);
    let _ = write!(out, "<g class=\"legend\"><text x=\"{x:.1}\" y=\"{text_y:.1}\">0</text>");
    let first = x + 14.0;
    for step in 0..STEPS {
        let left = first + box_width * step as f64;
        let _ = write!(
            out,
            "<rect class=\"m{step}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{box_width}\" \
             height=\"14\"/>"
        );
    }
    let (end, text) = (first + box_width * STEPS as f64 + 6.0, digits(high, 3));
    let unit = escape(&network.unit);
    let _ = write!(out, "<text x=\"{end:.1}\" y=\"{text_y:.1}\">{text} {unit}</text>");
    for (index, [class, text]) in signs(network).into_iter().enumerate() {
        let middle = y + HEIGHT + LINE * index as f64;
        let (left, right, base) = (x + 8.0, x + 58.0, middle + 4.0);
        let line = format!("M{left:.1} {middle:.1}L{right:.1} {middle:.1}");
        let _ = write!(
            out,
            "<g class=\"m8 {class}\"><path class=\"under\" d=\"{line}\"/><path class=\"line\" \
             d=\"{line}\"/></g><text x=\"{:.1}\" y=\"{base:.1}\">{text}</text>",
            x + 74.0
        );
    }
    out.push_str("</g>\n");
}
