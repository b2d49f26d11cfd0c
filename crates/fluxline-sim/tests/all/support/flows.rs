//! Flows: each keeps a number of messages under way from one node to another.

use fluxline_sim::Instant;
use fluxline_sim::load::traffic::{Message, Workload};

pub struct Flows {
    nodes: u32,
    bytes: u32,
    window: u32,
    flows: Vec<[u32; 2]>,
    /// Messages of each flow under way.
    pending: Vec<u32>,
}

impl Flows {
    /// Flows from source to target; a node has at most one.
    pub fn new(nodes: u32, window: u32, bytes: u32, flows: &[[u32; 2]]) -> Box<Flows> {
        let (pending, flows) = (vec![0; flows.len()], flows.to_vec());
        Box::new(Flows { nodes, bytes, window, flows, pending })
    }

    fn flow_of(&self, source: u32) -> Option<usize> {
        self.flows.iter().position(|&[from, _]| from == source)
    }
}

impl Workload for Flows {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn next(&mut self, source: u32, now: Instant) -> Option<Message> {
        let flow = self.flow_of(source).filter(|&flow| self.pending[flow] < self.window)?;
        self.pending[flow] += 1;
        let [_, to] = self.flows[flow];
        Some(Message { at: now, source, to, bytes: self.bytes, event: 0 })
    }

    fn delivered(&mut self, source: u32) {
        if let Some(flow) = self.flow_of(source) {
            self.pending[flow] -= 1;
        }
    }

    fn is_closed_loop(&self) -> bool {
        true
    }
}
