//! The exchange of perftest: its programs (`ib_write_bw`, `ib_send_lat` and so on) measure against
//! a node of ours.
//!
//! Two perftest programs agree over a TCP connection, then move data by remote writes, reads,
//! messages or atomics. The client sends each message first, and the server answers in kind:
//!
//! ```text
//!   version [16], buffer size [4], cache line [4], path MTU [2]
//!   key message [108] of the first queue pair: number, first PSN, key, address, GID
//!   the same again; then one for each further queue pair
//!   the first again, as a barrier: once for bandwidth, twice for latency and for messages
//!            ... the test ...
//!   the first key message again; five numbers [8] (not for messages and latency)
//!   the first key message again, then "done" [5] (not for ib_write_lat)
//! ```
//!
//! The exchange names neither the program nor the transport, the message size or the number of
//! operations: both ends must be started alike.
//! Source: perftest 4.5-0.17 (its programs say version 6.06), `perftest_communication.c` and
//! `write_bw.c`; observed between two of its programs.

mod answer;
mod connect;
mod error;
mod message;
mod outcome;
mod plan;
mod program;
mod serve;
mod session;

pub use connect::connect;
pub use error::{Error, Phase};
pub use outcome::{Frames, Latency, Outcome, PeerTerms};
pub use plan::{Plan, PlanError};
pub use program::{Operation, Program};
pub use serve::Server;

/// The TCP port of perftest. Source: perftest's manual page, `--port`.
pub const PORT: u16 = 18_515;
