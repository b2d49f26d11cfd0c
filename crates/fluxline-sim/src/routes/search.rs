//! The search for paths to a target, from channel to channel.
//!
//! It goes backwards from the target. A channel comes before another only if their dependency
//! closes no cycle with those that are kept from earlier paths, or with those of this search.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::acyclic::{Acyclic, Turn};
use super::graph::{Graph, NONE};

/// The cost of a link: more than the load of any path.
const LINK: u64 = 1 << 40;

/// A channel that may be the next one of the search, and the channel behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    cost: u64,
    channel: u32,
    after: u32,
}

/// Paths to one target.
pub(super) struct Found {
    /// The channels of each path, by source; empty: there is none.
    pub paths: Vec<Vec<u32>>,
    /// The sum of their costs.
    pub cost: u64,
}

/// The state of searches, and the load of each channel.
pub(super) struct Search<'a> {
    graph: &'a Graph,
    /// The paths over each channel.
    loads: Vec<u64>,
    waiting: BinaryHeap<Reverse<Candidate>>,
    /// The channel behind each channel that was reached.
    after: Vec<u32>,
    is_reached: Vec<bool>,
    /// The cheapest channel of each node.
    first: Vec<u32>,
    added: Vec<Turn>,
    rejected: Vec<Turn>,
}

impl<'a> Search<'a> {
    pub fn new(graph: &'a Graph) -> Search<'a> {
        let channels = graph.channels() as usize;
        Search {
            graph,
            loads: vec![0; channels],
            waiting: BinaryHeap::new(),
            after: vec![NONE; channels],
            is_reached: vec![false; channels],
            first: vec![NONE; graph.nodes() as usize],
            added: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Finds paths to a target over allowed channels, and adds the dependencies of all channels
    /// that it met to `kept`; [`Search::undo`] removes them.
    pub fn run(
        &mut self,
        kept: &mut Acyclic<'_>,
        target: u32,
        allowed: impl Fn(u32) -> bool,
    ) -> Found {
        self.waiting.clear();
        self.added.clear();
        self.is_reached.fill(false);
        self.first.fill(NONE);
        let graph = self.graph;
        let mut cost = 0;
        let mut missing = graph.nodes() - 1;
        let last = graph.entering(target).filter(|&channel| allowed(channel));
        last.for_each(|channel| self.push(0, channel, NONE));
        while let Some(Reverse(best)) = self.waiting.pop() {
            let Candidate { channel, after, .. } = best;
            if self.is_reached[channel as usize] || !self.turns(kept, channel, after) {
                continue;
            }
            self.is_reached[channel as usize] = true;
            self.after[channel as usize] = after;
            let node = graph.from(channel);
            if self.first[node as usize] == NONE {
                self.first[node as usize] = channel;
                cost += best.cost;
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
            let before = graph.entering(node).filter(|&of| {
                let returns = of == graph.opposite(channel) || graph.from(of) == target;
                !returns && !self.is_reached[of as usize] && allowed(of)
            });
            let before: Vec<u32> = before.collect();
            before.into_iter().for_each(|of| self.push(best.cost, of, channel));
        }
        let paths = (0..graph.nodes()).map(|source| self.path(source)).collect();
        Found { paths, cost }
    }

    fn push(&mut self, cost: u64, channel: u32, after: u32) {
        let cost = cost + LINK + self.loads[channel as usize];
        self.waiting.push(Reverse(Candidate { cost, channel, after }));
    }

    /// Adds the dependency between two channels. Returns false if it would close a cycle.
    fn turns(&mut self, kept: &mut Acyclic<'_>, from: u32, to: u32) -> bool {
        let turn = Turn { from, to };
        if to == NONE || kept.has(turn) {
            return true;
        }
        let fits = kept.add(turn);
        if fits {
            self.added.push(turn)
        } else {
            self.rejected.push(turn)
        }
        fits
    }

    fn path(&self, source: u32) -> Vec<u32> {
        let mut channel = self.first[source as usize];
        let mut path = Vec::new();
        while channel != NONE {
            path.push(channel);
            channel = self.after[channel as usize];
        }
        path
    }

    /// Removes the dependencies that the last search added.
    pub fn undo(&mut self, kept: &mut Acyclic<'_>) {
        self.added.drain(..).for_each(|turn| kept.remove(turn));
    }

    /// Keeps the dependencies of paths for all later searches.
    pub fn keep(&mut self, kept: &mut Acyclic<'_>, found: &Found) {
        for path in &found.paths {
            path.iter().for_each(|&channel| self.loads[channel as usize] += 1);
            for pair in path.windows(2) {
                kept.add(Turn { from: pair[0], to: pair[1] });
            }
        }
        self.rejected.drain(..).for_each(|turn| kept.note_closing(turn));
    }
}
