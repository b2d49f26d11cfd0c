//! The counts of the topic of `[sink.kafka]`, as commits have them.

use serde::{Deserialize, Serialize};

/// The events of batches by their place in the topic of `[sink.kafka]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkSums {
    /// Events whose records are all in the topic.
    pub sent: u64,
    /// Events with a part that is larger than a record may be.
    pub refused: u64,
    /// Events without a value that the schema takes.
    pub unmapped: u64,
    /// Values that do not fit into the schema.
    pub misfits: u64,
}

impl SinkSums {
    /// Adds the sums of other batches.
    pub fn add(&mut self, other: &SinkSums) {
        self.sent = self.sent.saturating_add(other.sent);
        self.refused = self.refused.saturating_add(other.refused);
        self.unmapped = self.unmapped.saturating_add(other.unmapped);
        self.misfits = self.misfits.saturating_add(other.misfits);
    }
}
