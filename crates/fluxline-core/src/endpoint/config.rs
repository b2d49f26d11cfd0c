//! The configuration of a node, and of peers that are configured on both sides.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use crate::fabric::memory::zeroed;
use crate::fabric::{Memory, RegionId, Reliability, Rights};
use crate::roce::{PacketSum, Psn, QueuePair, packet_sum};
use crate::{Moment, Span};

/// Allocates the memory of a region. The error is a sentence for the user.
pub type Allocate = Box<dyn Fn(u64) -> Result<Arc<dyn Memory>, String> + Send>;

/// The configuration of a node.
pub struct EndpointConfig {
    /// The name that peers see.
    pub name: String,
    /// A random secret, new with each start: queue pairs, keys and cookies are made of it. With an
    /// old secret, late frames of an earlier run may be accepted as new ones.
    pub secret: [u8; 16],
    /// The longest frame to use \[byte\]; shorter where port or peer accept less.
    pub frame_bytes_max: usize,
    /// Frames between Fluxline ends carry an ICRC; it is left out only if both ends agree. Without
    /// it there is only the weaker UDP checksum, and on loopback and veth no check.
    pub checked: bool,
    /// The highest rate of each connection \[byte/s\]; 0: as fast as windows allow.
    pub bytes_per_s: u64,
    /// A peer that is silent for this long, although it was asked, is gone. Work without progress
    /// for this long breaks its connection. Whatever this is, a peer whose host says that no
    /// program receives there is gone within a second.
    pub death: Span,
    /// The networks that may connect: an address and its prefix length \[bit\]. Empty: all.
    pub allowed: Vec<(IpAddr, u8)>,
    /// The most connections, 1 to 1022.
    pub endpoints_max: u32,
    /// The most connections that peers of one address have made.
    pub endpoints_per_address_max: u32,
    /// Allocates the memory of regions.
    pub allocate: Allocate,
    /// Sums packets for their ICRC.
    pub packet_sum: PacketSum,
}

impl EndpointConfig {
    /// Returns the defaults: frames are checked, as fast as windows allow, and from all networks.
    ///
    /// A peer is gone after 3 s. There are at most 256 connections, 64 of them from one address.
    /// Memory is allocated in safe code, which is slow; links bring their own.
    #[must_use]
    pub fn new(name: &str, secret: [u8; 16]) -> EndpointConfig {
        EndpointConfig {
            name: name.to_string(),
            secret,
            frame_bytes_max: usize::MAX,
            checked: true,
            bytes_per_s: 0,
            death: Span::from_ms(3_000),
            allowed: Vec::new(),
            endpoints_max: 256,
            endpoints_per_address_max: 64,
            allocate: Box::new(|bytes| {
                zeroed(bytes).ok_or_else(|| String::from("there is not enough memory"))
            }),
            packet_sum,
        }
    }
}

/// A peer that is configured on both sides and speaks only the standard: an FPGA, an RDMA card.
#[derive(Clone, Debug)]
pub struct StaticPeer {
    /// Its name in completions.
    pub name: String,
    /// The destination of our frames; its port is 4791 ([`UDP_PORT`](crate::roce::UDP_PORT)) for
    /// all peers of the standard.
    pub address: SocketAddr,
    /// The UDP port that its frames come from. `None`: learned from its first frame with the right
    /// queue pair, PSN and ICRC, and kept for the connection. Cards and Linux's rdma_rxe choose a
    /// port for each queue pair.
    pub source_port: Option<u16>,
    /// The queue pair that its frames are addressed to. Its low 10 bits must be unique here. Of
    /// several nodes at one address, the one with its index modulo their count has the pair; there,
    /// the low 10 bits of the quotient must be unique.
    pub own_pair: QueuePair,
    /// The queue pair that our frames are addressed to.
    pub peer_pair: QueuePair,
    /// The promise of the connection.
    pub reliability: Reliability,
    /// Its first PSN; `None`: any (unreliable connections only).
    pub peer_first: Option<Psn>,
    /// Our first PSN.
    pub own_first: Psn,
    /// The longest payload: 256, 512, 1024, 2048 or 4096 \[byte\].
    pub path_mtu: usize,
    /// The own regions that it may use.
    pub regions: Vec<StaticRegion>,
    /// The peer's regions that can be imported here.
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

/// A configured, reliable peer has to repeat a frame and has not done so yet.
///
/// A peer whose retries have run out never does: it sends nothing more until it is set up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedRepeat {
    /// The reason.
    pub reason: RepeatReason,
    /// The time of the peer's last request.
    pub heard: Moment,
}

/// The reason why a configured, reliable peer has to repeat a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatReason {
    /// Dropped for lack of room: the peer got an RNR NAK.
    NoRoom,
    /// It is missing: the peer got a sequence NAK.
    Missing,
    /// It was refused for its key, right, bounds or kind. A peer of the standard stops then.
    Refused,
}

/// The reason why a static peer was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaticPeerError {
    /// The standard has no such path MTU.
    #[error("a path MTU of {bytes} bytes does not exist; write 256, 512, 1024, 2048 or 4096")]
    PathMtu {
        /// The path MTU that was given \[byte\].
        bytes: usize,
    },
    /// The port's frames are too short.
    #[error(
        "a path MTU of {bytes} bytes does not fit frames of {frame_bytes_max} bytes; choose a \
         smaller one, or raise the interface's MTU"
    )]
    TooLong {
        /// The path MTU that was given \[byte\].
        bytes: usize,
        /// The longest frame of the port \[byte\].
        frame_bytes_max: usize,
    },
    /// Another connection has this queue pair.
    #[error("queue pair {pair} is taken, or its low 10 bits are; choose another number")]
    PairTaken {
        /// The number.
        pair: u32,
    },
    /// The frames of this queue pair go to another node of the same address.
    #[error(
        "queue pair {pair} belongs to thread {} of {count} (from 0); add the peer there, or choose \
         a number with the remainder {index} modulo {count}",
        .pair % .count
    )]
    OtherMember {
        /// The number.
        pair: u32,
        /// The index of this node.
        index: u32,
        /// The nodes of the address.
        count: u32,
    },
    /// The node has the most connections that it can have.
    #[error("{max} connections are open, the most possible; end one, or raise `endpoints_max`")]
    TooMany {
        /// The most connections.
        max: u32,
    },
    /// The first PSN of a reliable peer is missing.
    #[error("a reliable connection needs the peer's first PSN; give it")]
    FirstPsn,
    /// The port does not reach the peer's address.
    #[error("{address} is not reachable from the port's own address")]
    Address {
        /// The peer's address.
        address: SocketAddr,
    },
    /// One region is not a region of this node.
    #[error("region {0} does not exist")]
    UnknownRegion(u32),
}
