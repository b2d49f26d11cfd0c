//! Routes found by a search over dependencies that stay free of cycles.
//!
//! Sources: J. Domke, T. Hoefler, S. Matsuoka, "Routing on the dependency graph: a new approach to
//! deadlock-free high-performance routing", HPDC (2016), for a given number of layers.
//! Different from it, paths depend on their source.

use super::acyclic::{Acyclic, Turn};
use super::graph::{Graph, NONE};
use super::search::{Found, Search};
use super::set::{Routes, Step, Tree};

/// The most layers.
const LAYERS_MAX: u8 = 64;
/// Targets of which a layer keeps the dependencies of paths alone. For later ones it also keeps
/// those that the search only tried, which makes it faster. Measured: paths on tori become longer
/// with less than 2, and not shorter with more.
const CAREFUL: u32 = 4;

/// Returns routes free of deadlock in `count` virtual layers (1 to 64). One needs no channels of
/// its own.
/// Each target has the layer in which its paths are shortest. In every layer, the paths of a
/// spanning tree stay possible, so each pair of joined nodes has a path.
#[must_use]
pub fn nue(graph: &Graph, count: u8) -> Routes {
    let count = count.clamp(1, LAYERS_MAX);
    let centre = graph.centre();
    let stride = (centre.len() / usize::from(count)).max(1);
    let root = |index: u8| centre[usize::from(index) * stride % centre.len()];
    let mut layers: Vec<Layer<'_>> = (0..count).map(|of| Layer::new(graph, root(of))).collect();
    let mut search = Search::new(graph);
    let (mut trees, mut chosen) = (Vec::new(), Vec::new());
    for target in 0..graph.nodes() {
        let found = layers.iter_mut().map(|layer| layer.paths(&mut search, target));
        let best = (0..count).zip(found).min_by_key(|(_, found)| found.cost);
        let Some((layer, found)) = best else { continue };
        search.keep(&mut layers[usize::from(layer)].kept, &found);
        let mut paths = Paths::new(graph);
        paths.add(&found);
        trees.push(paths.tree());
        chosen.push(layer);
    }
    Routes::of(trees).in_layers(|_, target| chosen[target as usize])
}

/// A layer whose dependencies include those of a spanning tree.
struct Layer<'a> {
    graph: &'a Graph,
    kept: Acyclic<'a>,
    /// The channel from each node to its parent; [`NONE`]: a root.
    parents: Vec<u32>,
    depths: Vec<u32>,
}

impl<'a> Layer<'a> {
    fn new(graph: &'a Graph, root: u32) -> Layer<'a> {
        let nodes = graph.nodes() as usize;
        let kept = Acyclic::new(graph);
        let (parents, depths) = (vec![NONE; nodes], vec![NONE; nodes]);
        let mut layer = Layer { graph, kept, parents, depths };
        for start in std::iter::once(root).chain(0..graph.nodes()) {
            if layer.depths[start as usize] == NONE {
                layer.grow(start);
            }
        }
        for node in 0..graph.nodes() {
            let is_branch = |channel: &u32| layer.is_branch(*channel);
            let branches: Vec<u32> = graph.leaving(node).filter(is_branch).collect();
            for &to in &branches {
                for from in branches.iter().filter(|&&of| of != to).map(|&of| graph.opposite(of)) {
                    layer.kept.add(Turn { from, to });
                }
            }
        }
        layer
    }

    /// Searches a tree of shortest paths from a root.
    fn grow(&mut self, root: u32) {
        self.depths[root as usize] = 0;
        let mut waiting = std::collections::VecDeque::from([root]);
        while let Some(node) = waiting.pop_front() {
            for channel in self.graph.entering(node) {
                let child = self.graph.from(channel) as usize;
                if self.depths[child] == NONE {
                    self.depths[child] = self.depths[node as usize] + 1;
                    self.parents[child] = channel;
                    waiting.push_back(child as u32);
                }
            }
        }
    }

    fn is_branch(&self, channel: u32) -> bool {
        let opposite = self.graph.opposite(channel);
        self.parents[self.graph.from(channel) as usize] == channel
            || self.parents[self.graph.to(channel) as usize] == opposite
    }

    /// Returns a path to the target from each node that is joined with it. A path that would meet
    /// a node twice is replaced by that of the tree.
    fn paths(&mut self, search: &mut Search<'_>, target: u32) -> Found {
        let mut found = search.run(&mut self.kept, target, |_| true);
        if target < CAREFUL {
            search.undo(&mut self.kept);
        }
        let mut seen = vec![NONE; self.depths.len()];
        for source in 0..self.graph.nodes() {
            let is_first = |channel: &u32| {
                let node = self.graph.from(*channel) as usize;
                std::mem::replace(&mut seen[node], source) != source
            };
            if !found.paths[source as usize].iter().all(is_first) {
                found.paths[source as usize] = self.tree_path(source, target);
            }
        }
        found
    }

    fn tree_path(&self, source: u32, target: u32) -> Vec<u32> {
        let (mut here, mut there) = (source, target);
        let (mut rise, mut descent) = (Vec::new(), Vec::new());
        while here != there {
            let climbs = self.depths[here as usize] >= self.depths[there as usize];
            let node = if climbs { &mut here } else { &mut there };
            let channel = self.parents[*node as usize];
            if channel == NONE {
                return Vec::new();
            }
            *node = self.graph.to(channel);
            if climbs { rise.push(channel) } else { descent.push(self.graph.opposite(channel)) }
        }
        rise.extend(descent.into_iter().rev());
        rise
    }
}

/// The paths to one target, in steps that paths share.
#[derive(Clone)]
struct Paths<'a> {
    graph: &'a Graph,
    first: Vec<u32>,
    steps: Vec<Step>,
}

impl<'a> Paths<'a> {
    fn new(graph: &'a Graph) -> Paths<'a> {
        Paths { graph, first: vec![NONE; graph.nodes() as usize], steps: Vec::new() }
    }

    fn add(&mut self, found: &Found) {
        // The last step that was made of each channel.
        let mut made = vec![NONE; self.graph.channels() as usize];
        for (first, path) in self.first.iter_mut().zip(&found.paths) {
            let mut next = Step::LAST;
            for &channel in path.iter().rev() {
                let step = Step::new(self.graph.start(channel).port, next);
                let last = made[channel as usize];
                next = if self.steps.get(last as usize) == Some(&step) {
                    last
                } else {
                    self.steps.push(step);
                    self.steps.len() as u32 - 1
                };
                made[channel as usize] = next;
            }
            if next != Step::LAST {
                *first = next;
            }
        }
    }

    fn tree(self) -> Tree {
        Tree::Steps { first: self.first, steps: self.steps }
    }
}
