//! Errors of the programming model, one type per call. Each variant says who can mend it. All may
//! get more variants.

use super::region::Name;
use super::work::Operation;

/// The reason why a region could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The caller's: the size is not possible.
    #[error("a region of {bytes} bytes is not possible; this link takes 1 to {max} bytes")]
    Size {
        /// The requested size \[byte\].
        bytes: u64,
        /// The largest possible size \[byte\].
        max: u64,
    },
    /// The caller's: there are too many already.
    #[error("{max} regions exist already; withdraw one first")]
    TooMany {
        /// The most that is possible.
        max: u32,
    },
    /// The link's: it cannot use memory of the program ([`Capabilities::own_memory`]).
    ///
    /// [`Capabilities::own_memory`]: super::Capabilities::own_memory
    #[error(
        "this link cannot use memory of the program; let it allocate the region (`register`), and \
         use the bytes in place (`view`)"
    )]
    OwnMemory,
    /// The host's: there is not enough memory.
    #[error("could not allocate memory for a region of {bytes} bytes: {reason}")]
    Memory {
        /// The requested size \[byte\].
        bytes: u64,
        /// The host's reason, with the remedy where known.
        reason: alloc::string::String,
    },
}

/// The reason why a region could not be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The caller's: no such region, or withdrawn.
    #[error("this region does not exist, or was withdrawn")]
    UnknownRegion,
    /// The caller's: it has a name already.
    #[error("the region is exported already, as {name}")]
    Exported {
        /// Its name.
        name: Name,
    },
    /// The caller's: another region that still exists has the name.
    #[error("a region {name} is exported already; choose another name")]
    NameTaken {
        /// The name.
        name: Name,
    },
    /// The host's: the link could not publish the name.
    #[error("the region {name} could not be exported: {reason}")]
    Host {
        /// The name.
        name: Name,
        /// The host's reason.
        reason: alloc::string::String,
    },
}

/// The reason why memory could not be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The caller's: no such region, withdrawn, or not imported (yet).
    #[error("this region does not exist, was withdrawn, or is not imported yet")]
    UnknownRegion,
    /// The caller's: the bytes leave the region.
    #[error("{bytes} bytes at {offset} leave the region of {region_bytes} bytes")]
    OutOfRegion {
        /// The offset of the access \[byte\].
        offset: u64,
        /// The length of the access \[byte\].
        bytes: u64,
        /// The region's size \[byte\].
        region_bytes: u64,
    },
    /// The caller's: words are at multiples of 8.
    #[error("a word of 8 bytes at {offset} is not aligned; offsets of words are multiples of 8")]
    Unaligned {
        /// The offset of the access \[byte\].
        offset: u64,
    },
    /// The owner's: the right was not granted.
    #[error("the region was exported without that right; its owner must grant it")]
    Rights,
    /// The caller's: peers may write the bytes at any time.
    #[error(
        "the region is exported with a right to write; withdraw it, or export it for gets only"
    )]
    Exported,
    /// The caller's: others hold the memory.
    #[error("the region's memory is in use; drop its handles, and wait for work on the region")]
    InUse,
    /// The host's: there is not enough memory for a copy of the region.
    #[error("there is not enough memory to view a region of {bytes} bytes; use its handle")]
    Memory {
        /// The region's size \[byte\].
        bytes: u64,
    },
    /// The caller's: a push ring's memory is written by the ring's producer alone.
    #[error("the region belongs to a push ring, which only its producer writes; register another")]
    PushRing,
}

/// The reason why a connection could not be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The caller's: the name is not valid on this link.
    #[error("{peer:?} is not a node that this link can reach: {expected}")]
    Name {
        /// The name that was given.
        peer: alloc::string::String,
        /// The syntax of a valid name.
        expected: &'static str,
    },
    /// The caller's: there are too many already.
    #[error("{max} endpoints exist already; disconnect one first")]
    TooMany {
        /// The most that is possible.
        max: u32,
    },
    /// The link's: it has no such connections.
    #[error("this link has no {reliability} connections")]
    Reliability {
        /// The requested reliability.
        reliability: &'static str,
    },
    /// The host's: the connection could not be begun.
    #[error("connecting to {peer} failed: {reason}")]
    Host {
        /// The peer.
        peer: alloc::string::String,
        /// The host's reason.
        reason: alloc::string::String,
    },
}

/// The reason why an import could not be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The caller's: no such endpoint, or not connected (any more).
    #[error("the endpoint is not connected")]
    NotConnected,
    /// The caller's: there are too many already.
    #[error("{max} regions are imported already")]
    TooMany {
        /// The most that is possible.
        max: u32,
    },
}

/// A batch of which only the first operations were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{accepted} operations were accepted; the next was not: {error}")]
pub struct BatchError {
    /// The number of accepted operations, from the first on.
    pub accepted: usize,
    /// The reason why the next one was not.
    pub error: PostError,
}

/// The reason why work was not accepted. The arguments stay the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// Temporary: the queue is full. Poll, then try again.
    #[error("the endpoint's queue is full; poll for completions, then post again")]
    Full,
    /// The caller's: no such endpoint, not connected yet, or over.
    #[error("the endpoint is not connected")]
    NotConnected,
    /// The caller's: the remote region is not imported on this endpoint.
    #[error("the remote region is not imported on this endpoint")]
    NotImported,
    /// The caller's: the work names own memory wrongly.
    #[error("own memory: {0}")]
    Local(AccessError),
    /// The caller's: the work names the peer's memory wrongly, as far as this side knows.
    #[error("the peer's memory: {0}")]
    Remote(AccessError),
    /// The caller's: operations with an answer need a reliable connection.
    #[error("an unreliable connection takes puts and messages only; connect reliably")]
    Unreliable,
    /// The link's: it has no such operation.
    #[error("this link has no operation of this kind ({operation:?}); see its capabilities")]
    Unsupported {
        /// The kind of operation.
        operation: Operation,
    },
    /// The link's: it takes no bytes from this kind of source.
    #[error(
        "this link takes no bytes from this kind of source; give bytes, or a slice of a region"
    )]
    Source,
    /// The caller's: a gather of too many pieces.
    #[error("a gather of {pieces} pieces is too long for this link; at most {max}")]
    Pieces {
        /// The number of pieces.
        pieces: usize,
        /// The most that is possible.
        max: u32,
    },
    /// The caller's: there are too many bytes for one operation.
    #[error("{bytes} bytes are too many for one operation of this link; at most {max}")]
    TooLong {
        /// The requested size \[byte\].
        bytes: u64,
        /// The largest possible size \[byte\].
        max: u64,
    },
}
