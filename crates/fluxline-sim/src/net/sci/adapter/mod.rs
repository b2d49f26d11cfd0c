//! The adapter of a node on SCI, with its host: jobs become stores, loads and DMA of the host, and
//! these become packets.
//!
//! ```text
//!   jobs         stores or DMA, and what they cost .............. mover.rs, crate::host
//!   messages     blocks in the peer's mailbox, by remote writes . mailbox.rs, outbox.rs
//!   requests     ids, answers, repetition ....................... requester.rs, responder.rs
//!   addresses    48 bits: memory, mailboxes ..................... space.rs
//!   packets      what a host calls an access .................... access.rs
//! ```
//!
//! The bytes really move: a put's are in packets of at most 64 bytes, which can be lost, and are in
//! the owner's memory when the host's bus has carried them. docs/simulation/fabric.md has what the
//! model adds to SCI, and what it leaves out.

mod access;
mod address;
mod card;
mod ids;
mod mailbox;
mod mover;
mod outbox;
mod requester;
mod responder;
mod space;
#[cfg(test)]
mod transaction_tests;
mod wire;

pub use access::{access_of, command_of, packet_data};
pub use card::{Card, Step};
pub use ids::Ids;
pub use mover::Mover;
pub use requester::Times;
pub use wire::PlainWire;
