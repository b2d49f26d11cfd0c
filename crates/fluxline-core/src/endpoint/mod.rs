//! The reliable endpoint: the programming model on top of a [`Port`](crate::port::Port) that
//! promises nothing.
//!
//! What goes over the wire is RoCEv2 ([`crate::roce`]): WRITE, SEND, READ and atomics of reliable
//! (RC) and unreliable (UC) connections. Two Fluxline ends find each other by a handshake, use
//! frames as long as the path takes, and acknowledge selectively: what is beyond a lost frame is
//! kept and not sent again. With others, an FPGA for one, a connection is configured
//! ([`StaticPeer`]) and speaks the standard only: path MTU, go-back-N.
//!
//! Requests are done once and in order; a put that is longer than a frame is one RDMA WRITE. On
//! unreliable connections each frame is a WRITE ONLY with an address of its own, so that what is
//! lost takes nothing else with it, and loss is counted to the frame. docs/wire.md has it whole.
//!
//! ```
//! use fluxline_core::endpoint::{EndpointConfig, Node};
//! use fluxline_core::fabric::*;
//! use fluxline_core::port::network::Network;
//! use fluxline_core::Moment;
//!
//! let network = Network::new();
//! let (builder, board) = ("10.0.0.1:4791".parse()?, "10.0.0.2:4791".parse()?);
//! let secret = |byte| [byte; 16]; // for an example: take random ones
//! let config = EndpointConfig::new("builder", secret(1));
//! let mut builder = Node::new(network.port(builder, 1472), config);
//! let mut board = Node::new(network.port(board, 1472), EndpointConfig::new("board", secret(2)));
//!
//! let endpoint = board.connect("10.0.0.1", Reliability::Reliable)?;
//! let mut connected = false;
//! for ms in 0..10 {
//!     let now = Moment::from_ns(ms * 1_000_000);
//!     while let Some(told) = board.poll(now) {
//!         connected |= matches!(told, Completion::Connected { .. });
//!     }
//!     while builder.poll(now).is_some() {}
//! }
//! assert!(connected);
//! # let _ = endpoint;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connection;
mod context;
pub mod counters;
mod endpoints;
mod execute;
mod frames;
mod handshake;
mod imports;
mod node;
mod node_core;
mod numbered;
mod page;
mod posted;
mod regions;
mod requester;
mod responder;
mod secrets;
mod sequence;
mod setup;
mod timing;
mod wire;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use crate::Span;
use crate::fabric::memory::zeroed;
use crate::fabric::{Memory, RegionId, Reliability, Rights};
use crate::roce::{Psn, QueuePair};

pub use node::Node;

/// Allocates the memory of a region. The error is a sentence for the user.
pub type Allocate = Box<dyn Fn(u64) -> Result<Arc<dyn Memory>, String> + Send>;

/// The configuration of a node.
pub struct EndpointConfig {
    /// The name that peers see.
    pub name: String,
    /// Random, new with each start, and known to nobody else: queue pairs, keys and cookies are
    /// made of it. With one that was used before, late frames of then may be taken for new ones.
    pub secret: [u8; 16],
    /// The longest frame to use \[byte\]; less where port or peer take less.
    pub frame_bytes_max: usize,
    /// Check frames by ICRC on connections with Fluxline ends; left out only if both say so. The
    /// UDP checksum remains, which is weaker, and on loopback and veth nothing.
    pub checked: bool,
    /// Each connection sends no faster than this \[byte/s\]; 0: as fast as windows allow.
    pub bytes_per_s: u64,
    /// A peer that was not heard for so long, although asked, is gone; and work that came no
    /// further for so long breaks its connection.
    pub death: Span,
    /// Networks that may connect: an address and its prefix length \[bit\]. Empty: all.
    pub allowed: Vec<(IpAddr, u8)>,
    /// Connections at most, 1 to 1022.
    pub endpoints_max: u32,
    /// Of these, connections that peers of one address have made, at most.
    pub endpoints_per_address_max: u32,
    /// Allocates the memory of regions.
    pub allocate: Allocate,
}

impl EndpointConfig {
    /// The defaults: checked, as fast as windows allow, peers gone after 3 s, everybody allowed,
    /// 256 connections, 64 of them from one address, memory of safe code (slow; links bring their
    /// own).
    #[must_use]
    pub fn new(name: &str, secret: [u8; 16]) -> EndpointConfig {
        EndpointConfig {
            name: name.to_string(),
            secret,
            frame_bytes_max: usize::MAX,
            checked: true,
            bytes_per_s: 0,
            death: Span::from_ms(3000),
            allowed: Vec::new(),
            endpoints_max: 256,
            endpoints_per_address_max: 64,
            allocate: Box::new(|bytes| {
                zeroed(bytes).ok_or_else(|| String::from("there is not so much memory"))
            }),
        }
    }
}

/// A peer that is configured on both sides and speaks the standard only: an FPGA, an RDMA card.
#[derive(Clone, Debug)]
pub struct StaticPeer {
    /// Its name in completions.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    /// The queue pair that its frames are addressed to. Its low 10 bits must be unique here.
    pub own_pair: QueuePair,
    /// The queue pair that our frames are addressed to.
    pub peer_pair: QueuePair,
    /// The promise of the connection.
    pub reliability: Reliability,
    /// Its first PSN; `None`: whatever comes first (unreliable connections only).
    pub peer_first: Option<Psn>,
    /// Our first PSN.
    pub own_first: Psn,
    /// Longest payload: 256, 512, 1024, 2048 or 4096 \[byte\].
    pub path_mtu: usize,
    /// Own regions that it may use.
    pub regions: Vec<StaticRegion>,
    /// Its regions that can be imported here.
    pub remotes: Vec<StaticRemote>,
}

/// An own region as a static peer names it.
#[derive(Clone, Copy, Debug)]
pub struct StaticRegion {
    /// The own region.
    pub region: RegionId,
    /// The R_Key in the peer's packets.
    pub key: u32,
    /// The address of the region's first byte in the peer's packets.
    pub base: u64,
    /// The peer's rights.
    pub rights: Rights,
}

/// A static peer's region.
#[derive(Clone, Debug)]
pub struct StaticRemote {
    /// The name for importing it.
    pub name: String,
    /// The R_Key for its packets.
    pub key: u32,
    /// The address of its first byte.
    pub base: u64,
    /// Its size \[byte\].
    pub bytes: u64,
    /// Our rights.
    pub rights: Rights,
}

/// The reason why a static peer was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaticPeerError {
    /// No such path MTU.
    #[error("a path MTU of {bytes} byte does not exist; write 256, 512, 1024, 2048 or 4096")]
    PathMtu {
        /// The path MTU that was given \[byte\].
        bytes: usize,
    },
    /// The port takes less.
    #[error(
        "a path MTU of {bytes} byte does not fit frames of {frame_bytes_max} byte; choose a smaller \
         one, or raise the interface's MTU"
    )]
    TooLong {
        /// The path MTU that was given \[byte\].
        bytes: usize,
        /// The longest frame of the port \[byte\].
        frame_bytes_max: usize,
    },
    /// Another connection has it.
    #[error("queue pair {pair} is taken, or its low 10 bits are; choose another number")]
    PairTaken {
        /// The number.
        pair: u32,
    },
    /// Reliable connections begin at a known number.
    #[error("a reliable connection needs the peer's first PSN; give it")]
    FirstPsn,
    /// Addresses do not fit.
    #[error("{address} is not reachable from the port's own address")]
    Address {
        /// The peer's.
        address: SocketAddr,
    },
    /// One region is not ours.
    #[error("region {0} does not exist")]
    UnknownRegion(u32),
}
