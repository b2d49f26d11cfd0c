//! Positions of nodes and links in the drawing: grids as grids, rings as circles, switches with
//! their ringlets as petals, other graphs by the number of links between nodes.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use super::circle::{circle, on_circle};
use super::{Way, stress};
use crate::core::interconnect::LinkUse;
use crate::scenario::{Kind, Scenario};

/// The drawing of all nodes and links.
pub struct Layout {
    pub places: Vec<Way>,
    pub links: Vec<Drawn>,
}

/// The drawing of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drawn {
    /// The distance to the right of the straight line; 0: on it.
    pub lane: f64,
    /// The direction in which it leaves the drawing.
    pub wraps: Option<Way>,
}

/// Returns the drawing of a network.
pub fn of(scenario: &Scenario, links: &[LinkUse]) -> Layout {
    let nodes = scenario.network.node_count() as usize;
    let last = links.iter().map(|link| link.from.max(link.to) as usize + 1).max();
    let count = nodes.max(last.unwrap_or(0));
    let part = &scenario.network;
    let sides = if part.kind.is_grid() { part.sides() } else { Vec::new() };
    let places = match part.kind {
        _ if !sides.is_empty() => grid(&sides),
        Kind::SciSwitch => petals(&part.ringlets()),
        Kind::Ring | Kind::SciRing | Kind::AtollRing | Kind::AtollFull => circle(count),
        Kind::Ethernet => star(nodes),
        _ => stress::places(count, links),
    };
    let mut drawn = lanes(links);
    if !sides.is_empty() {
        for (link, drawn) in links.iter().zip(&mut drawn) {
            drawn.wraps = wrap(&sides, link);
        }
    }
    Layout { places, links: drawn }
}

/// Returns nodes on a circle around their switch.
fn star(nodes: usize) -> Vec<Way> {
    let radius = (nodes as f64 / TAU).max(1.3);
    let node = |at: usize| on_circle(radius, at as f64 / nodes as f64);
    (0..nodes).map(node).chain([Way::default()]).collect()
}

/// Returns nodes of ringlets that meet in a switch at the origin: each ringlet is a petal, which
/// has half of the angle up to the next one.
fn petals(ringlets: &[u32]) -> Vec<Way> {
    let count = ringlets.len() as f64;
    let most = f64::from(ringlets.iter().copied().max().unwrap_or(1));
    let inner = (TAU / 2.0 / (most + 1.0)).sin();
    // Neighbours in a petal, and the innermost nodes of two petals, are 1 apart.
    let length = (0.5 * (most + 1.0)).max(2.0 * count / TAU / inner);
    let mut places = Vec::new();
    for (petal, &nodes) in ringlets.iter().enumerate() {
        for node in 1..=nodes {
            let along = TAU / 2.0 * f64::from(node) / f64::from(nodes + 1);
            let turn = (petal as f64 - 0.25 * along.cos()) / count;
            places.push(on_circle(length * along.sin(), turn));
        }
    }
    places.push(Way::default());
    places
}

/// Returns the nodes of a grid: columns and rows, a third dimension slanted behind them, and more
/// dimensions as copies beside and below each other.
fn grid(sides: &[u32]) -> Vec<Way> {
    let steps = grid_steps(sides);
    let count: u32 = sides.iter().product();
    let place = |node: u32| {
        let (mut rest, mut at) = (node, Way::default());
        for (&side, step) in sides.iter().zip(&steps) {
            let here = f64::from(rest % side);
            (at.x, at.y) = (at.x + here * step.x, at.y + here * step.y);
            rest /= side;
        }
        at
    };
    (0..count).map(place).collect()
}

/// Returns the way from a node to the next one along each dimension.
fn grid_steps(sides: &[u32]) -> Vec<Way> {
    let depth = f64::from(sides.get(2).copied().unwrap_or(1));
    // Planes behind each other: the farther apart in a plane, the more of them.
    let (slant, spread) = match depth as u32 {
        1 => (0.0, 1.0),
        _ => (0.55, 0.55 * depth + 0.35),
    };
    let mut steps = vec![Way { x: spread, y: 0.0 }, Way { x: 0.0, y: spread }];
    steps.push(Way { x: slant, y: -slant });
    let mut width = Way {
        x: spread * f64::from(sides[0]) + slant * depth + 0.6,
        y: spread * f64::from(sides.get(1).copied().unwrap_or(1)) + slant * depth + 0.6,
    };
    for (at, &side) in sides.iter().enumerate().skip(3) {
        let is_right = at % 2 == 1;
        steps.push(if is_right { Way { x: width.x, y: 0.0 } } else { Way { x: 0.0, y: width.y } });
        if is_right {
            width.x *= f64::from(side);
        } else {
            width.y *= f64::from(side);
        }
    }
    steps.truncate(sides.len());
    steps
}

/// Returns the direction in which a link between the ends of a row leaves the drawing.
fn wrap(sides: &[u32], link: &LinkUse) -> Option<Way> {
    let (mut from, mut to) = (link.from, link.to);
    for (&side, step) in sides.iter().zip(grid_steps(sides)) {
        let (here, there) = (from % side, to % side);
        if side > 2 && here.abs_diff(there) == side - 1 {
            let sign = if here > there { 1.0 } else { -1.0 };
            return Some(Way { x: sign * step.x, y: sign * step.y });
        }
        (from, to) = (from / side, to / side);
    }
    None
}

/// Returns lanes for links between the same nodes; a link without company has the middle.
fn lanes(links: &[LinkUse]) -> Vec<Drawn> {
    let mut count: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    for link in links {
        *count.entry([link.from, link.to]).or_default() += 1;
    }
    let mut used: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    let lane = |link: &LinkUse| {
        let is_alone =
            count[&[link.from, link.to]] == 1 && !count.contains_key(&[link.to, link.from]);
        let used = used.entry([link.from, link.to]).or_default();
        *used += 1;
        Drawn { lane: if is_alone { 0.0 } else { f64::from(*used) - 0.5 }, wraps: None }
    };
    links.iter().map(lane).collect()
}
