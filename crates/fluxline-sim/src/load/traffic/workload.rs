//! The trait of traffic: messages of every node, one after the other.

use super::{EventCounts, Message, Traffic};
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
    /// Closed loop: the message is sent now; its time may be earlier, and its latency begins then.
    /// `None`: the node waits until one of its messages is delivered, until the next moment, or
    /// until it is ready.
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

    /// Reports that a message has arrived at its target.
    fn arrived(&mut self, message: &Message, now: Instant) {
        let _ = (message, now);
    }

    /// Returns a node that may have a message to send, because of an arrival or a moment, in a
    /// closed loop.
    fn ready(&mut self) -> Option<u32> {
        None
    }

    /// Returns the next time at which the workload changes by itself, in a closed loop.
    fn next_moment(&self) -> Option<Instant> {
        None
    }

    /// Changes at a moment. It may come when nothing is due.
    fn moment(&mut self, now: Instant) {
        let _ = now;
    }

    /// Returns false for a message that only controls others: it is sent and counts nowhere.
    fn is_payload(&self, message: &Message) -> bool {
        let _ = message;
        true
    }

    /// Returns the counts of events; `None`: the workload builds none.
    fn events(&self) -> Option<&EventCounts> {
        None
    }

    /// Begins to measure: counts of events start anew.
    fn begin(&mut self, now: Instant) {
        let _ = now;
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

    fn arrived(&mut self, message: &Message, now: Instant) {
        (**self).arrived(message, now);
    }

    fn ready(&mut self) -> Option<u32> {
        (**self).ready()
    }

    fn next_moment(&self) -> Option<Instant> {
        (**self).next_moment()
    }

    fn moment(&mut self, now: Instant) {
        (**self).moment(now);
    }

    fn is_payload(&self, message: &Message) -> bool {
        (**self).is_payload(message)
    }

    fn events(&self) -> Option<&EventCounts> {
        (**self).events()
    }

    fn begin(&mut self, now: Instant) {
        (**self).begin(now);
    }

    fn is_closed_loop(&self) -> bool {
        (**self).is_closed_loop()
    }
}
