//! Nodes that programs use by [`Fabric`](fluxline_core::fabric::Fabric), on any network.
//!
//! ```text
//!   program      Fabric: put, get, atomics, messages ............ crate::world
//!   driver       connections, order, completion, rights ......... driver/, endpoint.rs
//!   messages     the words of drivers to each other ............. message.rs
//!   memory       regions, and who may touch what ................ memory.rs
//!   adapter      jobs in, reports out: one for each kind of card  adapter.rs
//! ```
//!
//! The driver knows no network: it gives jobs to an [`adapter::Adapter`], which does them by frames
//! of its own and serves the frames of other nodes on the [`memory::NodeMemory`].

pub mod adapter;
pub mod address;
pub mod courier;
pub mod driver;
mod endpoint;
pub mod memory;
mod message;

pub use endpoint::{OPERATION_BYTES_MAX, PIECES_MAX, QUEUE_MAX};
pub use message::MESSAGE_BYTES_MAX;
