//! The messages of nodes to the collector.

use fluxline_cluster::BuiltSource;
use fluxline_daq::event::EventBatch;

use crate::record::Mark;

/// A message of a node to the collector.
pub(crate) enum FromNode {
    Built(Built),
    /// The batches of this process so far wait to be recorded.
    Mark(Mark),
    /// In a simulated world: the batches of a builder so far are in the state with this number.
    Saving {
        builder: usize,
        number: u64,
    },
    /// In a simulated world: a readout has this state of a builder.
    Saved {
        builder: usize,
        readout: usize,
        number: u64,
    },
    /// In a simulated world: a builder was replaced from this state on.
    Replaced {
        builder: usize,
        number: u64,
    },
}

/// The closed events of one partition.
pub(crate) struct Built {
    pub builder: usize,
    pub partition: u32,
    /// Its sources that are new since its last batch.
    pub sources: Vec<BuiltSource>,
    pub events: EventBatch,
}
