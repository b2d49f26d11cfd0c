//! The reliable endpoint: the programming model on top of a [`Port`](crate::port::Port) that
//! promises nothing.
//!
//! The frames are RoCEv2 ([`crate::roce`]): WRITE, SEND, READ and atomics of reliable (RC) and
//! unreliable (UC) connections.
//!
//! Two Fluxline ends connect by a handshake and use frames as long as the path takes. They
//! acknowledge selectively: frames beyond a lost one are kept and not sent again. A connection with
//! another peer, an FPGA for example, is configured ([`StaticPeer`]). It speaks only the standard,
//! with a path MTU and go-back-N.
//!
//! Requests are done once and in order; a put that is longer than a frame is one RDMA WRITE. On
//! unreliable connections each frame is a WRITE ONLY with its own address, so a lost frame affects
//! no other, and lost frames are counted exactly. docs/wire.md describes the frames.
//!
//! ```
//! use fluxline_core::endpoint::{EndpointConfig, Node};
//! use fluxline_core::fabric::*;
//! use fluxline_core::port::network::Network;
//! use fluxline_core::Moment;
//!
//! let network = Network::new();
//! let (builder, board) = ("10.0.0.1:4791".parse()?, "10.0.0.2:4791".parse()?);
//! let secret = |byte| [byte; 16]; // an example; real secrets are random
//! let config = EndpointConfig::new("builder", secret(1));
//! let mut builder = Node::new(network.port(builder, 1472), config);
//! let mut board = Node::new(network.port(board, 1472), EndpointConfig::new("board", secret(2)));
//!
//! let endpoint = board.connect("10.0.0.1", Reliability::Reliable)?;
//! let mut connected = false;
//! for ms in 0..10 {
//!     let now = Moment::from_ns(ms * 1_000_000);
//!     while let Some(completion) = board.poll(now) {
//!         connected |= matches!(completion, Completion::Connected { .. });
//!     }
//!     while builder.poll(now).is_some() {}
//! }
//! assert!(connected);
//! # let _ = endpoint;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod config;
mod congestion_notices;
mod connection;
mod context;
pub mod counters;
mod endpoints;
mod even_cut;
mod execute;
mod frames;
mod handshake;
mod imports;
mod liveness;
mod managed;
pub mod management;
mod node;
mod node_core;
mod node_fabric;
mod node_management;
mod numbered;
pub mod owner;
mod peer;
mod peer_regions;
mod posted;
mod receive_order;
mod regions;
mod repeats;
mod requester;
mod responder;
mod secrets;
mod sequence;
mod setup;
mod static_peers;
mod timing;
mod unreliable_order;
mod wire;

pub use config::{
    Allocate, AwaitedRepeat, EndpointConfig, RepeatReason, StaticPeer, StaticPeerError,
    StaticRegion, StaticRemote,
};
pub use managed::CallAnswer;
pub use node::Node;
pub use node_management::{ConnectRequest, ManagedTerms};
pub use owner::Owner;
