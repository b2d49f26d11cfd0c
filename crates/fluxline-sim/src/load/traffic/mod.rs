//! Generated traffic: senders, receivers, sizes and times, drawn from a seed, the same for every
//! network.
//!
//! A [`Traffic`] makes the messages of all nodes. Open loops ([`Arrivals::Poisson`],
//! [`Arrivals::Periodic`]) offer a load even if the network cannot follow; a closed loop
//! ([`Arrivals::Window`]) sends the next message when an earlier one has been delivered.

pub mod events;
pub mod pattern;
pub mod replay;
pub mod size;
pub mod workload;

use fluxline_core::random::Draw;

pub use events::{BuildOrder, Building, EventCounts, Events};
pub use pattern::Pattern;
pub use replay::Replay;
pub use size::Size;
pub use workload::Workload;

use crate::Instant;

/// The arrival of a node's messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Open loop, exponential times between messages.
    Poisson {
        /// Mean rate of a node \[bytes of messages a second\].
        bytes_per_s: f64,
    },
    /// Open loop, equal times between messages; nodes begin at random within the first of them.
    Periodic {
        /// Rate of a node \[bytes of messages a second\].
        bytes_per_s: f64,
    },
    /// No node sends anything.
    Silent,
    /// Closed loop: a fixed number of messages of each node are under way.
    Window {
        /// The number of messages under way; at least 1.
        messages: u32,
    },
}

/// The traffic plan of all nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The number of nodes; they are numbered from 0.
    pub nodes: u32,
    /// The pattern of receivers.
    pub pattern: Pattern,
    /// The arrival of messages.
    pub arrivals: Arrivals,
    /// The size of a message.
    pub size: Size,
    /// The seed of all random choices.
    pub seed: u64,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The time at which it is handed to the network.
    pub at: Instant,
    /// The sender.
    pub source: u32,
    /// The receiver; never the source.
    pub to: u32,
    /// Its length.
    pub bytes: u32,
    /// Event building: the number of the event; otherwise the number of earlier messages of the
    /// source.
    pub event: u64,
}

/// The reason why a plan is invalid, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("traffic: {0}")]
pub struct PlanError(pub(crate) String);

#[derive(Clone, Debug)]
struct Source {
    draw: Draw,
    /// Messages made.
    count: u64,
    /// The due time of the next message of an open loop \[ps\]; fractions are kept.
    due_ps: f64,
    /// Messages of a closed loop under way.
    pending: u32,
}

/// The messages of a plan.
#[derive(Clone, Debug)]
pub struct Traffic {
    plan: Plan,
    sources: Vec<Source>,
    /// The load of each node relative to the others; empty: all are equal.
    loads: Vec<f64>,
}

impl Traffic {
    /// Makes the traffic of a plan.
    ///
    /// # Errors
    /// When the pattern does not fit the number of nodes, a rate or a size is not positive or not
    /// finite, or a window is empty.
    pub fn new(plan: Plan) -> Result<Traffic, PlanError> {
        plan.pattern.check(plan.nodes)?;
        plan.size.check()?;
        plan.check_arrivals()?;
        let mut seeds = Draw::new(plan.seed);
        let mut sources = Vec::new();
        for _ in 0..plan.nodes {
            let draw = Draw::new(seeds.bits());
            sources.push(Source { draw, count: 0, due_ps: 0.0, pending: 0 });
        }
        let mut traffic = Traffic { plan, sources, loads: Vec::new() };
        traffic.draw_phases();
        Ok(traffic)
    }

    /// Sets the load of each node relative to the others, beside that of the pattern; a node with 0
    /// is silent. In a closed loop, only 0 has an effect.
    ///
    /// # Errors
    /// When there is not one number for each node, or one is negative, not finite or too large.
    pub fn with_loads(mut self, loads: Vec<f64>) -> Result<Traffic, PlanError> {
        if loads.len() != self.sources.len() {
            let (loads, nodes) = (loads.len(), self.sources.len());
            return Err(PlanError(format!("{loads} loads for {nodes} nodes: give one for each")));
        }
        for (source, &load) in self.sources.iter_mut().zip(&loads) {
            if !(load >= 0.0 && load.is_finite()) {
                return Err(PlanError(format!("a load of {load}: give a number of 0 or more")));
            }
            if load > 0.0 {
                source.due_ps /= load;
            }
        }
        let most = loads.iter().copied().fold(1.0, f64::max);
        if !matches!(self.plan.arrivals, Arrivals::Window { .. } | Arrivals::Silent)
            && self.plan.shortest_ps() / most < 1.0
        {
            return Err(PlanError("messages less than 1 ps apart: give a lower rate".into()));
        }
        self.loads = loads;
        Ok(self)
    }

    /// Returns the load of a node as a multiple of the plan's.
    fn weight(&self, source: u32) -> f64 {
        let load = self.loads.get(source as usize).copied().unwrap_or(1.0);
        load * self.plan.pattern.weight(source, self.plan.nodes)
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the next message of a node. Open loop: the message's time may be later than now; ask
    /// again then. Closed loop: the time is now; `None` while the window is full. Also `None` for a
    /// node that does not send in this pattern.
    pub fn next(&mut self, source: u32, now: Instant) -> Option<Message> {
        let weight = self.weight(source);
        let state = self.sources.get_mut(source as usize).filter(|_| weight > 0.0)?;
        let at = match self.plan.arrivals {
            Arrivals::Window { messages } => {
                if state.pending >= messages {
                    return None;
                }
                state.pending += 1;
                now
            }
            Arrivals::Silent => return None,
            Arrivals::Poisson { .. } => {
                let interval = self.plan.interval_ps(weight);
                state.due_ps += exponential(&mut state.draw) * interval;
                Instant::from_ps(state.due_ps as u64)
            }
            Arrivals::Periodic { .. } => {
                let at = Instant::from_ps(state.due_ps as u64);
                state.due_ps += self.plan.interval_ps(weight);
                at
            }
        };
        let count = state.count;
        state.count += 1;
        let to = self.plan.pattern.target(source, self.plan.nodes, &mut state.draw);
        let bytes = self.plan.size.draw(&mut state.draw);
        Some(Message { at, source, to, bytes, event: count })
    }

    /// Reports the delivery of a message of `source`: its window has room for one more.
    pub fn delivered(&mut self, source: u32) {
        if let Some(state) = self.sources.get_mut(source as usize) {
            state.pending = state.pending.saturating_sub(1);
        }
    }

    /// Lets a source that crashed begin again: nothing of it is under way, and its next message is
    /// not from before now.
    pub fn resume(&mut self, source: u32, now: Instant) {
        if let Some(state) = self.sources.get_mut(source as usize) {
            state.pending = 0;
            state.due_ps = state.due_ps.max(now.as_ps() as f64);
        }
    }

    fn draw_phases(&mut self) {
        if !matches!(self.plan.arrivals, Arrivals::Periodic { .. }) {
            return;
        }
        for (node, source) in self.sources.iter_mut().enumerate() {
            let weight = self.plan.pattern.weight(node as u32, self.plan.nodes);
            if weight > 0.0 {
                source.due_ps = uniform(&mut source.draw) * self.plan.interval_ps(weight);
            }
        }
    }
}

/// Most messages of a node under way. Assumed: the messages of 65,536 nodes still fit into memory.
const WINDOW_MAX: u32 = 1 << 12;

impl Plan {
    fn check_arrivals(&self) -> Result<(), PlanError> {
        let problem = match self.arrivals {
            Arrivals::Window { messages } if messages == 0 || messages > WINDOW_MAX => {
                format!("a window of {messages} messages: give 1 or more, up to {WINDOW_MAX}")
            }
            Arrivals::Poisson { bytes_per_s } | Arrivals::Periodic { bytes_per_s }
                if !(bytes_per_s > 0.0 && bytes_per_s.is_finite()) =>
            {
                format!("a rate of {bytes_per_s} bytes/s: give a positive number")
            }
            Arrivals::Poisson { .. } | Arrivals::Periodic { .. } if self.shortest_ps() < 1.0 => {
                "messages less than 1 ps apart: give a lower rate".into()
            }
            _ => return Ok(()),
        };
        Err(PlanError(problem))
    }

    /// Mean time between messages of the node that sends most \[ps\].
    fn shortest_ps(&self) -> f64 {
        let factor =
            if let Pattern::HotSender { factor, .. } = self.pattern { factor } else { 1.0 };
        self.interval_ps(factor.max(1.0))
    }

    /// Mean time between messages of a node that sends `weight` times the load \[ps\].
    fn interval_ps(&self, weight: f64) -> f64 {
        match self.arrivals {
            Arrivals::Poisson { bytes_per_s } | Arrivals::Periodic { bytes_per_s } => {
                self.size.mean() / (bytes_per_s * weight) * 1e12
            }
            Arrivals::Window { .. } | Arrivals::Silent => 0.0,
        }
    }
}

/// Returns a random number above 0, at most 1.
fn uniform(draw: &mut Draw) -> f64 {
    ((draw.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Returns an exponential random number with mean 1.
fn exponential(draw: &mut Draw) -> f64 {
    -uniform(draw).ln()
}

#[cfg(test)]
mod tests;
