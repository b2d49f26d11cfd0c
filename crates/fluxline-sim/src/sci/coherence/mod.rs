//! Cache coherence: 64-byte lines shared through doubly linked lists, the typical set.
//!
//! Memory knows the head of a line's sharing list; each cache knows its neighbours in it. Only the
//! head may modify, and before it does it invalidates the others one at a time. A request that
//! meets a line in the middle of something is nullified, and its sender tries again.
//!
//! [`memory`] has the memory's tag update, [`cache`] the requester, [`respond`] a cache's reaction
//! to others; these are pure state machines. [`checker`] walks through all their states, [`system`]
//! gives them time and real bytes. Source: U. Stern's Murphi model of the protocol and U. Stern,
//! D. Dill, CHARME'95, as far as `docs/simulation/coherence.md` quotes them; how a head leaves and
//! who waits for whom is a reconstruction, proved by the checker and not by the standard.

pub mod cache;
pub mod checker;
pub mod line;
pub mod memory;
pub mod message;
pub mod respond;
pub mod system;

pub use line::{CacheState, Line, Operation};
pub use memory::MemoryLine;
pub use message::{CacheId, MemoryCommand, MemoryState};
