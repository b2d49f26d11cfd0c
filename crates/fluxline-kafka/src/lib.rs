//! Events on Apache Kafka: built events go to a topic, live or later from the files of a run.
//!
//! A run has a name in its topic, and each record carries the number of its batch and piece: its
//! identity ([`RecordId`]). `sink` sends while the run goes on and leaves out everything that does
//! not fit into its memory. `ship` reads the identities in the topic and sends the records that are
//! not there. [`build`] builds events on several machines, [`cluster`] sums the counts of them, and
//! [`gather`] joins their events to one run. Everything that needs a broker is behind
//! the feature `client`.
// Without the client, the laws of building are compiled and tested, and nothing calls the rest.
#![cfg_attr(not(feature = "client"), allow(dead_code))]
#![deny(unsafe_code, reason = "only lasting.rs may call the client library in C")]

mod address;
pub mod build;
mod changed;
pub mod cluster;
mod cut;
pub mod ess;
pub mod gather;
mod identity;
mod pieces;
pub mod settings;

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod delivery;
#[cfg(feature = "client")]
mod feeder;
#[cfg(feature = "client")]
mod lasting;
#[cfg(feature = "client")]
mod reading;
#[cfg(feature = "client")]
pub mod ship;
#[cfg(feature = "client")]
pub mod sink;
#[cfg(feature = "client")]
mod transaction;
#[cfg(feature = "client")]
mod wait;
#[cfg(any(feature = "client", test))]
mod window;

pub use address::ClusterAddress;
pub use changed::PartitionsChanged;
#[cfg(feature = "client")]
pub use client::TopicError;
pub use cut::{ContentType, Cut, Cutter, Record};
pub use identity::{RecordId, RunMark, run_id_of};
pub use pieces::{Piece, Pieces};
