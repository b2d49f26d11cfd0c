//! One run over several machines, as seen from all of them: the counts of each node, and their sum.
//!
//! Each node publishes its counts as a [`block::NodeBlock`] every second. [`ClusterLedger`] sums
//! the newest blocks and the commits, and checks its laws: for each node, for each edge from a
//! readout node to a partition, and for all together. docs/adr/0035 has the reasons.

pub mod block;
#[cfg(feature = "client")]
pub mod builder;

mod built;
#[cfg(feature = "client")]
pub mod command;
pub mod control;
#[cfg(feature = "client")]
pub mod control_log;
mod counts;
pub mod digest;
mod document;
#[cfg(feature = "client")]
mod drift;
mod edges;
#[cfg(feature = "client")]
mod group;
mod laws;
mod ledger;
mod life;
pub mod liveness;
mod observed;
#[cfg(feature = "client")]
mod partition_thread;
#[cfg(feature = "client")]
mod peers;
mod places;
#[cfg(feature = "client")]
mod publish;
#[cfg(feature = "client")]
pub mod readout;
pub mod record;
mod refusal;
mod run_record;
#[cfg(feature = "client")]
pub mod session;
#[cfg(feature = "client")]
mod sink_task;
mod sources;
#[cfg(feature = "client")]
pub mod steady;
mod table;
#[cfg(feature = "client")]
mod tail;
#[cfg(feature = "client")]
mod taker;
#[cfg(feature = "client")]
pub mod topics;
mod verdict;
#[cfg(feature = "client")]
mod watch;

pub use block::{
    BlockError, BuilderBlock, Delivery, NodeBlock, NodeState, PartitionBlock, PartitionCounters,
    ReadoutBlock, ReadoutCounters, Role, SourceBlock, Taken,
};
pub use built::PartitionRow;
pub use edges::Edge;
pub use ledger::{ClusterLedger, NodeRow};
pub use life::{Life, life_of};
pub use observed::{BatchSums, Committed, DEAD_AFTER, Observed, Seen};
pub use places::{DEAD_READOUT, Fate, Place};
#[cfg(feature = "client")]
pub use publish::LedgerWriter;
pub use sources::{SourceRow, Sources};
pub use verdict::ClusterVerdict;
#[cfg(feature = "client")]
pub use watch::{LedgerError, LedgerReader};
