//! The trait of traffic: messages of every node, one after the other.

use super::{Message, Traffic};
use crate::Instant;

/// The traffic of all nodes. [`Traffic`] and [`Replay`](super::Replay) are workloads; a program may
/// write its own, see `examples/own_traffic.rs`.
///
/// A workload takes its random numbers from its own seed, and asks nothing of the network, so that
/// equal seeds give equal runs.
pub trait Workload: Send {
    /// Returns the number of nodes; they are numbered from 0.
    fn nodes(&self) -> u32;

    /// Returns the next message of a node.
    ///
    /// Open loop: its time is not before that of the node's previous message, and may be later than
    /// now; the next call for this node comes then. `None`: the node sends nothing any more.
    ///
    /// Closed loop: the message is sent now. `None`: the node waits until one of its messages is
    /// delivered.
    fn next(&mut self, source: u32, now: Instant) -> Option<Message>;

    /// Reports that a message of `source` was delivered, or was lost.
    fn delivered(&mut self, source: u32) {
        let _ = source;
    }

    /// Reports that a node that crashed has started again: nothing of it is under way, and its next
    /// message is not from before now.
    fn restarted(&mut self, source: u32, now: Instant) {
        let _ = (source, now);
    }

    /// Returns true for a closed loop: deliveries make a node send.
    fn is_closed_loop(&self) -> bool {
        false
    }
}

impl Workload for Traffic {
    fn nodes(&self) -> u32 {
        self.plan().nodes
    }

    fn next(&mut self, source: u32, now: Instant) -> Option<Message> {
        Traffic::next(self, source, now)
    }

    fn delivered(&mut self, source: u32) {
        Traffic::delivered(self, source);
    }

    fn restarted(&mut self, source: u32, now: Instant) {
        Traffic::resume(self, source, now);
    }

    fn is_closed_loop(&self) -> bool {
        matches!(self.plan().arrivals, super::Arrivals::Window { .. })
    }
}

impl Workload for Box<dyn Workload> {
    fn nodes(&self) -> u32 {
        (**self).nodes()
    }

    fn next(&mut self, source: u32, now: Instant) -> Option<Message> {
        (**self).next(source, now)
    }

    fn delivered(&mut self, source: u32) {
        (**self).delivered(source);
    }

    fn restarted(&mut self, source: u32, now: Instant) {
        (**self).restarted(source, now);
    }

    fn is_closed_loop(&self) -> bool {
        (**self).is_closed_loop()
    }
}
