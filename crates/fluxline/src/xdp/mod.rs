//! AF_XDP: frames between the interface and our memory, past the kernel's network stack.
//!
//! Datagrams to one UDP port are taken out of the interface before the kernel sees them; ours are
//! written with all their headers. Everything else on the interface is unchanged. Requirements,
//! effects and diagnosis: docs/ports.md.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use fluxline::clock;
//! use fluxline::xdp::{XdpConfig, XdpPort};
//! use fluxline_core::port::Port;
//!
//! let mut port = XdpPort::open(&XdpConfig::new("eth0"))?;
//! if let Some(frame) = port.frame("192.0.2.7:4791".parse()?, 5) {
//!     frame.bytes.copy_from_slice(b"hello");
//! }
//! port.flush(clock::now());
//! while port.wait(Duration::from_secs(1)) {
//!     port.receive(clock::now(), &mut |frame| println!("{}: {:?}", frame.from, frame.bytes));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod frame;
mod netlink;
mod open;
mod peers;
mod port;
mod shared;
mod steer;
#[cfg(test)]
mod tests;

pub use config::{
    Granted, Mode, Queues, SendChecksums, UnfinishedChecksums, XdpConfig, XdpError, ZeroCopy,
};
pub use port::{XdpPort, XdpStatistics};
