//! Dependencies between channels that are kept free of cycles while they grow.
//!
//! Every channel has a rank, and depends on channels of higher ranks alone. A dependency against
//! this order changes the ranks of the channels between, unless it would close a cycle. Source: D.
//! Pearce, P. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", ACM J.
//! Exp. Algorithmics 11 (2007).

use super::graph::Graph;

/// A dependency: packets go from one channel to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub from: u32,
    pub to: u32,
}

/// Dependencies without cycles.
#[derive(Clone, Debug)]
pub(super) struct Acyclic<'a> {
    graph: &'a Graph,
    /// The next ports of each channel, as bits.
    next: Vec<u64>,
    /// Next ports that would close a cycle of kept dependencies.
    closing: Vec<u64>,
    ranks: Vec<u32>,
    /// The number of the search that met a channel last.
    met: Vec<u32>,
    searches: u32,
    ahead: Vec<u32>,
    behind: Vec<u32>,
}

impl<'a> Acyclic<'a> {
    pub fn new(graph: &'a Graph) -> Acyclic<'a> {
        let count = graph.channels() as usize;
        Acyclic {
            graph,
            next: vec![0; count],
            closing: vec![0; count],
            ranks: (0..count as u32).collect(),
            met: vec![0; count],
            searches: 0,
            ahead: Vec::new(),
            behind: Vec::new(),
        }
    }

    fn bit(&self, turn: Turn) -> u64 {
        1 << (turn.to % self.graph.ports())
    }

    pub fn has(&self, turn: Turn) -> bool {
        self.next[turn.from as usize] & self.bit(turn) != 0
    }

    /// Adds a dependency. Returns false if it would close a cycle.
    pub fn add(&mut self, turn: Turn) -> bool {
        if self.has(turn) {
            return true;
        }
        if self.closing[turn.from as usize] & self.bit(turn) != 0 || !self.make_room(turn) {
            return false;
        }
        self.next[turn.from as usize] |= self.bit(turn);
        true
    }

    /// Removes a dependency.
    pub fn remove(&mut self, turn: Turn) {
        self.next[turn.from as usize] &= !self.bit(turn);
    }

    /// Notes that a dependency closes a cycle with others that are never removed, if it does.
    pub fn note_closing(&mut self, turn: Turn) {
        let Turn { from, to } = turn;
        let is_against = self.ranks[to as usize] < self.ranks[from as usize];
        if is_against && !self.look_ahead(to, from) {
            self.closing[from as usize] |= self.bit(turn);
        }
    }

    /// Moves channels so that the first channel of a turn comes before the second. Returns false
    /// if the second already depends on the first.
    fn make_room(&mut self, Turn { from, to }: Turn) -> bool {
        let (least, most) = (self.ranks[to as usize], self.ranks[from as usize]);
        if most < least {
            return true;
        }
        if from == to || !self.look_ahead(to, from) {
            return false;
        }
        self.look_behind(from, least);
        let ranks = &self.ranks;
        let by_rank = |&channel: &u32| ranks[channel as usize];
        self.ahead.sort_unstable_by_key(by_rank);
        self.behind.sort_unstable_by_key(by_rank);
        let all = self.behind.iter().chain(&self.ahead).copied();
        let all: Vec<u32> = all.collect();
        let mut free: Vec<u32> = all.iter().map(|&channel| ranks[channel as usize]).collect();
        free.sort_unstable();
        for (channel, rank) in all.into_iter().zip(free) {
            self.ranks[channel as usize] = rank;
        }
        true
    }

    fn is_first_meeting(&mut self, channel: u32) -> bool {
        std::mem::replace(&mut self.met[channel as usize], self.searches) != self.searches
    }

    /// Collects the channels that follow `start` up to the rank of `goal`. Returns false if `goal`
    /// is one of them.
    fn look_ahead(&mut self, start: u32, goal: u32) -> bool {
        self.searches += 1;
        self.ahead.clear();
        self.ahead.push(start);
        self.is_first_meeting(start);
        let most = self.ranks[goal as usize];
        let mut index = 0;
        while let Some(&channel) = self.ahead.get(index) {
            index += 1;
            let first = self.graph.to(channel) * self.graph.ports();
            let mut ports = self.next[channel as usize];
            while ports != 0 {
                let next = first + ports.trailing_zeros();
                ports &= ports - 1;
                if next == goal {
                    return false;
                }
                if self.ranks[next as usize] < most && self.is_first_meeting(next) {
                    self.ahead.push(next);
                }
            }
        }
        true
    }

    /// Collects the channels before `start`, down to a rank.
    fn look_behind(&mut self, start: u32, least: u32) {
        self.searches += 1;
        self.behind.clear();
        self.behind.push(start);
        self.is_first_meeting(start);
        let graph = self.graph;
        let mut index = 0;
        while let Some(&channel) = self.behind.get(index) {
            index += 1;
            for before in graph.entering(graph.from(channel)) {
                let is_before = self.has(Turn { from: before, to: channel });
                if is_before && self.ranks[before as usize] > least && self.is_first_meeting(before)
                {
                    self.behind.push(before);
                }
            }
        }
    }
}
