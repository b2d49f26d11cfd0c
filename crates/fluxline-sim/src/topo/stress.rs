//! Positions of nodes whose distances in the drawing follow the number of links between them.
//!
//! Each node moves to the mean of the positions that the others suggest, near ones with more
//! weight. Source: E. Gansner, Y. Koren, S. North, "Graph Drawing by Stress Majorization", Graph
//! Drawing 2004. It begins with a circle, so equal graphs have equal drawings.

use std::collections::VecDeque;

use super::Way;
use super::circle::circle;
use crate::core::interconnect::LinkUse;

/// Rounds of all nodes. Assumed: later ones move nodes by less than a line's width.
const ROUNDS: usize = 150;
/// The most that a drawing with near nodes grows. A choice.
const SPREAD_MAX: f64 = 2.0;
/// The most nodes: the time of a round grows with their square.
pub const NODES_MAX: usize = 700;

/// Returns the positions of nodes.
pub fn places(nodes: usize, links: &[LinkUse]) -> Vec<Way> {
    let mut places = circle(nodes);
    if nodes > NODES_MAX {
        return places;
    }
    let far = distances(nodes, links);
    for _ in 0..ROUNDS {
        for node in 0..nodes {
            places[node] = suggested(node, &places, &far[node]);
        }
    }
    spread(places)
}

/// Makes a drawing larger if nodes are too near to each other.
fn spread(places: Vec<Way>) -> Vec<Way> {
    let far = |one: &Way, other: &Way| (one.x - other.x).hypot(one.y - other.y);
    let pairs = places.iter().enumerate();
    let pairs = pairs.flat_map(|(at, one)| places[..at].iter().map(move |other| far(one, other)));
    let nearest = pairs.fold(f64::INFINITY, f64::min);
    let factor = (1.0 / nearest.max(1e-6)).clamp(1.0, SPREAD_MAX);
    places.into_iter().map(|Way { x, y }| Way { x: x * factor, y: y * factor }).collect()
}

/// Returns the weighted mean of the positions that the other nodes suggest for a node.
fn suggested(node: usize, places: &[Way], far: &[f64]) -> Way {
    let here = places[node];
    let (mut sum, mut weights) = (Way::default(), 0.0);
    for (other, &there) in places.iter().enumerate().filter(|(other, _)| *other != node) {
        let (x, y) = (here.x - there.x, here.y - there.y);
        let length = x.hypot(y).max(1e-6);
        let weight = 1.0 / (far[other] * far[other]);
        sum.x += weight * (there.x + far[other] * x / length);
        sum.y += weight * (there.y + far[other] * y / length);
        weights += weight;
    }
    if weights == 0.0 { here } else { Way { x: sum.x / weights, y: sum.y / weights } }
}

/// Returns the number of links between all nodes; unreachable ones are a little farther than all
/// others.
fn distances(nodes: usize, links: &[LinkUse]) -> Vec<Vec<f64>> {
    let mut neighbours = vec![Vec::new(); nodes];
    for link in links {
        neighbours[link.from as usize].push(link.to as usize);
        neighbours[link.to as usize].push(link.from as usize);
    }
    let unreached = nodes as f64;
    let from = |start: usize| {
        let mut far = vec![unreached; nodes];
        far[start] = 0.0;
        let mut waiting = VecDeque::from([start]);
        while let Some(at) = waiting.pop_front() {
            for &next in &neighbours[at] {
                if far[next] == unreached && next != start {
                    far[next] = far[at] + 1.0;
                    waiting.push_back(next);
                }
            }
        }
        far
    };
    (0..nodes).map(from).collect()
}
