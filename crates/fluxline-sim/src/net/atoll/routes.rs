//! The path of a message: a link port for each hop, chosen by the source.

use std::collections::VecDeque;

use super::wiring::{Grid, NONE, Wiring};

/// The most links of a path. A choice: 4 bits for each in eight words.
pub const HOPS_MAX: u32 = 128;

/// The choice of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// On grids and tori: along the row, then along the column, each the shorter way. On a grid no
    /// worms can wait for each other in a circle; on a torus they can.
    #[default]
    DimensionOrder,
    /// A shortest path on any wiring.
    Shortest,
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
    /// The next port, by target times nodes plus node; 255: unreachable.
    Table(Vec<u8>),
}

impl Routes {
    /// Computes the paths.
    #[must_use]
    pub fn of(wiring: &Wiring, routing: Routing) -> Routes {
        match (routing, wiring.shape()) {
            (Routing::DimensionOrder, Some(grid)) => Routes::Grid(grid),
            _ => Routes::Table(table(wiring)),
        }
    }

    /// Returns a path; `None`: there is none.
    #[must_use]
    pub fn path(&self, wiring: &Wiring, source: u32, target: u32) -> Option<Path> {
        let next = match self {
            Routes::Grid(grid) => return Some(along(*grid, source, target)),
            Routes::Table(next) => next,
        };
        let row = target as usize * wiring.nodes() as usize;
        let (mut path, mut node) = (Path::default(), source);
        while node != target {
            let port = u32::from(next[row + node as usize]);
            if port >= wiring.links() || path.links() == HOPS_MAX {
                return None;
            }
            path.push(port);
            node = wiring.end_of(node, port) / wiring.links();
        }
        Some(path)
    }
}

/// Goes along the row, then along the column. Of two ways of equal length around a ring, half of
/// the sources take one, and half the other.
fn along(grid: Grid, source: u32, target: u32) -> Path {
    let at = |node: u32| [node % grid.columns, node / grid.columns];
    let (from, to) = (at(source), at(target));
    let is_odd = (from[0] + from[1]) % 2 == 1;
    let mut path = Path::default();
    for (dimension, side) in [grid.columns, grid.rows].into_iter().enumerate() {
        let (here, there) = (from[dimension], to[dimension]);
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

/// Searches from each target. Of several next ports, different pairs take different ones.
fn table(wiring: &Wiring) -> Vec<u8> {
    let (nodes, links) = (wiring.nodes(), wiring.links());
    let mut next = vec![u8::MAX; nodes as usize * nodes as usize];
    let mut far = vec![NONE; nodes as usize];
    for target in 0..nodes {
        far.fill(NONE);
        far[target as usize] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(node) = queue.pop_front() {
            for port in 0..links {
                let end = wiring.end_of(node, port);
                if end != NONE && far[(end / links) as usize] == NONE {
                    far[(end / links) as usize] = far[node as usize] + 1;
                    queue.push_back(end / links);
                }
            }
        }
        let row = target as usize * nodes as usize;
        for node in (0..nodes).filter(|&node| node != target && far[node as usize] != NONE) {
            let is_nearer = |&port: &u32| {
                let end = wiring.end_of(node, port);
                end != NONE && far[(end / links) as usize] + 1 == far[node as usize]
            };
            let nearer = || (0..links).filter(is_nearer);
            let turn = (node + target) as usize % nearer().count().max(1);
            next[row + node as usize] = nearer().nth(turn).map_or(u8::MAX, |port| port as u8);
        }
    }
    next
}
