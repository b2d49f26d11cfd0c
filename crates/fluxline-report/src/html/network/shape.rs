//! The lines of links: straight beside each other, or two halves of a link around the border.

use crate::network::{Link, Network, Point};

/// User units of the drawing between neighbours.
pub const SPACING: f64 = 100.0;
/// The radius of a node.
pub const RADIUS: f64 = 17.0;
/// The distance between two lanes.
const LANE: f64 = 13.0;
/// The length of each half of a link around the border, from its node.
const STUB: f64 = 62.0;
/// The distance of a number from its line.
const ASIDE: f64 = 9.0;
/// The length and the half width of an arrow's head.
const HEAD: f64 = 10.0;
const HEAD_HALF: f64 = 5.0;

/// The lines of a link, and the place of its arrow.
pub struct Shape {
    /// The path, in the language of SVG.
    pub line: String,
    /// The triangle at its end.
    pub head: String,
    /// A point for its number.
    pub middle: Point,
}

/// Returns the position of a node in user units.
pub fn place(at: Point) -> Point {
    Point { x: at.x * SPACING, y: at.y * SPACING }
}

/// Returns the lines of a link.
pub fn of(network: &Network, link: &Link) -> Option<Shape> {
    let (from, to) = (network.nodes.get(link.from)?, network.nodes.get(link.to)?);
    let (from, to) = (place(from.at), place(to.at));
    Some(match link.wraps {
        None => straight(from, to, link.lane),
        Some(out) => around(from, to, unit(out), link.lane),
    })
}

fn straight(from: Point, to: Point, lane: f64) -> Shape {
    let along = unit(Point { x: to.x - from.x, y: to.y - from.y });
    let side = right_of(along, lane);
    let reach = edge(lane);
    let start = step(step(from, along, reach), side, 1.0);
    let tip = step(step(to, along, -reach), side, 1.0);
    let end = step(tip, along, -HEAD);
    let middle = Point { x: start.x * 0.62 + end.x * 0.38, y: start.y * 0.62 + end.y * 0.38 };
    let middle = aside(middle, along);
    Shape { line: line(start, end), head: head(tip, along), middle }
}

/// Draws the first half from the start to the border, and the second from the border to the end.
fn around(from: Point, to: Point, out: Point, lane: f64) -> Shape {
    let side = right_of(out, lane);
    let (start, border) = (step(from, out, edge(lane)), step(from, out, STUB));
    let (start, border) = (step(start, side, 1.0), step(border, side, 1.0));
    let tip = step(step(to, out, -edge(lane)), side, 1.0);
    let (end, far) = (step(tip, out, -HEAD), step(step(to, out, -STUB), side, 1.0));
    let middle = aside(step(step(from, out, STUB - 8.0), side, 1.0), out);
    let line = format!("{} {}", line(start, border), line(far, end));
    Shape { line, head: head(tip, out), middle }
}

/// Returns the distance from the middle of a node to its edge at a lane.
fn edge(lane: f64) -> f64 {
    (RADIUS * RADIUS - (lane * LANE).powi(2)).max(9.0).sqrt() + 1.0
}

fn unit(of: Point) -> Point {
    let length = of.x.hypot(of.y);
    if length == 0.0 { Point { x: 1.0, y: 0.0 } } else { step(Point::default(), of, 1.0 / length) }
}

/// Returns the way from a line to a lane at its right.
fn right_of(along: Point, lane: f64) -> Point {
    Point { x: -along.y * lane * LANE, y: along.x * lane * LANE }
}

fn step(from: Point, along: Point, length: f64) -> Point {
    Point { x: from.x + along.x * length, y: from.y + along.y * length }
}

/// Returns a point to the right of a line.
fn aside(of: Point, along: Point) -> Point {
    step(of, Point { x: -along.y, y: along.x }, ASIDE)
}

fn line(from: Point, to: Point) -> String {
    format!("M{:.1} {:.1}L{:.1} {:.1}", from.x, from.y, to.x, to.y)
}

fn head(tip: Point, along: Point) -> String {
    let back = step(tip, along, -HEAD);
    let left = step(back, Point { x: along.y, y: -along.x }, HEAD_HALF);
    let right = step(back, Point { x: -along.y, y: along.x }, HEAD_HALF);
    let [tip, left, right] = [tip, left, right].map(|of| format!("{:.1} {:.1}", of.x, of.y));
    format!("M{tip}L{left}L{right}Z")
}
