//! The channel dependency graph: the proof that routes cannot deadlock.
//!
//! Packets on one channel that take another channel next make the first depend on the second. Where
//! packets hold a channel until they have the next one, they can wait for each other in a circle
//! only if these dependencies have a cycle. Source: W. Dally, C. Seitz, "Deadlock-free message
//! routing in multiprocessor interconnection networks", IEEE Trans. Comp. C-36 (1987).

use std::fmt;

use super::graph::{End, Graph, NONE};
use super::set::Routes;

/// A channel of a link, in one direction and one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The port at which it begins.
    pub from: End,
    /// The port at which it ends.
    pub to: End,
    /// The virtual layer.
    pub layer: u8,
}

/// Channels, each of which depends on the next one, and the last one on the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The channels, beginning with the one of the lowest index.
    pub channels: Vec<Channel>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = self.channels.first().map_or(0, |channel| channel.layer);
        let count = self.channels.len();
        write!(out, "a cycle of {count} channels in layer {layer}: ")?;
        for (index, Channel { from, to, .. }) in self.channels.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}node {} port {} to node {}", from.node, from.port, to.node)?;
        }
        write!(out, ", and again")
    }
}

/// The dependencies between the channels of a graph, by virtual layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependencies {
    graph: Graph,
    /// The next ports of each channel as bits, by layer times channels plus channel.
    next: Vec<u64>,
}

impl Dependencies {
    /// Returns the dependencies of a set of routes.
    ///
    /// # Errors
    /// A path that leaves the graph, or that goes round without reaching its target.
    pub fn of(graph: &Graph, routes: &Routes) -> Result<Dependencies, String> {
        let mut all = Dependencies { graph: graph.clone(), next: Vec::new() };
        all.add(routes)?;
        Ok(all)
    }

    /// Adds those of other routes that are in use at the same time.
    ///
    /// # Errors
    /// As [`Dependencies::of`].
    pub fn add(&mut self, routes: &Routes) -> Result<(), String> {
        if routes.nodes() != self.graph.nodes() {
            let (nodes, of) = (self.graph.nodes(), routes.nodes());
            return Err(format!("routes of {of} nodes on a graph of {nodes}"));
        }
        let channels = self.graph.channels() as usize;
        let words = channels * usize::from(routes.layers());
        self.next.resize(words.max(self.next.len()), 0);
        for target in 0..routes.nodes() {
            for source in 0..routes.nodes() {
                self.add_path(routes, source, target)?;
            }
        }
        Ok(())
    }

    fn add_path(&mut self, routes: &Routes, source: u32, target: u32) -> Result<(), String> {
        let first = usize::from(routes.layer(source, target)) * self.graph.channels() as usize;
        let mut walk = routes.walk(&self.graph, source, target);
        let (mut before, mut last) = (NONE, source);
        for channel in walk.by_ref() {
            if before != NONE {
                self.next[first + before as usize] |= 1 << self.graph.start(channel).port;
            }
            (before, last) = (channel, self.graph.to(channel));
        }
        if walk.has_arrived() || !routes.has(source, target) {
            return Ok(());
        }
        Err(format!("the path from node {source} to node {target} ends at node {last}"))
    }

    /// Returns the number of dependencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.next.iter().map(|ports| u64::from(ports.count_ones())).sum()
    }

    /// Returns the channels that follow a channel, with their layers.
    fn after(&self, channel: u32) -> impl Iterator<Item = u32> + '_ {
        let all = self.graph.channels();
        let first = channel / all * all + self.graph.to(channel % all) * self.graph.ports();
        let mut ports = self.next[channel as usize];
        std::iter::from_fn(move || {
            let port = ports.trailing_zeros();
            ports &= ports.wrapping_sub(1);
            (port < u64::BITS).then_some(first + port)
        })
    }

    /// Returns a cycle; `None`: there is none, so the routes cannot deadlock.
    #[must_use]
    pub fn cycle(&self) -> Option<Cycle> {
        let on_cycle = self.channel_on_cycle()?;
        let mut channels = self.shortest_cycle(on_cycle);
        let least = channels.iter().enumerate().min_by_key(|&(_, channel)| channel);
        let least = least.map_or(0, |(index, _)| index);
        channels.rotate_left(least);
        let all = self.graph.channels();
        let named = channels.into_iter().map(|channel| {
            let from = self.graph.start(channel % all);
            let to = self.graph.end(channel % all).unwrap_or(from);
            Channel { from, to, layer: (channel / all) as u8 }
        });
        Some(Cycle { channels: named.collect() })
    }

    /// Searches depth first. A channel that is met again while its search is under way is on a
    /// cycle.
    fn channel_on_cycle(&self) -> Option<u32> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.next.len()];
        for start in 0..self.next.len() as u32 {
            if self.next[start as usize] == 0 || states[start as usize] != State::New {
                continue;
            }
            states[start as usize] = State::Open;
            let mut path = vec![Visit { channel: start, after: self.after(start) }];
            while let Some(visit) = path.last_mut() {
                match visit.after.next() {
                    None => {
                        states[visit.channel as usize] = State::Done;
                        path.pop();
                    }
                    Some(next) if states[next as usize] == State::Open => return Some(next),
                    Some(next) if states[next as usize] == State::New => {
                        states[next as usize] = State::Open;
                        path.push(Visit { channel: next, after: self.after(next) });
                    }
                    Some(_) => {}
                }
            }
        }
        None
    }

    /// Returns a shortest cycle through a channel that is on one.
    fn shortest_cycle(&self, start: u32) -> Vec<u32> {
        let mut before = vec![NONE; self.next.len()];
        let mut waiting = std::collections::VecDeque::from([start]);
        'search: while let Some(channel) = waiting.pop_front() {
            for next in self.after(channel) {
                if before[next as usize] == NONE {
                    before[next as usize] = channel;
                    waiting.push_back(next);
                }
                if next == start {
                    break 'search;
                }
            }
        }
        let mut cycle = vec![start];
        let mut at = before[start as usize];
        while at != start && at != NONE {
            cycle.push(at);
            at = before[at as usize];
        }
        cycle.reverse();
        cycle
    }
}

/// A channel whose search is under way.
struct Visit<I> {
    channel: u32,
    after: I,
}
