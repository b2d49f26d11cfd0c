//! Counts and latencies of messages while a model runs.

use super::statistics::{Histogram, Series};
use super::traffic::Message;
use crate::Duration;

/// The bytes of one node in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeBytes {
    /// Bytes offered.
    pub offered: u64,
    /// Bytes delivered.
    pub delivered: u64,
}

/// Counts messages and their latencies, by source and by target. Memory: 66 KiB, and 32 bytes a
/// node.
#[derive(Clone, Debug)]
pub struct Observer {
    pub(super) offered_bytes: u64,
    pub(super) refused_bytes: u64,
    /// By the source of a message.
    pub(crate) sources: Vec<NodeBytes>,
    /// By its target.
    pub(crate) targets: Vec<NodeBytes>,
    pub(crate) delivered_bytes: u64,
    pub(super) messages: u64,
    pub(super) histogram: Histogram,
    /// Latencies in ns, in the order of delivery.
    pub(super) series: Series,
}

impl Observer {
    /// Makes an observer for a model with `nodes` nodes.
    #[must_use]
    pub fn new(nodes: u32) -> Observer {
        Observer {
            offered_bytes: 0,
            refused_bytes: 0,
            sources: vec![NodeBytes::default(); nodes as usize],
            targets: vec![NodeBytes::default(); nodes as usize],
            delivered_bytes: 0,
            messages: 0,
            histogram: Histogram::default(),
            series: Series::default(),
        }
    }

    /// Counts a message that was created, even if the network does not take it.
    pub fn offered(&mut self, message: &Message) {
        let bytes = u64::from(message.bytes);
        self.offered_bytes += bytes;
        self.sources[message.source as usize].offered += bytes;
        self.targets[message.to as usize].offered += bytes;
    }

    /// Counts an offered message that its source dropped because its queue was full.
    pub fn refused(&mut self, bytes: u32) {
        self.refused_bytes += u64::from(bytes);
    }

    /// Counts a message that was delivered, `latency` after it was offered.
    pub fn delivered(&mut self, message: &Message, latency: Duration) {
        let bytes = u64::from(message.bytes);
        self.messages += 1;
        self.delivered_bytes += bytes;
        self.sources[message.source as usize].delivered += bytes;
        self.targets[message.to as usize].delivered += bytes;
        self.histogram.add(latency);
        self.series.add(latency.as_ps() as f64 / 1e3);
    }

    /// Returns the number of delivered messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns true if the start-up is over: MSER leaves out less than half of the latencies, and
    /// at most a tenth of the offered messages are still under way (MSER alone accepts latencies
    /// that grow slowly without end).
    pub(super) fn has_settled(&self) -> bool {
        let done = self.delivered_bytes + self.refused_bytes;
        self.series.start().is_some() && done >= self.offered_bytes - self.offered_bytes / 10
    }

    /// Clears all counts, as at the end of the warm-up.
    pub(super) fn reset(&mut self) {
        *self = Observer::new(self.sources.len() as u32);
    }
}
