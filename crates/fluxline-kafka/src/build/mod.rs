//! Event building on several machines, with a log between readout and builders.
//!
//! Readout nodes parse packets and write them to the partition of their key
//! ([`fluxline_cluster::node`]). Each partition is built by the same builder as on one machine
//! ([`fluxline_cluster::partition`]), a pure function of the records in the partition. A builder
//! saves its state at times ([`checkpoint`]). Another one goes on from the newest checkpoint, makes
//! the same batches with the same numbers, and commits those behind the last committed one
//! ([`worker`]). docs/adr/0033 and 0036 have the reasons.

pub mod checkpoint;
#[cfg(any(feature = "client", test))]
mod checkpoint_records;
mod commit_group;
#[cfg(any(feature = "client", test))]
pub(crate) mod commits;
#[cfg(feature = "client")]
pub mod deliveries;
pub mod files;
pub mod filtered;
#[cfg(feature = "client")]
pub mod kafka;
pub mod log;
pub mod rounds;
pub mod sink;
mod sink_sums;
pub mod topic;
pub mod worker;

pub use checkpoint::{Checkpoint, CheckpointPolicy, Refused};
pub use files::RunFolders;
pub use filtered::EventFilter;
pub use log::{Claim, Commit, EventRecord, Log, LogError, MemoryLog, Ready, RecordTopic, Stored};
pub use rounds::{Round, Rounds};
pub use sink::{SinkOutput, SinkPlan};
pub use sink_sums::SinkSums;
pub use topic::{Outputs, TopicConfig, TopicOutput};
pub use worker::{Output, Published, RunPlan, Step, WorkError, Worker};
