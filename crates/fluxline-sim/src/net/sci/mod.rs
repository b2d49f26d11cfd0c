//! SCI (IEEE Std 1596): rings of point-to-point links with split transactions.
//!
//! The text of the standard was not available. Reconstructed rules are marked, and no conformance
//! on the wire is claimed.

pub mod adapter;
mod ageing;
#[cfg(test)]
mod ageing_tests;
mod bus;
pub mod clock;
pub mod cluster;
pub mod coherence;
pub mod config;
mod conserve;
pub mod counters;
mod foresight;
mod go;
mod interconnect;
mod lane;
pub mod link;
pub mod messages;
pub mod network;
pub mod packet;
mod port;
mod preset;
mod random;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod reference_tests;
mod ring;
mod rounds;
mod route;
mod strobe;
mod tap;
mod ticks;
mod touch;
mod transfer;
mod wire;

pub use config::{Bus, Config, ConfigError, Faults, Retry, Topology};
pub use conserve::Unbalanced;
pub use counters::Counters;
pub use link::{Entry, Loss, NodeIndex, Passage, Priority, Refusal, Refused, Report, SendId};
pub use network::Network;
pub use packet::{Command, NodeId, Packet, Status};
pub use preset::Preset;
