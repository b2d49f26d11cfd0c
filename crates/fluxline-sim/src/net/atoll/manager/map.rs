//! The manager's map of the network: its nodes, links and their states.

use std::collections::{BTreeMap, VecDeque};

use super::letter::{Link, Notice};
use super::serial::Serial;

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// Its agent answers.
    Present,
    /// Its agent does not answer. The chip may still pass messages on, but no route uses it.
    Silent,
    /// No link leads to it.
    #[default]
    Unreachable,
}

/// A node of the map. Its index is the node's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// The chip.
    pub serial: Serial,
    /// The state.
    pub state: NodeState,
    /// The far end of each link port.
    pub ends: [Option<MapEnd>; 4],
    /// The number of the newest notice that the map contains.
    pub number: u32,
    /// Its links that ended because a neighbour heard nothing from it.
    pub silent_links: u8,
}

/// An end of a link on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapEnd {
    /// The id of the node.
    pub node: u32,
    /// The link port.
    pub port: u8,
}

/// The nodes and links that a manager knows. Ids are given in the order of discovery, and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    nodes: Vec<MapNode>,
    ids: BTreeMap<Serial, u32>,
}

/// The effect of a notice on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing new.
    No,
    /// Links or states have changed.
    Links,
    /// Chips behind a link that the map does not show.
    Unknown,
}

impl Map {
    /// Returns the nodes, by id.
    #[must_use]
    pub fn nodes(&self) -> &[MapNode] {
        &self.nodes
    }

    /// Returns the id of a chip.
    #[must_use]
    pub fn id_of(&self, serial: Serial) -> Option<u32> {
        self.ids.get(&serial).copied()
    }

    /// Returns the links, each once: from the end with the smaller id and port.
    pub fn links(&self) -> impl Iterator<Item = [MapEnd; 2]> + '_ {
        let ends = (0..).zip(&self.nodes).flat_map(|(node, of)| {
            let ports = (0..).zip(of.ends);
            ports.filter_map(move |(port, end)| Some([MapEnd { node, port }, end?]))
        });
        ends.filter(|[near, far]| near < far)
    }

    /// Returns the ids of the nodes that answer.
    pub fn present(&self) -> impl Iterator<Item = u32> + '_ {
        let all = (0..).zip(&self.nodes);
        all.filter(|(_, node)| node.state == NodeState::Present).map(|(id, _)| id)
    }

    /// Forgets links and states, but not ids.
    pub fn clear(&mut self) {
        for node in &mut self.nodes {
            (node.state, node.ends) = (NodeState::Unreachable, [None; 4]);
        }
    }

    /// Adds a chip that answers; returns its id.
    pub fn add(&mut self, serial: Serial) -> u32 {
        let next = self.nodes.len() as u32;
        let id = *self.ids.entry(serial).or_insert(next);
        if id == next {
            let (state, ends) = (NodeState::Present, [None; 4]);
            self.nodes.push(MapNode { serial, state, ends, number: 0, silent_links: 0 });
        }
        let node = &mut self.nodes[id as usize];
        (node.state, node.silent_links) = (NodeState::Present, 0);
        id
    }

    /// Notes the number of the newest notice of a node.
    pub fn set_number(&mut self, id: u32, number: u32) {
        self.nodes[id as usize].number = number;
    }

    /// Joins two ends.
    pub fn join(&mut self, near: MapEnd, far: MapEnd) {
        self.cut(near);
        self.cut(far);
        self.nodes[near.node as usize].ends[usize::from(near.port)] = Some(far);
        self.nodes[far.node as usize].ends[usize::from(far.port)] = Some(near);
        self.nodes[far.node as usize].silent_links = 0;
    }

    /// Removes the link at an end. Returns true if there was one.
    pub fn cut(&mut self, near: MapEnd) -> bool {
        let Some(far) = self.nodes[near.node as usize].ends[usize::from(near.port)].take() else {
            return false;
        };
        self.nodes[far.node as usize].ends[usize::from(far.port)] = None;
        true
    }

    /// Removes the links of a node whose agent does not answer. Returns true if it was present.
    pub fn silence(&mut self, id: u32) -> bool {
        (0..4).for_each(|port| {
            self.cut(MapEnd { node: id, port });
        });
        let state = &mut self.nodes[id as usize].state;
        std::mem::replace(state, NodeState::Silent) == NodeState::Present
    }

    /// Applies a notice.
    pub fn apply(&mut self, notice: &Notice) -> Change {
        let Some(id) = self.id_of(notice.serial) else { return Change::Unknown };
        let node = &mut self.nodes[id as usize];
        if notice.number <= node.number {
            return Change::No;
        }
        node.number = notice.number;
        if node.state != NodeState::Present {
            return Change::Unknown;
        }
        let mut change = Change::No;
        for (port, link) in (0..).zip(notice.links) {
            match self.apply_link(MapEnd { node: id, port }, link) {
                Change::No => {}
                Change::Links if change == Change::No => change = Change::Links,
                Change::Links => {}
                Change::Unknown => change = Change::Unknown,
            }
        }
        change
    }

    fn apply_link(&mut self, near: MapEnd, link: Link) -> Change {
        let known = self.nodes[near.node as usize].ends[usize::from(near.port)];
        let found = match link {
            Link::Up(neighbour) => neighbour,
            Link::New => return Change::No,
            Link::Down => return if self.cut(near) { Change::Links } else { Change::No },
            Link::Silent => {
                self.cut(near);
                if let Some(far) = known {
                    self.suspect(far.node);
                }
                return if known.is_some() { Change::Links } else { Change::No };
            }
        };
        let is_present = |id: &u32| self.nodes[*id as usize].state == NodeState::Present;
        let Some(node) = self.id_of(found.serial).filter(is_present) else {
            return Change::Unknown;
        };
        let far = MapEnd { node, port: found.port };
        if known == Some(far) {
            return Change::No;
        }
        self.join(near, far);
        Change::Links
    }

    /// Counts a link on which a node is silent. With half of its links, its agent is dead: letters
    /// must not go through it.
    fn suspect(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        node.silent_links += 1;
        let others = node.ends.iter().flatten().count();
        if usize::from(node.silent_links) >= others && node.state == NodeState::Present {
            self.silence(id);
        }
    }

    /// Marks nodes that no link joins to `from`. Returns true if one was present before.
    pub fn mark_unreachable(&mut self, from: u32) -> bool {
        let ways = self.ways(from);
        let mut has_changed = false;
        for (node, way) in self.nodes.iter_mut().zip(&ways) {
            if way.is_none() && node.state == NodeState::Present {
                (node.state, has_changed) = (NodeState::Unreachable, true);
            }
        }
        has_changed
    }

    /// Returns the ports of a shortest way from a node to each other one, by id.
    #[must_use]
    pub fn ways(&self, from: u32) -> Vec<Option<Vec<u8>>> {
        let mut ways: Vec<Option<Vec<u8>>> = vec![None; self.nodes.len()];
        let Some(start) = ways.get_mut(from as usize) else { return ways };
        *start = Some(Vec::new());
        let mut queue = VecDeque::from([from]);
        while let Some(id) = queue.pop_front() {
            let way = ways[id as usize].clone().unwrap_or_default();
            for (port, end) in (0..).zip(self.nodes[id as usize].ends) {
                let Some(end) = end else { continue };
                if ways[end.node as usize].is_none() {
                    let longer = way.iter().copied().chain([port]).collect();
                    ways[end.node as usize] = Some(longer);
                    queue.push_back(end.node);
                }
            }
        }
        ways
    }
}
