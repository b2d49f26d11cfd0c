//! Programs in virtual time, each on a thread of its own: `sim:sci/WORLD/NODE?nodes=2`.
//!
//! ```text
//!   thread "a"   open ─ ─ ─ ▶ post, poll, wait ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ▶ poll …
//!   thread "b"   open ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ▶ poll, post, wait ─ ─ ─ …
//!                     │                   │                      │
//!   virtual time      0                   0                   2.3 us: the next event
//! ```
//!
//! A program is written as for a real link. One program runs at a time; `turns.rs` has the rule by
//! which the turn passes on, so the seed and the names of the nodes alone decide the order.
//! `gather.rs` brings the nodes of a world together, `node.rs` is the node of a program.
//!
//! ```
//! use fluxline_core::Span;
//! use fluxline_core::fabric::{Completion, Reliability};
//! use fluxline_sim::threads;
//!
//! // A program takes its link from a URL.
//! let board = std::thread::spawn(|| {
//!     let mut node = threads::open("sim:sci/doc/board?nodes=2&seed=7").expect("a node");
//!     node.connect("builder", Reliability::Reliable).expect("a peer");
//!     node.wait(node.now() + Span::from_ms(10));
//!     matches!(node.poll(node.now()), Some(Completion::Connected { .. }))
//! });
//! let mut node = threads::open("sim:sci/doc/builder?nodes=2&seed=7")?;
//! node.wait(node.now() + Span::from_ms(10));
//! let connected = node.poll(node.now());
//! assert!(matches!(connected, Some(Completion::Connected { peer, .. }) if peer == "board"));
//! drop(node);
//! assert!(board.join().expect("no panic"));
//! # Ok::<(), threads::OpenError>(())
//! ```

mod address;
mod error;
mod gather;
mod node;
mod order;
#[cfg(test)]
mod tests;
mod turns;
mod watch;

use std::time::Duration;

use fluxline_core::fabric::Fabric;

pub use error::OpenError;

use address::Address;
use node::ThreadNode;

/// The longest time for which `open` waits for the other nodes. A choice.
const GATHERED_WITHIN: Duration = Duration::from_secs(10);

/// Opens a node of a simulated world, and waits until all its nodes are open.
///
/// `sim:NETWORK/WORLD/NODE?KEYS`: the network and the keys are those of
/// [`Cluster::open`](crate::world::Cluster::open), and equal for all nodes of a world. Programs
/// of this process that name the same world meet there, each on a thread of its own. Nodes are
/// called by their names. A key such as `fault` counts them in the order of their names, from 0.
///
/// Errors: [`OpenError`]; also when the other nodes are not opened within 10 s.
pub fn open(url: &str) -> Result<Box<dyn Fabric>, OpenError> {
    open_within(url, GATHERED_WITHIN)
}

fn open_within(url: &str, limit: Duration) -> Result<Box<dyn Fabric>, OpenError> {
    let address = Address::parse(url)?;
    let turns = gather::join(&address, limit)?;
    Ok(Box::new(ThreadNode::begin(turns, &address.node)))
}
