//! Event building on several nodes, whatever carries the records between them.
//!
//! ```text
//!   sources ──▶ ReadoutNode ──records──▶ PartitionBuilder ──batches──▶ recorder
//!                    │          edge           │
//!                    one a readout             one a builder
//! ```
//!
//! A readout node parses packets and writes them to the partition of their key ([`node`]). Each
//! partition is built by the same builder as on one machine ([`partition`]), a pure function of the
//! records in the partition: no clock, no thread, no link. Edges are queues of a process
//! ([`mailbox`]), push rings on any fabric ([`rings`]), or the topics of `fluxline-kafka`.
#![forbid(unsafe_code)]

mod absence;
mod amended;
mod arrivals;
pub mod builder;
pub mod checkpoint;
mod edge;
pub mod edges;
pub mod entry;
mod filtered;
mod followed;
pub mod handover;
mod heir;
mod held;
mod kept;
pub mod mailbox;
pub mod node;
mod packets;
pub mod partition;
mod rejected;
pub mod rings;
mod router;
mod source;
pub mod succession;
mod turn;

pub use amended::{AMENDED_MAX, AmendedSource};
pub use edge::{Delivery, ENTRIES_MAX, Taken};
pub use entry::RecordHead;
pub use filtered::{ChooseEvents, Filtered, KeepAll};
pub use heir::{Heir, MakePartition, TakenOver};
pub use node::{NodeConfig, NodeCounts, ReadoutNode};
pub use partition::{
    Advance, InBatches, OutputBatch, PartitionBuilder, PartitionCounts, Unresumed,
};
pub use rejected::RejectedEvents;
pub use router::Router;
pub use source::BuiltSource;

/// Returns a digest of bytes, by which nodes of one experiment find that they are.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}
