//! Cache coherence: 64-byte lines shared through doubly linked lists, the typical set.
//!
//! Memory knows the head of a line's sharing list; each cache knows its neighbours in it. Only the
//! head may modify the line, after it has invalidated the other copies one at a time. A request
//! that meets a line in the middle of an operation is nullified, and its sender tries again.
//!
//! [`memory`] has the memory's tag update, [`cache`] the requester, [`respond`] a cache's reaction
//! to others; these are pure state machines, and no network uses them yet. A test visits all their
//! states (`checker`). Source: U. Stern's Murphi model of the protocol and U. Stern, D. Dill,
//! CHARME'95, as far as `docs/simulation/coherence.md` quotes them. The leaving of a head and the
//! order of waiting are reconstructed: the checker proves them, not the standard.

pub mod cache;
#[cfg(test)]
mod checker;
pub mod line;
pub mod memory;
pub mod message;
pub mod respond;

pub use line::{CacheState, Line, Operation};
pub use memory::MemoryLine;
pub use message::{CacheId, MemoryCommand, MemoryState};
