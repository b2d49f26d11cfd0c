//! Nodes with ports, joined by links.

use std::collections::VecDeque;

/// The index that stands for "nothing".
pub const NONE: u32 = u32::MAX;
/// The most ports of a node: a set of ports has 64 bits.
const PORTS_MAX: u32 = 64;
/// The most channels: a step of a route counts them in 24 bits.
const CHANNELS_MAX: u32 = 1 << 22;

/// A port of a node: one end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The node.
    pub node: u32,
    /// Its port.
    pub port: u32,
}

/// Nodes that forward packets, and links between their ports.
///
/// A link is two channels, one each way. A channel has the index of the port at which it begins:
/// node times ports plus port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    ports: u32,
    /// The channel in the other direction, by channel; [`NONE`]: the port has no link.
    opposites: Vec<u32>,
}

impl Graph {
    /// Makes a graph without links.
    ///
    /// # Errors
    /// No node, or more nodes or ports than a graph may have.
    pub fn new(nodes: u32, ports: u32) -> Result<Graph, String> {
        let channels = nodes.saturating_mul(ports);
        if nodes == 0 || !(1..=PORTS_MAX).contains(&ports) || channels > CHANNELS_MAX {
            return Err(format!(
                "{nodes} nodes of {ports} ports: give at least a node, 1 to {PORTS_MAX} ports, and \
                 at most {CHANNELS_MAX} ports in all"
            ));
        }
        Ok(Graph { ports, opposites: vec![NONE; channels as usize] })
    }

    /// Makes a graph from the opposite of each channel, or [`NONE`].
    pub(crate) fn of_opposites(ports: u32, opposites: Vec<u32>) -> Graph {
        Graph { ports, opposites }
    }

    /// Joins two ports by a link.
    ///
    /// # Errors
    /// A port that does not exist or has a link, or a link from a node to itself.
    pub fn join(&mut self, one: End, other: End) -> Result<(), String> {
        let text = format!("port {} of node {}", one.port, one.node);
        let text = format!("a link from {text} to port {} of node {}", other.port, other.node);
        let (Some(near), Some(far)) = (self.channel(one), self.channel(other)) else {
            let (nodes, ports) = (self.nodes(), self.ports);
            return Err(format!("{text}: there are {nodes} nodes of {ports} ports"));
        };
        if one.node == other.node {
            return Err(format!("{text}: join two different nodes"));
        }
        if self.opposites[near as usize] != NONE || self.opposites[far as usize] != NONE {
            return Err(format!("{text}: one of them already has a link"));
        }
        self.opposites[near as usize] = far;
        self.opposites[far as usize] = near;
        Ok(())
    }

    /// Removes the link at a port, in both directions. Returns false if there is none.
    pub fn remove_link(&mut self, end: End) -> bool {
        let Some(near) = self.channel(end) else { return false };
        let far = std::mem::replace(&mut self.opposites[near as usize], NONE);
        if far != NONE {
            self.opposites[far as usize] = NONE;
        }
        far != NONE
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.opposites.len() as u32 / self.ports
    }

    /// Returns the number of ports of each node.
    #[must_use]
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// Returns the number of channels, those without a link included.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.opposites.len() as u32
    }

    /// Returns the channel that begins at a port, if the port exists.
    #[must_use]
    pub fn channel(&self, end: End) -> Option<u32> {
        let exists = end.port < self.ports && end.node < self.nodes();
        exists.then(|| end.node * self.ports + end.port)
    }

    /// Returns the port at which a channel begins.
    #[must_use]
    pub fn start(&self, channel: u32) -> End {
        End { node: channel / self.ports, port: channel % self.ports }
    }

    /// Returns the port at which a channel ends; `None`: it has no link.
    #[must_use]
    pub fn end(&self, channel: u32) -> Option<End> {
        let opposite = self.opposite(channel);
        (opposite != NONE).then(|| self.start(opposite))
    }

    /// Returns the channel in the other direction, or [`NONE`].
    #[inline]
    #[must_use]
    pub fn opposite(&self, channel: u32) -> u32 {
        self.opposites[channel as usize]
    }

    /// Returns the channels that leave a node.
    pub fn leaving(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let all = node * self.ports..(node + 1) * self.ports;
        all.filter(|&channel| self.opposites[channel as usize] != NONE)
    }

    /// Returns the channels that reach a node.
    pub fn entering(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.leaving(node).map(|channel| self.opposites[channel as usize])
    }

    /// Returns the node at which a channel begins.
    #[inline]
    #[must_use]
    pub fn from(&self, channel: u32) -> u32 {
        channel / self.ports
    }

    /// Returns the node at which a linked channel ends.
    #[inline]
    #[must_use]
    pub fn to(&self, channel: u32) -> u32 {
        self.opposites[channel as usize] / self.ports
    }

    /// Returns the links from each node to one node; [`NONE`]: there is no path.
    #[must_use]
    pub fn distances(&self, target: u32) -> Vec<u32> {
        let mut far = vec![NONE; self.nodes() as usize];
        far[target as usize] = 0;
        let mut waiting = VecDeque::from([target]);
        while let Some(node) = waiting.pop_front() {
            for channel in self.leaving(node) {
                let next = self.to(channel) as usize;
                if far[next] == NONE {
                    far[next] = far[node as usize] + 1;
                    waiting.push_back(next as u32);
                }
            }
        }
        far
    }

    /// Returns the number of nodes that have a path to a node, itself included.
    #[must_use]
    pub fn reaches(&self, node: u32) -> usize {
        self.distances(node).iter().filter(|&&links| links != NONE).count()
    }

    /// Returns the nodes in the middle: those whose farthest node is nearest, best first by the
    /// sum of distances. Only nodes of the largest part of the graph count.
    #[must_use]
    pub fn centre(&self) -> Vec<u32> {
        let mut all: Vec<Middle> = (0..self.nodes()).map(|node| self.middle(node)).collect();
        all.sort();
        let best = all.first().map(|of| of.farthest);
        let best =
            all.iter().take_while(|of| Some(of.farthest) == best && of.reaches == all[0].reaches);
        best.map(|of| of.node).collect()
    }

    fn middle(&self, node: u32) -> Middle {
        let far = self.distances(node);
        let reached = far.iter().filter(|&&links| links != NONE);
        let farthest = reached.clone().copied().max().unwrap_or(0);
        let total = reached.clone().map(|&links| u64::from(links)).sum();
        Middle { reaches: std::cmp::Reverse(reached.count()), farthest, total, node }
    }
}

/// The position of a node in a graph; smaller is more central.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Middle {
    reaches: std::cmp::Reverse<usize>,
    farthest: u32,
    total: u64,
    node: u32,
}
