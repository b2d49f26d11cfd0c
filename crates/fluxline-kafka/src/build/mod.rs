//! Event building on several machines, with a log between readout and builders.
//!
//! Readout nodes parse packets and write them to the partition of their key ([`node`]). Each
//! partition is built by the same builder as on one machine ([`partition`]), a pure function of the
//! records in the partition. A builder saves its state at times ([`checkpoint`]). Another one goes
//! on from the newest checkpoint, makes the same batches with the same numbers, and commits those
//! behind the last committed one ([`worker`]). docs/adr/0033 and 0036 have the reasons.

pub mod checkpoint;
#[cfg(any(feature = "client", test))]
mod checkpoint_records;
#[cfg(any(feature = "client", test))]
pub(crate) mod commits;
#[cfg(feature = "client")]
pub mod deliveries;
pub mod edge;
pub mod entry;
pub mod files;
mod followed;
#[cfg(feature = "client")]
pub mod kafka;
pub mod log;
pub mod node;
pub mod partition;
mod refused;
pub mod topic;
pub mod worker;

pub use checkpoint::{Checkpoint, CheckpointPolicy, Refused};
pub use entry::RecordHead;
pub use files::RunFolders;
pub use log::{Claim, Commit, EventRecord, Log, LogError, MemoryLog, Ready, Stored};
pub use node::{NodeConfig, NodeCounts, ReadoutNode, Router};
pub use partition::{BuiltSource, InBatches, OutputBatch, PartitionBuilder, PartitionCounts};
pub use topic::{Outputs, TopicConfig, TopicOutput};
pub use worker::{Output, Published, RunPlan, Step, WorkError, Worker};
