//! What is noted of each message while a model runs.

use crate::Duration;
use crate::statistics::{Histogram, Series};

/// The amount of detail that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Everything that an outcome has.
    Full,
    /// Counts alone: to see what the rest costs.
    Counts,
}

/// Counts messages and their latencies. Memory: 66 KiB and 8 bytes a node.
#[derive(Clone, Debug)]
pub struct Observer {
    detail: Detail,
    pub(super) offered_bytes: u64,
    pub(super) refused_bytes: u64,
    pub(super) accepted_bytes: Vec<u64>,
    pub(super) messages: u64,
    pub(super) histogram: Histogram,
    /// Latencies in ns, in the order of delivery.
    pub(super) series: Series,
}

impl Observer {
    /// For a model with so many nodes.
    #[must_use]
    pub fn new(nodes: u32, detail: Detail) -> Observer {
        Observer {
            detail,
            offered_bytes: 0,
            refused_bytes: 0,
            accepted_bytes: vec![0; nodes as usize],
            messages: 0,
            histogram: Histogram::default(),
            series: Series::default(),
        }
    }

    /// A message was made, whether the network takes it or not.
    pub fn offered(&mut self, bytes: u32) {
        self.offered_bytes += u64::from(bytes);
    }

    /// A message that was offered was thrown away at its source, whose queue was full.
    pub fn refused(&mut self, bytes: u32) {
        self.refused_bytes += u64::from(bytes);
    }

    /// A message was delivered to `node`, `latency` after it was offered.
    pub fn delivered(&mut self, node: u32, bytes: u32, latency: Duration) {
        self.messages += 1;
        if let Some(accepted) = self.accepted_bytes.get_mut(node as usize) {
            *accepted += u64::from(bytes);
        }
        if self.detail == Detail::Full {
            self.histogram.add(latency);
            self.series.add(latency.as_ps() as f64 / 1e3);
        }
    }

    /// Messages that were delivered.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns true if the start is over: leaving out less than half of the latencies makes the
    /// mean of the rest surest, and at most a tenth of what was offered is still under way (MSER
    /// alone is content with latencies that grow slowly for ever).
    pub(super) fn has_settled(&self) -> bool {
        let done = self.accepted_bytes.iter().sum::<u64>() + self.refused_bytes;
        self.series.start().is_some() && done >= self.offered_bytes - self.offered_bytes / 10
    }

    /// Begins anew, as at the end of the warm-up.
    pub(super) fn reset(&mut self) {
        *self = Observer::new(self.accepted_bytes.len() as u32, self.detail);
    }
}
