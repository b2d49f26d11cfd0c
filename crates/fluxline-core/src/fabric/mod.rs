//! The programming model: one interface for programs on every link.
//!
//! A node registers memory as a region and exports it under a name, with rights and a key. A peer
//! connects, imports the region and writes into it. The owner finds the bytes in its memory, and
//! gets a notification if the peer asked for one. Work is posted, and completions are polled. The
//! link has the clock, so that the same program runs on a real link and in virtual time.
//! docs/model.md has order, completion, failure and protection as tables.
//!
//! [`Fabric`] is the interface, [`work`] has operations and completions, [`error`] the errors.
//! Source of the ideas: VIA 1.0 (descriptors, protection tags, completion queues), InfiniBand verbs
//! (immediate data, unsignaled work), EXTOLL RMA (the point of completion chosen per operation),
//! SISCI (named segments, mapped windows).

pub mod barrier;
pub mod connect;
pub mod counters;
pub mod error;
pub mod group;
pub mod links;
pub mod memory;
pub mod node;
pub mod push;
pub mod region;
pub mod work;

pub use counters::WorkCounters;
pub use error::{
    AccessError, BatchError, ConnectError, ExportError, ImportError, PostError, RegisterError,
};
pub use region::{
    Grant, Key, NAME_BYTES_MAX, Name, NameError, RegionId, RemoteId, Rights, Slice, Target,
};
pub use work::{
    Completion, EndpointId, Level, Local, Operation, Post, Reliability, Status, Work, total_bytes,
};

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use crate::roce::UnsummedPacket;
use crate::{Moment, Span};

/// A node's access to one link. Object-safe on purpose: docs/adr/0007 has the measured cost.
///
/// Only [`Fabric::wait`] blocks. A node may move to another thread; one thread at a time uses it.
/// Identifiers are valid on this fabric only and are not used again; a link may reuse one after a
/// million others. docs/model.md has the order of operations and the reports of failures.
///
/// ```
/// # use fluxline_core::Span;
/// # use fluxline_core::fabric::{Completion, Fabric};
/// /// Returns the next completion, within 1 s of this link's time.
/// fn next(fabric: &mut dyn Fabric) -> Option<Completion> {
///     let limit = fabric.now() + Span::from_ms(1000);
///     while fabric.now() < limit {
///         let now = fabric.now();
///         if let Some(completion) = fabric.poll(now) {
///             return Some(completion);
///         }
///         fabric.wait(limit);
///     }
///     None
/// }
/// ```
pub trait Fabric: Send {
    /// Returns the capabilities of this link, which never change.
    fn capabilities(&self) -> &Capabilities;

    // ---- memory of this node ----

    /// Makes a region of `bytes` zero bytes, which no peer can reach yet.
    ///
    /// Errors: [`RegisterError`]. Cost: allocates and touches the memory.
    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError>;

    /// Makes a region of the program's own memory, without a copy, if the link can
    /// ([`Capabilities::own_memory`]).
    ///
    /// The region shares the memory until it is withdrawn and its last work has ended. Memory that
    /// refuses a write makes the link refuse the put. Errors: [`RegisterError`].
    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        let _ = memory;
        Err(RegisterError::OwnMemory)
    }

    /// Lets peers with the grant's key import the region under `name`, with the grant's rights.
    ///
    /// Done at return. A region has one name at a time. Errors: [`ExportError`].
    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError>;

    /// Ends a region: peers' later work on it completes as [`Status::Withdrawn`].
    ///
    /// Done at return; the memory is freed when the last [`Memory`] of it is dropped.
    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError>;

    /// Returns the memory of an own region. It may be read and written while peers write it.
    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError>;

    /// Calls `visit` with the bytes of an own region, which nobody else writes until it returns.
    ///
    /// In place where the memory can lend its bytes, else in a copy that is written back. Errors,
    /// without a call: [`AccessError::Exported`] while peers have a right to write the region;
    /// [`AccessError::InUse`] while the program or unfinished work holds its memory.
    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError>;

    // ---- peers ----

    /// Begins a connection to the node called `peer`; [`Completion::Connected`] or
    /// [`Completion::Broken`] follows. The peer gets a `Connected` of its own.
    ///
    /// Errors: [`ConnectError`], where the failure is known at once.
    fn connect(&mut self, peer: &str, reliability: Reliability)
    -> Result<EndpointId, ConnectError>;

    /// Ends a connection: unfinished work completes as [`Status::Flushed`], and the peer gets
    /// [`Completion::Broken`].
    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError>;

    /// Asks the endpoint's peer for its region `name`. [`Completion::Imported`] follows, with the
    /// region's size or the reason of the failure.
    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError>;

    /// Returns the memory of an imported region, if the link maps it ([`Capabilities::windows`]):
    /// stores change the peer's memory without an operation. `None`: use puts.
    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError>;

    /// Posts work to an endpoint; `tag` comes back in its completion.
    ///
    /// Done: see [`Work`] and [`Level`]. Errors: [`PostError`]; then nothing was done, and the
    /// arguments stay the caller's. Cost: no allocation in steady state.
    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError>;

    /// Posts several operations to an endpoint, in order. The peer is woken once for all of them.
    ///
    /// All are accepted, or the first of them: [`BatchError`] has their number and the reason.
    fn post_all(&mut self, endpoint: EndpointId, posts: &[Post<'_>]) -> Result<(), BatchError> {
        post_each(posts, |post| self.post(endpoint, post.tag, post.work))
    }

    /// Gives the endpoint a buffer for one message of the peer; buffers are used in order.
    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError>;

    /// Returns the counters of this node's work since it was opened.
    fn counters(&self) -> &WorkCounters;

    /// Returns the time of this link, which never goes back: that of the host on a real link,
    /// virtual time on a simulated one. All moments of this interface are of this clock.
    ///
    /// A link without a clock returns the latest moment that it was polled with.
    fn now(&self) -> Moment;

    /// Returns the next completion, if any; `now` is [`Fabric::now`], or a moment before.
    ///
    /// It also drives the link: it sends frames, accepts peers and handles timeouts.
    fn poll(&mut self, now: Moment) -> Option<Completion>;

    /// Returns when `poll` has work even if nothing arrives; `None`: never.
    fn deadline(&self) -> Option<Moment>;

    /// Sleeps until `poll` has work, or until this moment. It may return early.
    ///
    /// The only call that blocks. A link without a clock has nothing to sleep on and returns at
    /// once.
    fn wait(&mut self, until: Moment) {
        let _ = until;
    }

    /// Returns a file descriptor that is readable when something arrived, for `epoll` and its kin;
    /// `None`: this link has none, use [`Fabric::wait`].
    ///
    /// It belongs to the node: do not read or close it. [`Fabric::deadline`] still holds, so sleep
    /// no longer than until then.
    fn descriptor(&mut self) -> Option<i32> {
        None
    }

    /// Returns true once this node itself has crashed, as a fault of a simulated network can make
    /// it: its memory is lost, nothing comes any more, and its program should end.
    fn has_crashed(&self) -> bool {
        false
    }

    /// Returns the link's own push rings, where it has some that are faster than puts; `None`: a
    /// ring of [`push`] uses puts.
    fn rings(&mut self) -> Option<&mut dyn push::RingLink> {
        None
    }
}

/// Bytes that others may write at the same time: an own region, or a mapped region of a peer.
///
/// A copy may mix bytes from before and after such a write. A reader that sees a value of
/// [`Memory::store`] with [`Memory::load`] sees all that was written before the store.
pub trait Memory: Any + Send + Sync {
    /// Returns the size \[byte\].
    fn bytes(&self) -> u64;

    /// Returns the address of the first byte in this process, for programs in C and for devices;
    /// `None`: not all of it is memory that this process may write.
    ///
    /// Valid until the region is withdrawn and the last `Memory` of it is dropped. Peers write it
    /// at any time, so plain loads and stores through it are races: [`Memory::load`] and
    /// [`Memory::store`] are not.
    fn address(&self) -> Option<core::ptr::NonNull<u8>> {
        None
    }

    /// Checks that bytes are inside. Errors: [`AccessError::OutOfRegion`].
    fn check(&self, offset: u64, bytes: u64) -> Result<(), AccessError> {
        let region_bytes = self.bytes();
        if offset <= region_bytes && bytes <= region_bytes - offset {
            Ok(())
        } else {
            Err(AccessError::OutOfRegion { offset, bytes, region_bytes })
        }
    }

    /// Calls `visit` with all bytes, which the exclusive borrow keeps from everybody else.
    ///
    /// Memory that cannot lend its bytes copies them out, and back. Errors: those of `read` and
    /// `write`, and [`AccessError::Memory`].
    fn view(&mut self, visit: &mut dyn FnMut(&mut [u8])) -> Result<(), AccessError> {
        view_copy(self, visit)
    }

    /// Copies from `offset` into `into`. Errors: [`AccessError::OutOfRegion`].
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError>;

    /// Copies from `offset` into the payload of a packet and returns the sum of the packet, as
    /// [`Memory::read`] and the packet's sum would. Errors: [`AccessError::OutOfRegion`].
    fn read_summed(&self, offset: u64, packet: UnsummedPacket<'_>) -> Result<u32, AccessError> {
        let UnsummedPacket { state, bytes, payload, sum } = packet;
        self.read(offset, &mut bytes[payload])?;
        Ok(sum(state, bytes))
    }

    /// Copies `from` to `offset`. Errors: [`AccessError::OutOfRegion`], [`AccessError::Rights`].
    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError>;

    /// Returns true when a write of `bytes` at `offset` is possible, now or later. A memory may
    /// have narrower bounds than the region. Changes nothing.
    fn admits(&self, offset: u64, bytes: u64) -> bool {
        self.check(offset, bytes).is_ok()
    }

    /// Returns true when a write of `bytes` at `offset`, which [`Memory::admits`], is possible now:
    /// it overwrites nothing that a reader still needs. Changes nothing.
    fn is_free(&self, _offset: u64, _bytes: u64) -> bool {
        true
    }

    /// Loads the aligned word at `offset`, with acquire order. Errors: as `read`, and
    /// [`AccessError::Unaligned`].
    fn load(&self, offset: u64) -> Result<u64, AccessError>;

    /// Stores the aligned word at `offset`, with release order. Errors: as `write`, and
    /// [`AccessError::Unaligned`].
    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError>;

    /// Adds to the aligned word at `offset`; returns the old value.
    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError>;

    /// Replaces the aligned word at `offset` by `desired` if it is `expected`; returns the old
    /// value.
    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError>;
}

/// Posts each operation until one is refused. For links with a [`Fabric::post_all`] of their own.
pub fn post_each<'a>(
    posts: &[Post<'a>],
    mut post: impl FnMut(&Post<'a>) -> Result<(), PostError>,
) -> Result<(), BatchError> {
    for (accepted, of) in posts.iter().enumerate() {
        post(of).map_err(|error| BatchError { accepted, error })?;
    }
    Ok(())
}

impl core::fmt::Debug for dyn Memory {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{} bytes of memory", self.bytes())
    }
}

/// Calls `visit` with a copy of all bytes of a memory, and writes the copy back.
///
/// For memory that cannot lend its bytes. The caller ensures that nobody else writes meanwhile.
/// Errors: those of `read` and `write`, and [`AccessError::Memory`].
pub fn view_copy<M: Memory + ?Sized>(
    memory: &M,
    visit: &mut dyn FnMut(&mut [u8]),
) -> Result<(), AccessError> {
    let bytes = memory.bytes();
    let mut copy = Vec::new();
    let count = usize::try_from(bytes).unwrap_or(usize::MAX);
    copy.try_reserve_exact(count).map_err(|_| AccessError::Memory { bytes })?;
    copy.resize(count, 0);
    memory.read(0, &mut copy)?;
    visit(&mut copy);
    memory.write(0, &copy)
}

/// The capabilities of a link, so that programs adapt instead of guessing.
///
/// Later versions may add fields: a link of another crate begins with [`Capabilities::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The link's name, for reports: `shm`, `udp`, `sim:sci`.
    pub link: &'static str,
    /// The largest put or get in one operation \[byte\].
    pub operation_bytes_max: u64,
    /// The largest message \[byte\].
    pub message_bytes_max: u64,
    /// The largest region \[byte\].
    pub region_bytes_max: u64,
    /// The most regions of one node.
    pub regions_max: u32,
    /// The most endpoints of one node.
    pub endpoints_max: u32,
    /// Operations that one endpoint takes before some complete.
    pub queue_max: u32,
    /// The most pieces of one gather ([`Local::Gather`]).
    pub pieces_max: u32,
    /// [`Fabric::register_own`] makes regions of the program's memory.
    pub own_memory: bool,
    /// [`Fabric::window`] maps peers' regions.
    pub windows: bool,
    /// Atomics of peers are atomic with respect to the owner's own atomics.
    pub atomics: bool,
    /// Operations on a reliable endpoint are placed in the order of posting.
    pub ordered: bool,
    /// Up to this size a window is faster than a put, as measured \[byte\]; 0: a put always is.
    pub crossover_bytes: u64,
    /// The longest time from a peer's death to the report of its broken endpoints.
    pub death_noticed_within: Span,
}

impl Capabilities {
    /// Returns those of a link that can do nothing: all limits are 0. A link sets its own.
    ///
    /// ```
    /// # use fluxline_core::fabric::Capabilities;
    /// const LINK: Capabilities = {
    ///     let mut link = Capabilities::new("mine");
    ///     link.operation_bytes_max = 1 << 20;
    ///     link
    /// };
    /// # assert_eq!(LINK.link, "mine");
    /// ```
    #[must_use]
    pub const fn new(link: &'static str) -> Capabilities {
        Capabilities {
            link,
            operation_bytes_max: 0,
            message_bytes_max: 0,
            region_bytes_max: 0,
            regions_max: 0,
            endpoints_max: 0,
            queue_max: 0,
            pieces_max: 0,
            own_memory: false,
            windows: false,
            atomics: false,
            ordered: false,
            crossover_bytes: 0,
            death_noticed_within: Span::ZERO,
        }
    }
}
