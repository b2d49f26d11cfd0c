//! The programming model: what programs are written against, whatever the link is.
//!
//! A node registers memory as a region and exports it under a name, with rights and a key. A peer
//! connects, imports the region and writes into it; the owner finds the bytes in its memory and,
//! when the peer wants it to know, a notification. Nothing here waits: work is posted, and what
//! became of it is polled. Time is an argument, so that the same program runs on a real link and
//! in virtual time. docs/model.md has order, completion, failure and protection as tables.
//!
//! [`Fabric`] is the one page; [`work`] has what is posted and what comes back, [`error`] why a
//! call was refused.
//! Source of the ideas: VIA 1.0 (descriptors, protection tags, completion queues), InfiniBand verbs
//! (immediate data, unsignaled work), EXTOLL RMA (the point of completion chosen per operation),
//! SISCI (named segments, mapped windows).

pub mod barrier;
pub mod conformance;
pub mod error;
pub mod memory;
pub mod push;
pub mod region;
pub mod work;

pub use error::{AccessError, ConnectError, ExportError, ImportError, PostError, RegisterError};
pub use region::{
    Grant, Key, NAME_BYTES_MAX, Name, NameError, RegionId, RemoteId, Rights, Slice, Target,
};
pub use work::{Completion, EndpointId, Level, Local, Operation, Reliability, Status, Work};

use alloc::sync::Arc;

use crate::{Moment, Span};

/// A node's access to one link. Object-safe on purpose: docs/adr/0007 has the measured cost.
///
/// No call but [`Fabric::wait`] blocks. Identifiers are this fabric's own and are not used again (a link may begin anew
/// after a million at one place). What is done in which order, and who notices a failure:
/// docs/model.md.
pub trait Fabric {
    /// Returns what this link can do; it never changes.
    fn capabilities(&self) -> &Capabilities;

    // ---- memory of this node ----

    /// Makes a region of `bytes` zero bytes, which nobody else can reach yet.
    ///
    /// Errors: [`RegisterError`]. Cost: allocates and touches the memory.
    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError>;

    /// Lets whoever shows the grant's key import the region under `name`, with the grant's rights.
    ///
    /// Done at return. A region has one name at a time. Errors: [`ExportError`].
    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError>;

    /// Ends a region: peers' later work on it completes as [`Status::Withdrawn`].
    ///
    /// Done at return; the memory is freed when the last [`Memory`] of it is dropped.
    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError>;

    /// The memory of an own region, to be read and written while peers write it.
    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError>;

    // ---- peers ----

    /// Begins a connection to the node called `peer`; [`Completion::Connected`] or
    /// [`Completion::Broken`] follows. Who is connected to gets a `Connected` of its own.
    ///
    /// Errors: [`ConnectError`], what can be told at once.
    fn connect(&mut self, peer: &str, reliability: Reliability)
    -> Result<EndpointId, ConnectError>;

    /// Ends a connection: work not yet complete completes as [`Status::Flushed`], and the peer gets
    /// [`Completion::Broken`].
    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError>;

    /// Asks the endpoint's peer for its region `name`; [`Completion::Imported`] follows, with the
    /// region's size or a status: no such region, wrong key.
    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError>;

    /// The memory of an imported region, where the link maps it ([`Capabilities::windows`]): stores
    /// land in the peer's memory without an operation. `None`: use puts.
    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError>;

    /// Posts work to an endpoint; `tag` comes back in its completion.
    ///
    /// Done: see [`Work`] and [`Level`]. Errors: [`PostError`]; nothing was done then, and the
    /// arguments are still the caller's. Cost: no allocation in steady state.
    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError>;

    /// Gives the endpoint a buffer for one message of the peer; buffers are used in order.
    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError>;

    /// The next thing that became of posted work or came from a peer; `None`: nothing new.
    ///
    /// Drives the link: what has to be sent, timed out or accepted is done in here.
    fn poll(&mut self, now: Moment) -> Option<Completion>;

    /// Returns when `poll` has work although nothing arrives; `None`: never.
    fn deadline(&self) -> Option<Moment>;

    /// Sleeps until `poll` has work, at most `timeout`. It may return early.
    ///
    /// The only call that blocks. Links in memory or in virtual time have nothing to sleep on and
    /// return at once.
    fn wait(&mut self, timeout: Span) {
        let _ = timeout;
    }

    /// Returns a file descriptor that is readable when something arrived, for `epoll` and its kin;
    /// `None`: this link has none, use [`Fabric::wait`].
    ///
    /// It belongs to the node: do not read or close it. [`Fabric::deadline`] still holds, so sleep
    /// no longer than until then.
    fn descriptor(&mut self) -> Option<i32> {
        None
    }
}

/// Bytes that others may be writing at the same time: an own region, or a peer's mapped one.
///
/// Copies are of the bytes as they are found; a writer who publishes with [`Memory::store`] and a
/// reader who looks with [`Memory::load`] see everything that was written before the store.
pub trait Memory: Send + Sync {
    /// Its size \[byte\].
    fn bytes(&self) -> u64;

    /// Returns the address of the first byte in this process, for programs in C and for devices;
    /// `None`: not all of it is memory that this process may write.
    ///
    /// Valid until the region is withdrawn and the last `Memory` of it is dropped. Peers write it at
    /// any time, so plain loads and stores through it are races: [`Memory::load`] and
    /// [`Memory::store`] are not.
    fn address(&self) -> Option<core::ptr::NonNull<u8>> {
        None
    }

    /// Copies from `offset` into `into`. Errors: [`AccessError::OutOfRegion`].
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError>;

    /// Copies `from` to `offset`. Errors: [`AccessError::OutOfRegion`], [`AccessError::Rights`].
    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError>;

    /// Returns true when a write of `bytes` at `offset` is possible, now or later: a memory may
    /// have
    /// bounds of its own within the region. Changes nothing.
    fn admits(&self, offset: u64, bytes: u64) -> bool {
        offset <= self.bytes() && bytes <= self.bytes() - offset
    }

    /// The aligned word at `offset`, with acquire order. Errors: as `read`, and
    /// [`AccessError::Unaligned`].
    fn load(&self, offset: u64) -> Result<u64, AccessError>;

    /// Stores the aligned word at `offset`, with release order. Errors: as `write`, and
    /// [`AccessError::Unaligned`].
    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError>;

    /// Adds to the aligned word at `offset`; returns what it was.
    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError>;

    /// Replaces the aligned word at `offset` by `desired` if it is `expected`; returns what it was.
    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError>;
}

/// The capabilities of a link, so that programs adapt instead of guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The link's name, for reports: `shm`, `udp`, `sim:sci`.
    pub link: &'static str,
    /// The largest put, get or message in one operation \[byte\].
    pub operation_bytes_max: u64,
    /// The largest region \[byte\].
    pub region_bytes_max: u64,
    /// Regions of one node at most.
    pub regions_max: u32,
    /// Endpoints of one node at most.
    pub endpoints_max: u32,
    /// Operations that one endpoint takes before some complete.
    pub queue_max: u32,
    /// [`Fabric::window`] maps peers' regions.
    pub windows: bool,
    /// Atomics of peers are atomic with respect to the owner's own atomics.
    pub atomics: bool,
    /// Operations on a reliable endpoint are placed in the order of posting.
    pub ordered: bool,
    /// Transfers of up to this size go better through a window, longer ones by put \[byte\]; 0:
    /// always by put. Measured, not guessed.
    pub crossover_bytes: u64,
    /// The longest time from a peer's death to the report of its broken endpoints.
    pub death_noticed_within: Span,
}
