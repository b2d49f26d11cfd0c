//! Demonstrates: traffic of one's own on any network. Triggers come at random times; each makes all
//! sensors send a fragment, whose size has fluctuations, to the same builder.
//!
//! `cargo run --release -p fluxline-sim --example own_traffic`

use std::error::Error;

use fluxline_core::random::Draw;
use fluxline_sim::Instant;
use fluxline_sim::load::traffic::{Message, Workload};
use fluxline_sim::scenario::Scenario;

/// Sensors that a trigger reads out; the last node builds the events.
pub struct Triggers {
    nodes: u32,
    /// The generator of trigger times: every sensor has a copy, and so the same triggers.
    times: Vec<Draw>,
    sizes: Vec<Draw>,
    last: Vec<Instant>,
    event: Vec<u64>,
    mean_ns: u64,
}

impl Triggers {
    /// Makes the traffic of `nodes` nodes, with triggers `mean_ns` apart in the mean.
    #[must_use]
    pub fn new(nodes: u32, mean_ns: u64, seed: u64) -> Triggers {
        Triggers {
            nodes,
            times: (0..nodes).map(|_| Draw::new(seed)).collect(),
            sizes: (0..nodes).map(|node| Draw::new(seed + 1 + u64::from(node))).collect(),
            last: vec![Instant::START; nodes as usize],
            event: vec![0; nodes as usize],
            mean_ns,
        }
    }
}

impl Workload for Triggers {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn next(&mut self, source: u32, _: Instant) -> Option<Message> {
        let (node, to) = (source as usize, self.nodes - 1);
        if source == to {
            return None; // the builder
        }
        let gap_ps = self.times[node].below(2_000 * self.mean_ns);
        let at = Instant::from_ps(self.last[node].as_ps() + gap_ps);
        self.last[node] = at;
        self.event[node] += 1;
        let bytes = 64 + 8 * self.sizes[node].below(32) as u32;
        Some(Message { at, source, to, bytes, event: self.event[node] })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = "[network]\nkind = \"sci-ring\"\nnodes = 5\n[run]\nduration-us = 2000.0\n";
    let scenario = Scenario::parse("own traffic", text)?;
    for mean_us in [50, 20, 10, 5] {
        let workload = Triggers::new(5, 1_000 * mean_us, 1);
        let found = scenario.measure_workload(Box::new(workload))?;
        let (outcome, flight) = (found.outcome, found.in_flight);
        let mean_us_found = outcome.latency_ns.mean / 1e3;
        println!(
            "a trigger every {mean_us:2} us: {:5.2} us, {} messages, {flight} in flight",
            mean_us_found, outcome.messages
        );
    }
    Ok(())
}
