//! The path of a message: a link port for each hop, chosen by the source.

use super::wiring::{Grid, NONE, Wiring};
use crate::routes::{self, Graph, Root};

/// The most links of a path. A choice: 4 bits for each in eight words.
pub const HOPS_MAX: u32 = 128;

/// The choice of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// On grids and tori: along the row, then along the column, each the shorter way. On grids,
    /// and on tori with sides of at most four nodes, no worms can wait for each other in a circle;
    /// on other tori they can. On other wirings: as `Shortest`.
    #[default]
    DimensionOrder,
    /// A shortest path on any wiring. Worms can wait for each other in a circle.
    Shortest,
    /// First towards a root, then away from it, on any wiring. Worms cannot wait for each other in
    /// a circle.
    UpDown,
    /// Found by a search that closes no circle, on any wiring. Most paths are shorter than those of
    /// `UpDown`, and the load is spread better.
    Nue,
}

/// A path: its length and the link port of each hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    words: [u64; 8],
    links: u8,
}

impl Path {
    /// Adds a hop. A path has at most [`HOPS_MAX`].
    pub fn push(&mut self, port: u32) {
        let index = usize::from(self.links);
        self.words[index / 16] |= u64::from(port) << (index % 16 * 4);
        self.links += 1;
    }

    /// Returns the number of links.
    #[must_use]
    pub fn links(&self) -> u32 {
        u32::from(self.links)
    }

    /// Returns the node at its end, or [`NONE`] if a hop has no cable.
    #[must_use]
    pub fn end(&self, wiring: &Wiring, source: u32) -> u32 {
        (0..self.links()).fold(source, |node, hop| match node {
            NONE => NONE,
            node if node >= wiring.nodes() => NONE,
            node => match wiring.end_of(node, self.port(hop)) {
                NONE => NONE,
                end => end / wiring.links(),
            },
        })
    }

    /// Returns the link port of a hop.
    #[inline]
    #[must_use]
    pub fn port(&self, hop: u32) -> u32 {
        (self.words[hop as usize / 16] >> (hop % 16 * 4)) as u32 & 15
    }
}

/// The paths between all nodes.
#[derive(Clone, Debug)]
pub enum Routes {
    /// Computed from the coordinates.
    Grid(Grid),
    /// Computed in advance for the cables of a graph.
    Table(Table),
}

/// Paths on a graph.
#[derive(Clone, Debug)]
pub struct Table {
    /// Nodes and cables.
    pub graph: Graph,
    /// The paths.
    pub routes: routes::Routes,
}

impl Routes {
    /// Computes the paths.
    #[must_use]
    pub fn of(wiring: &Wiring, routing: Routing) -> Routes {
        let graph = wiring.graph();
        let routes = match (routing, wiring.shape()) {
            (Routing::DimensionOrder, Some(grid)) => return Routes::Grid(grid),
            (Routing::DimensionOrder | Routing::Shortest, _) => routes::shortest(&graph),
            (Routing::UpDown, _) => routes::updown(&graph, Root::Central),
            (Routing::Nue, _) => routes::nue(&graph, 1),
        };
        Routes::Table(Table { graph, routes })
    }

    /// Returns a path; `None`: there is none.
    #[must_use]
    pub fn path(&self, source: u32, target: u32) -> Option<Path> {
        let Table { graph, routes } = match self {
            Routes::Grid(grid) => return Some(along(*grid, source, target)),
            Routes::Table(table) => table,
        };
        let mut path = Path::default();
        let mut walk = routes.walk(graph, source, target);
        for channel in walk.by_ref() {
            if path.links() == HOPS_MAX {
                return None;
            }
            path.push(channel % graph.ports());
        }
        walk.has_arrived().then_some(path)
    }

    /// Returns the routes as lists of ports, for the proof that they cannot deadlock.
    #[must_use]
    pub fn listed(&self, graph: &Graph) -> routes::Routes {
        routes::Routes::from_lists(graph, |source, target| {
            let path = self.path(source, target)?;
            Some((0..path.links()).map(|hop| path.port(hop) as u8).collect())
        })
    }
}

/// Goes along the row, then along the column. Of two ways of equal length around a ring, even nodes
/// of the ring go up and odd ones down, so that rings of four are not closed.
fn along(grid: Grid, source: u32, target: u32) -> Path {
    let at = |node: u32| [node % grid.columns, node / grid.columns];
    let (from, to) = (at(source), at(target));
    let mut path = Path::default();
    for (dimension, side) in [grid.columns, grid.rows].into_iter().enumerate() {
        let (here, there) = (from[dimension], to[dimension]);
        let is_odd = here % 2 == 1;
        let up = if grid.is_torus { (there + side - here) % side } else { there.abs_diff(here) };
        let down = side - up;
        let is_down = match grid.is_torus {
            true => down < up || (down == up && is_odd),
            false => there < here,
        };
        let hops = if grid.is_torus && is_down { down } else { up };
        (0..hops).for_each(|_| path.push(dimension as u32 * 2 + u32::from(is_down)));
    }
    path
}
