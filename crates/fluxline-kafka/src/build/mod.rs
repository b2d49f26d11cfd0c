//! Event building on several machines, with a log between readout and builders.
//!
//! Readout nodes parse packets and write them to the partition of their key ([`node`]). Each
//! partition is built by the same builder as on one machine ([`partition`]), a pure function of the
//! records in the partition. A builder saves its state at times ([`checkpoint`]). Another one goes
//! on from the newest checkpoint, makes the same batches with the same numbers, and commits those
//! behind the last committed one ([`worker`]). docs/adr/0033 and 0036 have the reasons.

mod absence;
pub mod amended;
mod arrivals;
pub mod checkpoint;
#[cfg(any(feature = "client", test))]
mod checkpoint_records;
mod commit_group;
#[cfg(any(feature = "client", test))]
pub(crate) mod commits;
#[cfg(feature = "client")]
pub mod deliveries;
pub mod edge;
pub mod entry;
pub mod files;
pub mod filtered;
mod followed;
mod held;
#[cfg(feature = "client")]
pub mod kafka;
pub mod log;
pub mod node;
mod packets;
pub mod partition;
mod refused;
pub mod rounds;
mod router;
pub mod sink;
mod sink_sums;
pub mod topic;
mod turn;
pub mod worker;

pub use amended::{AMENDED_MAX, AmendedSource};
pub use checkpoint::{Checkpoint, CheckpointPolicy, Refused};
pub use entry::RecordHead;
pub use files::RunFolders;
pub use filtered::{EventFilter, Filtered};
pub use log::{Claim, Commit, EventRecord, Log, LogError, MemoryLog, Ready, RecordTopic, Stored};
pub use node::{NodeConfig, NodeCounts, ReadoutNode};
pub use partition::{
    Advance, BuiltSource, InBatches, OutputBatch, PartitionBuilder, PartitionCounts,
};
pub use rounds::{Round, Rounds};
pub use router::Router;
pub use sink::{SinkOutput, SinkPlan};
pub use sink_sums::SinkSums;
pub use topic::{Outputs, TopicConfig, TopicOutput};
pub use worker::{Output, Published, RunPlan, Step, WorkError, Worker};
