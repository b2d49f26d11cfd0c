//! The cables between link ports, and presets of common topologies.

use super::error::ConfigError;
use crate::net::router::graph::{Edge, lines, parse_edge};
use crate::routes::Graph;

/// Link ports of an ATOLL chip.
pub const LINKS: u32 = 4;
/// The index that stands for "nothing".
pub const NONE: u32 = u32::MAX;
/// The most nodes. A choice: their routes of two bits a hop stay in memory.
pub const NODES_MAX: u32 = 16_384;

/// A cable between two nodes; both link ports are the lowest free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// One node.
    pub from: u32,
    /// The other node.
    pub to: u32,
}

/// A link port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPort {
    /// The node.
    pub node: u32,
    /// The port, 0 to 3.
    pub port: u32,
}

impl LinkPort {
    /// Returns its number: node times 4 plus port.
    #[must_use]
    pub fn index(self) -> u32 {
        self.node * LINKS + self.port
    }

    /// Returns the port at the other end of its cable, which must exist.
    #[must_use]
    pub fn end(self, wiring: &Wiring) -> LinkPort {
        let end = wiring.end_of(self.node, self.port);
        LinkPort { node: end / wiring.links, port: end % wiring.links }
    }
}

/// The shape of a grid of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Nodes in a row.
    pub columns: u32,
    /// Nodes in a column.
    pub rows: u32,
    /// True if the ends of rows and columns are joined: a torus.
    pub is_torus: bool,
}

impl Grid {
    /// Returns the links of the longest path in dimension order.
    #[must_use]
    pub fn longest(self) -> u32 {
        let side = |side: u32| if self.is_torus { side / 2 } else { side.saturating_sub(1) };
        side(self.columns) + side(self.rows)
    }
}

/// The nodes and their cables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    nodes: u32,
    /// The nodes below this number are only ends of links; 0: all nodes are chips with hosts.
    only_ends: u32,
    /// Link ports of a chip.
    links: u32,
    /// The link port at the other end of each link port (node times links plus port), or [`NONE`].
    ends: Vec<u32>,
    grid: Option<Grid>,
}

impl Wiring {
    /// Joins nodes by cables.
    ///
    /// # Errors
    /// A node that does not exist, a cable from a node to itself, a fifth cable at a node, or a
    /// number of nodes outside of the limits.
    pub fn of(nodes: u32, cables: &[Cable]) -> Result<Wiring, ConfigError> {
        Wiring::bare(nodes, LINKS)?.with(cables)
    }

    /// Joins hosts with one link port and switches with `ports` by cables; hosts have the lower
    /// numbers.
    ///
    /// # Errors
    /// Those of [`Wiring::of`].
    pub fn switched(
        hosts: u32,
        switches: u32,
        ports: u32,
        cables: &[Cable],
    ) -> Result<Wiring, ConfigError> {
        let wiring = Wiring::bare(hosts.saturating_add(switches), ports)?;
        Wiring { only_ends: hosts, ..wiring }.with(cables)
    }

    fn with(mut self, cables: &[Cable]) -> Result<Wiring, ConfigError> {
        cables.iter().try_for_each(|&cable| self.add(cable))?;
        Ok(self)
    }

    fn add(&mut self, Cable { from, to }: Cable) -> Result<(), ConfigError> {
        let nodes = self.nodes;
        if from >= nodes || to >= nodes || from == to {
            let text = format!("a cable from node {from} to node {to}: join two of {nodes}");
            return Err(ConfigError(text));
        }
        let (near, far) = (self.free_port(from)?, self.free_port(to)?);
        self.join(near, far);
        Ok(())
    }

    /// Reads a wiring: a cable a line, as two numbers of nodes. Text behind `#` is ignored. Two
    /// nodes can have several cables.
    ///
    /// # Errors
    /// The line and the problem, in one sentence.
    pub fn parse(text: &str) -> Result<Wiring, String> {
        let at_line = |number, problem: &str| {
            format!("{number}: {problem}{}", if problem.ends_with('.') { "" } else { "." })
        };
        let mut cables = Vec::new();
        for (number, content) in lines(text) {
            let Edge { one: from, other: to } =
                parse_edge(content).map_err(|problem| at_line(number, &problem))?;
            if from.max(to) >= NODES_MAX {
                let last = NODES_MAX - 1;
                let problem = format!("node {} is too high; nodes are 0 to {last}", from.max(to));
                return Err(at_line(number, &problem));
            }
            cables.push((number, Cable { from, to }));
        }
        let Some(last) = cables.iter().map(|(_, of)| of.from.max(of.to)).max() else {
            return Err(" the file has no cable; write one a line, such as `0 1`.".into());
        };
        let mut wiring =
            Wiring::bare((last + 1).max(2), LINKS).map_err(|error| format!(" {error}."))?;
        for (number, cable) in cables {
            let added = wiring.add(cable);
            added.map_err(|ConfigError(problem)| at_line(number, &problem))?;
        }
        match wiring.unreachable() {
            None => Ok(wiring),
            Some(node) => Err(format!(
                " node {node} cannot be reached from node 0; add a cable, or number the nodes \
                 without gaps."
            )),
        }
    }

    /// Returns the first node without a path from node 0, if there is one.
    fn unreachable(&self) -> Option<u32> {
        let mut is_reached = vec![false; self.nodes as usize];
        let mut waiting = vec![0];
        is_reached[0] = true;
        while let Some(node) = waiting.pop() {
            for end in
                (0..self.links).map(|port| self.end_of(node, port)).filter(|&end| end != NONE)
            {
                let next = end / self.links;
                if !std::mem::replace(&mut is_reached[next as usize], true) {
                    waiting.push(next);
                }
            }
        }
        (0..self.nodes).find(|&node| !is_reached[node as usize])
    }

    /// Returns true if two nodes have a cable.
    #[must_use]
    pub fn are_joined(&self, one: u32, other: u32) -> bool {
        let is_node = one < self.nodes && other < self.nodes;
        is_node && (0..self.links).any(|port| self.leads(one, port, other))
    }

    /// Returns the link ports that have a cable, in the order of the network's links.
    #[must_use]
    pub fn link_ports(&self) -> Vec<LinkPort> {
        let wired = (0..).zip(&self.ends).filter(|(_, end)| **end != NONE);
        wired
            .map(|(at, _): (u32, _)| LinkPort { node: at / self.links, port: at % self.links })
            .collect()
    }

    /// Returns true if the cable at a port leads to a node.
    #[must_use]
    pub fn leads(&self, node: u32, port: u32, to: u32) -> bool {
        let end = self.end_of(node, port);
        end != NONE && end / self.links == to
    }

    /// A grid, or a torus. Ports 0 to 3 go right, left, up and down.
    ///
    /// # Errors
    /// A side of 0, or a number of nodes outside of the limits.
    pub fn grid(grid: Grid) -> Result<Wiring, ConfigError> {
        let Grid { columns, rows, is_torus } = grid;
        let mut wiring = Wiring::bare(columns.saturating_mul(rows), LINKS)?;
        for node in 0..wiring.nodes {
            let (column, row) = (node % columns, node / columns);
            let wraps = |at: u32, side: u32| side > 1 && (at + 1 < side || is_torus);
            if wraps(column, columns) {
                wiring.join(node * LINKS, (row * columns + (column + 1) % columns) * LINKS + 1);
            }
            if wraps(row, rows) {
                wiring.join(node * LINKS + 2, ((row + 1) % rows * columns + column) * LINKS + 3);
            }
        }
        Ok(Wiring { grid: Some(grid), ..wiring })
    }

    /// A ring: port 0 goes to the next node, port 1 to the one before.
    ///
    /// # Errors
    /// A number of nodes outside of the limits.
    pub fn ring(nodes: u32) -> Result<Wiring, ConfigError> {
        Wiring::grid(Grid { columns: nodes, rows: 1, is_torus: true })
    }

    /// A cable between each two of at most 5 nodes.
    ///
    /// # Errors
    /// Fewer than 2 or more than 5 nodes.
    pub fn full(nodes: u32) -> Result<Wiring, ConfigError> {
        let all = (0..nodes.min(6))
            .flat_map(|from| (from + 1..nodes.min(6)).map(move |to| Cable { from, to }));
        Wiring::of(nodes, &all.collect::<Vec<Cable>>())
    }

    fn bare(nodes: u32, links: u32) -> Result<Wiring, ConfigError> {
        if !(2..=NODES_MAX).contains(&nodes) {
            return Err(ConfigError(format!("{nodes} nodes: give 2 to {NODES_MAX}")));
        }
        let ends = vec![NONE; (nodes * links) as usize];
        Ok(Wiring { nodes, only_ends: 0, links, ends, grid: None })
    }

    fn join(&mut self, near: u32, far: u32) {
        self.ends[near as usize] = far;
        self.ends[far as usize] = near;
    }

    fn free_port(&self, node: u32) -> Result<u32, ConfigError> {
        let links = self.links;
        let ports = node * links..(node + 1) * links;
        let mut free = ports.filter(|&port| self.ends[port as usize] == NONE);
        free.next().ok_or_else(|| ConfigError(format!("node {node} has more than {links} cables")))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the number of link ports of a chip.
    #[must_use]
    pub fn links(&self) -> u32 {
        self.links
    }

    /// Returns the number of nodes that send and receive.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        if self.only_ends > 0 { self.only_ends } else { self.nodes }
    }

    /// Returns the number of nodes that are only ends of links; they have the lowest numbers.
    #[must_use]
    pub fn ends(&self) -> u32 {
        self.only_ends
    }

    /// Returns the shape, if it is a grid or a torus.
    #[must_use]
    pub fn shape(&self) -> Option<Grid> {
        self.grid
    }

    /// Returns the link port at the other end of a cable (node times links plus port), or [`NONE`].
    #[must_use]
    pub fn end_of(&self, node: u32, port: u32) -> u32 {
        self.ends[(node * self.links + port) as usize]
    }

    /// Returns the graph of nodes and cables.
    #[must_use]
    pub fn graph(&self) -> Graph {
        Graph::of_opposites(self.links, self.ends.clone())
    }

    /// Returns the number of cables between the nodes for which `is_left` is true, and the others.
    pub fn cut(&self, is_left: impl Fn(u32) -> bool) -> u32 {
        let crosses = |port: u32, end: u32| {
            end != NONE && is_left(port / self.links) != is_left(end / self.links)
        };
        let ends = (0..).zip(&self.ends).filter(|&(port, &end)| crosses(port, end));
        ends.count() as u32 / 2
    }
}
