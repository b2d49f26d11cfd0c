//! One run over several machines, as seen from all of them: the counts of each node, and their sum.
//!
//! Each node publishes its counts as a [`block::NodeBlock`] every second. docs/adr/0035 has the
//! reasons for the layout.

pub mod block;
pub mod control;
pub mod record;

pub use block::{
    BlockError, BuilderBlock, Delivery, NodeBlock, NodeState, PartitionBlock, PartitionCounters,
    ReadoutBlock, ReadoutCounters, Role, Taken,
};
