//! Shortest paths, which can deadlock.

use super::graph::{Graph, NONE};
use super::set::{NO_PORT, Routes, Tree};

/// Returns a shortest path for each pair. Of equal next ports, a node takes the one with the
/// fewest paths so far. On graphs with circles, these routes can deadlock.
#[must_use]
pub fn shortest(graph: &Graph) -> Routes {
    let mut loads = vec![0_u32; graph.channels() as usize];
    let tree = |target| {
        let far = graph.distances(target);
        let mut nodes: Vec<u32> = (0..graph.nodes()).collect();
        nodes.retain(|&node| far[node as usize] != NONE && node != target);
        // Paths through a node are known when all nodes behind it have chosen.
        nodes.sort_by_key(|&node| std::cmp::Reverse(far[node as usize]));
        let mut paths = vec![1_u32; far.len()];
        let mut ports = vec![NO_PORT; far.len()];
        for node in nodes {
            let nearer = |&channel: &u32| far[graph.to(channel) as usize] < far[node as usize];
            let best = graph.leaving(node).filter(nearer).min_by_key(|&of| loads[of as usize]);
            let Some(channel) = best else { continue };
            loads[channel as usize] += paths[node as usize];
            paths[graph.to(channel) as usize] += paths[node as usize];
            ports[node as usize] = graph.start(channel).port as u8;
        }
        Tree::Table(ports)
    };
    Routes::of((0..graph.nodes()).map(tree).collect())
}
