//! A path for each pair of nodes.

use super::graph::{Graph, NONE};

/// The entry of a table for which there is no port.
pub(super) const NO_PORT: u8 = u8::MAX;

/// A step of a path: a port, and the step that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step(u32);

impl Step {
    /// The index of the next step that means: the path ends.
    pub const LAST: u32 = (1 << 24) - 1;

    pub fn new(port: u32, next: u32) -> Step {
        Step(next << 8 | port)
    }

    fn port(self) -> u32 {
        self.0 & 255
    }

    fn next(self) -> u32 {
        self.0 >> 8
    }
}

/// The paths to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// The next port, by node.
    Table(Vec<u8>),
    /// Paths that differ by their source: the first step of each, or [`NONE`].
    Steps { first: Vec<u32>, steps: Vec<Step> },
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The output port at each node.
    pub ports: Vec<u8>,
    /// The virtual layer: its packets use buffers of their own on every link.
    pub layer: u8,
}

/// A path for each pair of nodes, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// By target.
    trees: Vec<Tree>,
    /// By target times nodes plus source; empty: all are in layer 0.
    layers: Vec<u8>,
    count: u8,
}

impl Routes {
    pub(super) fn of(trees: Vec<Tree>) -> Routes {
        Routes { trees, layers: Vec::new(), count: 1 }
    }

    pub(super) fn with_layers(trees: Vec<Tree>, layers: Vec<u8>) -> Routes {
        let count = layers.iter().copied().max().unwrap_or(0) + 1;
        Routes { trees, layers, count }
    }

    /// Makes the routes of forwarding tables: `port` returns the output port of a node for a
    /// target. Routes that leave the graph, or go round, are the error of
    /// [`Dependencies::of`](super::Dependencies::of).
    #[must_use]
    pub fn from_tables(graph: &Graph, port: impl Fn(u32, u32) -> Option<u8>) -> Routes {
        let nodes = graph.nodes();
        let tree = |target| {
            let of = |node| if node == target { None } else { port(node, target) };
            Tree::Table((0..nodes).map(|node| of(node).unwrap_or(NO_PORT)).collect())
        };
        Routes::of((0..nodes).map(tree).collect())
    }

    /// Makes routes from one list of ports for each pair of source and target.
    #[must_use]
    pub fn from_lists(graph: &Graph, list: impl Fn(u32, u32) -> Option<Vec<u8>>) -> Routes {
        let nodes = graph.nodes();
        let tree = |target| {
            let (mut first, mut steps) = (vec![NONE; nodes as usize], Vec::new());
            for source in 0..nodes {
                let Some(ports) = list(source, target).filter(|_| source != target) else {
                    continue;
                };
                first[source as usize] = ports.iter().rev().fold(Step::LAST, |next, &port| {
                    steps.push(Step::new(u32::from(port), next));
                    steps.len() as u32 - 1
                });
            }
            Tree::Steps { first, steps }
        };
        Routes::of((0..nodes).map(tree).collect())
    }

    /// Assigns each pair of source and target its virtual layer.
    #[must_use]
    pub fn in_layers(self, layer: impl Fn(u32, u32) -> u8) -> Routes {
        let nodes = self.trees.len() as u32;
        let of = |target| (0..nodes).map(move |source| [source, target]);
        let all = (0..nodes).flat_map(of).map(|[source, target]| layer(source, target));
        Routes::with_layers(self.trees, all.collect())
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.trees.len() as u32
    }

    /// Returns the number of virtual layers.
    #[must_use]
    pub fn layers(&self) -> u8 {
        self.count
    }

    /// Returns the virtual layer of a pair.
    #[must_use]
    pub fn layer(&self, source: u32, target: u32) -> u8 {
        let index = target as usize * self.trees.len() + source as usize;
        self.layers.get(index).copied().unwrap_or(0)
    }

    /// Returns true if there is a path from a source to another node.
    #[must_use]
    pub fn has(&self, source: u32, target: u32) -> bool {
        source != target
            && match &self.trees[target as usize] {
                Tree::Table(ports) => ports[source as usize] != NO_PORT,
                Tree::Steps { first, .. } => first[source as usize] != NONE,
            }
    }

    /// Returns the channels of a path, one by one.
    #[must_use]
    pub fn walk<'a>(&'a self, graph: &'a Graph, source: u32, target: u32) -> Walk<'a> {
        let tree = &self.trees[target as usize];
        let step = match tree {
            Tree::Table(_) => NONE,
            Tree::Steps { first, .. } => first[source as usize],
        };
        Walk { graph, tree, step, node: source, target, left: graph.channels() }
    }

    /// Returns a path; `None`: there is none.
    #[must_use]
    pub fn route(&self, graph: &Graph, source: u32, target: u32) -> Option<Route> {
        let mut walk = self.walk(graph, source, target);
        let ports = walk.by_ref().map(|channel| graph.start(channel).port as u8).collect();
        walk.has_arrived().then(|| Route { ports, layer: self.layer(source, target) })
    }
}

/// The channels of a path, in order. It ends at the target, where the path leaves the graph, or
/// after as many channels as the graph has: then it goes round.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    graph: &'a Graph,
    tree: &'a Tree,
    step: u32,
    node: u32,
    target: u32,
    left: u32,
}

impl Walk<'_> {
    /// Returns true if all channels were taken and the last one ends at the target.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        let is_over = matches!(self.tree, Tree::Table(_)) || self.step >= Step::LAST;
        self.node == self.target && is_over
    }
}

impl Iterator for Walk<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let port = match self.tree {
            Tree::Table(_) if self.node == self.target || self.node == NONE => return None,
            Tree::Table(ports) => u32::from(ports[self.node as usize]),
            Tree::Steps { steps, .. } => {
                let step = steps.get(self.step as usize)?;
                self.step = step.next();
                step.port()
            }
        };
        let channel = self.node * self.graph.ports() + port;
        let has_link = port < self.graph.ports() && self.graph.opposite(channel) != NONE;
        if !has_link || self.left == 0 {
            (self.node, self.step) = (NONE, NONE);
            return None;
        }
        self.left -= 1;
        self.node = self.graph.to(channel);
        Some(channel)
    }
}
