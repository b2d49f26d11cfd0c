//! Full-duplex Ethernet: nodes on the ports of one switch with finite output queues.
//!
//! ```text
//!   node 0 ══ cable ══╗  ┌────────────────┐  ╔══ cable ══ node 2
//!                     ╚══▶ look up, queue ▶══╝
//!   node 1 ══ cable ═════▶ of each port   ▶═════ cable ══ node 3
//!                        └────────────────┘
//! ```
//!
//! A [`Datagram`] is what a node sends: a UDP datagram with its real bytes, or one message of
//! generated traffic. One that is longer than the MTU crosses as IP fragments. Frames take their
//! time on each cable to the byte, may meet wrong bits, wait in the switch for their port, and are
//! lost where the queue is full. Losses are counted by place ([`Counters`]).
//!
//! Sources: IEEE 802.3-2018, clauses 3 (frames), 4.4.2 (gap), 31 and annex 31B (pause); RFC 791
//! (fragments), RFC 3168 (marks). `docs/simulation/ethernet.md` has the equations and the limits.

mod carried;
pub mod cluster;
pub mod config;
mod counters;
mod datagram;
pub mod framing;
pub mod host;
mod interconnect;
mod link;
mod messages;
mod network;
mod pause;
mod slab;
mod tap;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Faults, Forwarding, Pause};
pub use counters::Counters;
pub use datagram::{Datagram, Payload, Udp};
pub use link::Entry;
pub use messages::Messages;
pub use network::Network;
