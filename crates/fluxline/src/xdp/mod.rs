//! AF_XDP: frames between the interface and our memory, past the kernel's network stack.
//!
//! Datagrams to one UDP port are taken out of the interface before the kernel sees them; ours are
//! written with all their headers. Everything else on the interface stays as it is. What that
//! needs, what it changes and how to see it: docs/ports.md.

mod config;
mod frame;
mod netlink;
mod open;
mod peers;
mod port;
mod steer;
#[cfg(test)]
mod tests;

pub use config::{
    Granted, Mode, Queues, SendChecksums, UnfinishedChecksums, XdpConfig, XdpError, ZeroCopy,
};
pub use port::{XdpPort, XdpStatistics};
