//! The amendments of a partition, by the labels of their sources: what became known about ranges of
//! events after these were closed. Numbers of sources differ between partitions, so labels name
//! them here.

use fluxline_daq::builder::EventKey;
use serde::{Deserialize, Serialize};

use crate::partition::PartitionBuilder;

/// Most amendments of a partition; the builder of events keeps no more.
pub const AMENDED_MAX: usize = 4096;
/// Most bytes of all labels in a list of amendments.
const LABELS_BYTES_MAX: usize = 200_000;

/// A range of events for which a source sent nothing more, or in which packets of it are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AmendedSource {
    /// The source's node.
    pub node: u16,
    /// The source's label.
    pub label: String,
    /// The last event before the range.
    pub after: EventKey,
    /// The first event after it.
    pub before: EventKey,
    /// True if packets are lost there, false if the source sent nothing more.
    #[serde(default)]
    pub lost: bool,
}

impl PartitionBuilder {
    /// Returns the amendments so far, as many as a record takes.
    #[must_use]
    pub fn amended(&self) -> Vec<AmendedSource> {
        let mut label_bytes = 0;
        let amended = self.builder().amendments().into_iter().filter_map(|amendment| {
            let source = self.sources().get(amendment.source as usize)?;
            let (after, before) = (amendment.after, amendment.before);
            let (node, label, lost) = (source.node, source.label.clone(), amendment.lost);
            Some(AmendedSource { node, label, after, before, lost })
        });
        let fits = |its: &AmendedSource| {
            label_bytes += its.label.len();
            label_bytes <= LABELS_BYTES_MAX
        };
        amended.take(AMENDED_MAX).take_while(fits).collect()
    }
}
