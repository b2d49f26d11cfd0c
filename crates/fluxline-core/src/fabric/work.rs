//! Work that is posted to an endpoint, and the completions that come back.

use alloc::string::String;

use super::region::{RegionId, RemoteId, Slice, Target};

/// One end of a connection between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// The promise of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Losses are counted. Order is not promised, and nothing is repeated.
    Unreliable,
    /// Exactly once and in order, or the connection is broken and all queued work completes as
    /// [`Status::Flushed`].
    Reliable,
}

/// The progress after which an operation completes. VIA fixed this per connection; it is
/// chosen per operation here, as EXTOLL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The source may be used again; the link has taken responsibility.
    Copied,
    /// The bytes are in the peer's memory. Placed is not consumed: the peer's program may not have
    /// seen them, and may die before it does. Only an answer of that program says that it has.
    Placed,
}

/// The source of the bytes of a put or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Local<'a> {
    /// Any memory; it is copied before `post` returns.
    Bytes(&'a [u8]),
    /// A slice of an own region; it must not change until the operation is `Copied`.
    Region(Slice),
    /// Slices of own regions, one after the other; each may be empty, and they may overlap.
    ///
    /// At most [`Capabilities::pieces_max`](super::Capabilities::pieces_max). Their bytes must not
    /// change until the operation is `Copied`; the list of them may.
    Gather(&'a [Slice]),
}

impl Local<'_> {
    /// Returns the slices of own regions that the bytes come from; none for [`Local::Bytes`].
    #[must_use]
    pub fn pieces(&self) -> &[Slice] {
        match self {
            Local::Bytes(_) => &[],
            Local::Region(slice) => core::slice::from_ref(slice),
            Local::Gather(pieces) => pieces,
        }
    }

    /// Returns the number of bytes; `u64::MAX` for pieces with more.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Local::Bytes(bytes) => bytes.len() as u64,
            Local::Region(slice) => slice.bytes,
            Local::Gather(pieces) => total_bytes(pieces),
        }
    }
}

/// Returns the bytes of all pieces together; `u64::MAX` for more.
#[must_use]
pub fn total_bytes(pieces: &[Slice]) -> u64 {
    pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.bytes))
}

/// An operation. With `complete_at: None` it has a completion only if it fails (verbs call it
/// unsignaled).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work<'a> {
    /// Writes into the peer's region. With `notify`, the owner gets this value after the bytes are
    /// in place.
    Put {
        /// The bytes.
        from: Local<'a>,
        /// The destination at the peer.
        to: Target,
        /// Value of the [`Completion::Notified`] that the owner gets.
        notify: Option<u32>,
        /// The level at which it completes; `None`: only a failure is reported.
        complete_at: Option<Level>,
    },
    /// Reads from the peer's region into an own one; completes when the bytes have arrived.
    Get {
        /// The source at the peer.
        from: Target,
        /// The own destination, which also gives the length.
        into: Slice,
    },
    /// Adds to an aligned 64-bit word (little-endian) of the peer's region; completes with the old
    /// value.
    FetchAdd {
        /// The word.
        at: Target,
        /// The addend, modulo 2^64.
        add: u64,
    },
    /// Replaces an aligned 64-bit word of the peer's region if it is `expected`; completes with the
    /// old value.
    CompareSwap {
        /// The word.
        at: Target,
        /// The value that the word must have.
        expected: u64,
        /// The value that it gets then.
        desired: u64,
    },
    /// Sends a message into the buffer that the peer posted next.
    Send {
        /// The bytes.
        from: Local<'a>,
        /// The level at which it completes; `None`: only a failure is reported.
        complete_at: Option<Level>,
    },
    /// Later work on this endpoint begins after all earlier work is placed. Completes at once.
    Fence,
    /// Completes when all earlier work on this endpoint is placed.
    Flush,
}

/// One operation of a batch ([`Fabric::post_all`](super::Fabric::post_all)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post<'a> {
    /// The caller's tag, which comes back in the completion.
    pub tag: u64,
    /// The operation.
    pub work: Work<'a>,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// [`Work::Put`].
    Put,
    /// [`Work::Get`].
    Get,
    /// [`Work::FetchAdd`].
    FetchAdd,
    /// [`Work::CompareSwap`].
    CompareSwap,
    /// [`Work::Send`].
    Send,
    /// A buffer given by `post_receive`.
    Receive,
    /// [`Work::Fence`].
    Fence,
    /// [`Work::Flush`].
    Flush,
}

impl Work<'_> {
    /// Returns the kind of operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Work::Put { .. } => Operation::Put,
            Work::Get { .. } => Operation::Get,
            Work::FetchAdd { .. } => Operation::FetchAdd,
            Work::CompareSwap { .. } => Operation::CompareSwap,
            Work::Send { .. } => Operation::Send,
            Work::Fence => Operation::Fence,
            Work::Flush => Operation::Flush,
        }
    }
}

/// The end of an operation, a connection or an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// The operation succeeded.
    #[error("done")]
    Done,
    /// The peer has no region of that name.
    #[error("the peer exports no region of that name; look at the name, and who starts first")]
    NoSuchRegion,
    /// The given key is not the region's.
    #[error("the key is not the region's; give the key that its owner exported it with")]
    WrongKey,
    /// The region was exported without the needed right.
    #[error("the region was exported without that right; its owner must grant it")]
    Rights,
    /// The bytes are not all inside the region.
    #[error("the access leaves the region; offset plus length must not exceed its size")]
    OutOfRegion,
    /// A word of 64 bits must be at a multiple of 8.
    #[error("atomics need an offset that is a multiple of 8")]
    Unaligned,
    /// The owner ended the region.
    #[error("the region's owner has withdrawn it")]
    Withdrawn,
    /// The message was longer than the buffer that waited for it; the buffer holds its beginning.
    #[error("the message is longer than the buffer posted for it")]
    TooLong,
    /// A message found no buffer for longer than the link waits.
    #[error("no buffer was posted for the message at the peer")]
    NoBuffer,
    /// The connection ended before the operation was done. Its bytes may have arrived or not.
    #[error("the connection ended before the operation was complete")]
    Flushed,
    /// The peer's process died or its node went away.
    #[error("the peer is gone")]
    PeerGone,
    /// The peer ended the connection.
    #[error("the peer has disconnected")]
    Disconnected,
    /// The peer speaks another version.
    #[error("the peer has another version of the link's layout; bring both to the same release")]
    Version,
    /// The peer does not accept more connections.
    #[error("the peer has no room for another connection, or its region is in use by another peer")]
    NoRoom,
    /// The link itself failed: for `Unreliable`, the loss of this operation.
    #[error("the link failed")]
    Transport,
    /// This process has no file descriptor or no memory left; nothing was done.
    #[error(
        "this process may not open more files or map more memory; allow more (`ulimit -n`, \
         `ulimit -v`) or give some back"
    )]
    NoResources,
    /// Short frames arrive, and long ones do not any more.
    #[error(
        "long frames do not arrive any more, and short ones do: the MTU of the path has shrunk; \
         connect again, or raise it (`tracepath PEER` shows where)"
    )]
    PathShrunk,
}

impl Status {
    /// Every status, in the order of its number ([`Status::number`]).
    pub const ALL: [Status; 17] = [
        Status::Done,
        Status::NoSuchRegion,
        Status::WrongKey,
        Status::Rights,
        Status::OutOfRegion,
        Status::Unaligned,
        Status::Withdrawn,
        Status::TooLong,
        Status::NoBuffer,
        Status::Flushed,
        Status::PeerGone,
        Status::Disconnected,
        Status::Version,
        Status::NoRoom,
        Status::Transport,
        Status::NoResources,
        Status::PathShrunk,
    ];

    /// Returns the status's number, which never changes: its index in [`Status::ALL`].
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns true when the status is [`Status::Done`].
    #[must_use]
    pub fn is_done(self) -> bool {
        self == Status::Done
    }
}

/// A completion, as [`super::Fabric::poll`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completion {
    /// Posted work is done or failed.
    Done {
        /// The endpoint that it was posted to.
        endpoint: EndpointId,
        /// The caller's tag.
        tag: u64,
        /// The kind of operation.
        operation: Operation,
        /// The result.
        status: Status,
        /// The old value of the word for atomics, the length of the message for a receive, else 0.
        value: u64,
    },
    /// A peer's put with `notify` is in place.
    Notified {
        /// The endpoint of the writer.
        endpoint: EndpointId,
        /// The own region that was written.
        region: RegionId,
        /// The offset of the first written byte.
        offset: u64,
        /// The length \[byte\].
        bytes: u64,
        /// The peer's value.
        value: u32,
    },
    /// A connection is open. This side asked for it, or the peer did.
    Connected {
        /// The new endpoint.
        endpoint: EndpointId,
        /// The peer's name.
        peer: String,
        /// The promise of the connection.
        reliability: Reliability,
    },
    /// A connection ended or failed. All its work has completed before this.
    Broken {
        /// The endpoint.
        endpoint: EndpointId,
        /// The reason.
        status: Status,
    },
    /// An import is decided.
    Imported {
        /// The import.
        remote: RemoteId,
        /// [`Status::Done`] when it may be used, else the reason.
        status: Status,
        /// The region's size \[byte\]; 0 on failure.
        bytes: u64,
    },
}
