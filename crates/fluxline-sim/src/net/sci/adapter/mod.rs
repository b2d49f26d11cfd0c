//! The adapter of a node on SCI: what its card sends and takes, as packets.

mod access;

pub use access::{access_of, command_of, packet_data};
