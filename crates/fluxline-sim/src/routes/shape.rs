//! Grids and tori of any number of dimensions, and dimension order on them.

use super::graph::{End, Graph};
use super::set::Routes;

/// The ends of each row of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes along each dimension; node numbers count along the first one fastest.
    pub sides: Vec<u32>,
    /// True if the ends of every row are joined.
    pub is_torus: bool,
}

impl Shape {
    /// Returns its graph. Port 2d leads up in dimension d, and port 2d + 1 down. A side of two
    /// nodes has one link on a grid, and two on a torus.
    ///
    /// # Errors
    /// Those of [`Graph::new`].
    pub fn graph(&self) -> Result<Graph, String> {
        let nodes = self.sides.iter().fold(1, |all: u32, &side| all.saturating_mul(side));
        let mut graph = Graph::new(nodes, 2 * self.sides.len() as u32)?;
        for node in 0..nodes {
            let mut stride = 1;
            for (port, &side) in (0..).step_by(2).zip(&self.sides) {
                let at = node / stride % side;
                if side > 1 && (at + 1 < side || self.is_torus) {
                    let next = node - at * stride + (at + 1) % side * stride;
                    graph.join(End { node, port }, End { node: next, port: port + 1 })?;
                }
                stride *= side;
            }
        }
        Ok(graph)
    }

    /// Returns the first port of the way from one node to another, dimension by dimension, the
    /// shorter way round; `None`: it is the same node. Of two equal ways round, nodes at even
    /// coordinates go up. On a grid, these routes cannot deadlock; on a torus they can.
    #[must_use]
    pub fn port(&self, node: u32, target: u32) -> Option<u32> {
        let (mut here, mut there) = (node, target);
        for (dimension, &side) in (0..).zip(&self.sides) {
            let (at, to) = (here % side, there % side);
            if at != to {
                let up = (to + side - at) % side;
                let is_half = 2 * up == side && at.is_multiple_of(2);
                let goes_up = if self.is_torus { 2 * up < side || is_half } else { to > at };
                return Some(2 * dimension + u32::from(!goes_up));
            }
            (here, there) = (here / side, there / side);
        }
        None
    }

    /// Returns routes in dimension order on a graph of this shape. Pairs whose path needs a removed
    /// link have none.
    #[must_use]
    pub fn routes(&self, graph: &Graph) -> Routes {
        let exists = |node, port| graph.channel(End { node, port }).and_then(|of| graph.end(of));
        let next = |node, target| {
            let port = self.port(node, target)?;
            exists(node, port).map(|_| port as u8)
        };
        Routes::from_tables(graph, next).without_broken(graph)
    }
}
