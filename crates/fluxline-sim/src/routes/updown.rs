//! Up*/down* routes: first towards the root, then away from it.
//!
//! A channel goes up if its end was found before its start in a search from the root, and down
//! otherwise. No path goes up again after it went down, so dependencies have no cycle. Source: M.
//! Schroeder et al., "Autonet: a high-speed, self-configuring local area network using
//! point-to-point links", IEEE J. Sel. Areas Comm. 9 (1991).

use std::collections::VecDeque;

use super::graph::{Graph, NONE};
use super::set::{NO_PORT, Routes, Step, Tree};

/// The most roots that are compared on large graphs.
const CANDIDATES: usize = 8;
/// The most nodes of a graph on which all roots are compared. A choice: it takes a second.
const ALL_ROOTS: u32 = 256;

/// The choice of the root. Each further part of a graph has a root of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This node.
    Node(u32),
    /// The one with the shortest paths: of all nodes, or on graphs above 256 nodes of at most 8 in
    /// the middle.
    Central,
}

impl Root {
    /// Returns the node that is chosen.
    #[must_use]
    pub fn node(self, graph: &Graph) -> u32 {
        if let Root::Node(node) = self {
            return node;
        }
        let candidates = graph.centre();
        if graph.nodes() <= ALL_ROOTS {
            let total = |&node: &u32| UpDown::new(graph, node).total();
            let reached = candidates.first().map_or(0, |&node| graph.reaches(node));
            let in_part = |&node: &u32| graph.reaches(node) == reached;
            return (0..graph.nodes()).filter(in_part).min_by_key(total).unwrap_or(0);
        }
        let stride = candidates.len().div_ceil(CANDIDATES).max(1);
        let tried = candidates.into_iter().step_by(stride);
        tried.min_by_key(|&node| UpDown::new(graph, node).total()).unwrap_or(0)
    }
}

/// Returns the shortest path for each pair that goes up first and then down. Of equal paths, a
/// source takes the one whose next channel has the fewest paths so far.
#[must_use]
pub fn updown(graph: &Graph, root: Root) -> Routes {
    UpDown::new(graph, root.node(graph)).routes()
}

/// The directions of all channels.
#[derive(Clone, Debug)]
pub struct UpDown<'a> {
    graph: &'a Graph,
    /// The place of each node in the search from the root.
    ranks: Vec<u32>,
}

/// The links from each node to a target; [`NONE`]: there is no path.
struct Distances {
    /// Downwards alone.
    down: Vec<u32>,
    /// Up and down.
    any: Vec<u32>,
}

impl<'a> UpDown<'a> {
    /// Searches from a root. Nodes that it does not reach are searched from the lowest of them.
    #[must_use]
    pub fn new(graph: &'a Graph, root: u32) -> UpDown<'a> {
        let mut ranks = vec![NONE; graph.nodes() as usize];
        let mut next = 0;
        for start in std::iter::once(root).chain(0..graph.nodes()) {
            let mut waiting = VecDeque::from([start]);
            while let Some(node) = waiting.pop_front() {
                if ranks.get(node as usize) == Some(&NONE) {
                    ranks[node as usize] = next;
                    next += 1;
                    waiting.extend(graph.leaving(node).map(|channel| graph.to(channel)));
                }
            }
        }
        UpDown { graph, ranks }
    }

    /// Returns true if a channel leads towards the root.
    #[must_use]
    pub fn goes_up(&self, channel: u32) -> bool {
        let (from, to) = (self.graph.from(channel), self.graph.to(channel));
        self.ranks[to as usize] < self.ranks[from as usize]
    }

    /// Returns the next port of each node for a target; 255: there is none. A node sends down as
    /// soon as a way down exists, so that the port does not depend on the source. Some of these
    /// paths are longer than those of [`updown`].
    #[must_use]
    pub fn table_to(&self, target: u32) -> Vec<u8> {
        let far = self.distances(target, |down, any| if down == NONE { any } else { down });
        let port = |node: u32| {
            let is_down = far.down[node as usize] != NONE;
            let leaving = self.graph.leaving(node).filter(|&of| is_down != self.goes_up(of));
            let ends = if is_down { &far.down } else { &far.any };
            let links = |channel: &u32| ends[self.graph.to(*channel) as usize];
            let best = leaving.filter(|of| links(of) != NONE).min_by_key(links);
            best.filter(|_| node != target)
                .map_or(NO_PORT, |channel| self.graph.start(channel).port as u8)
        };
        (0..self.graph.nodes()).map(port).collect()
    }

    fn distances(&self, target: u32, choose: impl Fn(u32, u32) -> u32) -> Distances {
        let mut down = vec![NONE; self.ranks.len()];
        down[target as usize] = 0;
        let mut waiting = VecDeque::from([target]);
        while let Some(node) = waiting.pop_front() {
            for channel in self.graph.entering(node).filter(|&of| !self.goes_up(of)) {
                let from = self.graph.from(channel) as usize;
                if down[from] == NONE {
                    down[from] = down[node as usize] + 1;
                    waiting.push_back(from as u32);
                }
            }
        }
        // Nodes further up come first: the paths of those below go through them.
        let mut order: Vec<u32> = (0..self.graph.nodes()).collect();
        order.sort_unstable_by_key(|&node| self.ranks[node as usize]);
        let mut any = vec![NONE; self.ranks.len()];
        for node in order {
            let above = self.graph.leaving(node).filter(|&of| self.goes_up(of));
            let above = above.map(|channel| any[self.graph.to(channel) as usize]);
            let above = above.filter(|&links| links != NONE).min();
            let by_above = above.map_or(NONE, |links| links + 1);
            any[node as usize] = choose(down[node as usize], by_above);
        }
        Distances { down, any }
    }

    /// Returns the sum of the lengths of all paths.
    fn total(&self) -> u64 {
        let of = |target| {
            let any = self.distances(target, u32::min).any;
            any.into_iter().filter(|&links| links != NONE).map(u64::from).sum::<u64>()
        };
        (0..self.graph.nodes()).map(of).sum()
    }

    fn routes(&self) -> Routes {
        let mut loads = vec![0; self.graph.channels() as usize];
        Routes::of((0..self.graph.nodes()).map(|target| self.tree(target, &mut loads)).collect())
    }

    /// Returns the paths to one target. The step of a node that may still go up has its index, and
    /// the step of a node that may only go down has its index plus the number of nodes.
    fn tree(&self, target: u32, loads: &mut [u32]) -> Tree {
        let nodes = self.graph.nodes();
        let far = self.distances(target, u32::min);
        let mut order: Vec<u32> = (0..2 * nodes).filter(|&state| far.of(state) != NONE).collect();
        // Farthest first: the number of paths through a state is known when it chooses. A state
        // that may go up goes before the one below it at the same node.
        order.sort_unstable_by_key(|&state| (std::cmp::Reverse(far.of(state)), state));
        let mut paths = vec![1_u32; nodes as usize];
        paths.resize(2 * nodes as usize, 0);
        let mut steps = vec![Step::new(0, Step::LAST); 2 * nodes as usize];
        for state in order.into_iter().filter(|&state| state % nodes != target) {
            let Some(choice) = self.choose(state, &far, loads) else { continue };
            let count = paths[state as usize];
            loads[choice.channel as usize] += count;
            paths[choice.state as usize] += count;
            let is_last = choice.state % nodes == target;
            let next = if is_last { Step::LAST } else { choice.state };
            steps[state as usize] = Step::new(self.graph.start(choice.channel).port, next);
        }
        let first = |node: u32| if far.of(node) == NONE || node == target { NONE } else { node };
        Tree::Steps { first: (0..nodes).map(first).collect(), steps }
    }

    /// Returns the shortest continuation of a state; among equals, that of least load.
    fn choose(&self, state: u32, far: &Distances, loads: &[u32]) -> Option<Choice> {
        let nodes = self.graph.nodes();
        let choices = self.graph.leaving(state % nodes).filter_map(|channel| {
            let to = self.graph.to(channel);
            match (self.goes_up(channel), state < nodes) {
                (true, true) => Some(Choice { channel, state: to }),
                (true, false) => None,
                (false, _) => Some(Choice { channel, state: to + nodes }),
            }
        });
        let nearer = choices.filter(|choice| {
            let links = far.of(choice.state);
            links != NONE && links + 1 == far.of(state)
        });
        nearer.min_by_key(|choice| loads[choice.channel as usize])
    }
}

impl Distances {
    fn of(&self, state: u32) -> u32 {
        let nodes = self.any.len() as u32;
        if state < nodes { self.any[state as usize] } else { self.down[(state - nodes) as usize] }
    }
}

/// A channel, and the state behind it.
struct Choice {
    channel: u32,
    state: u32,
}
