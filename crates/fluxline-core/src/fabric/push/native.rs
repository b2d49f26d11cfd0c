//! The door for a link's own push ring.

use alloc::boxed::Box;

use super::record::Record;
use super::types::{NextError, PushCounters, PushOpenError, PushRefused};
use crate::fabric::{RegionId, RemoteId};
use crate::{Moment, Span};

/// A link that has a push ring of its own, faster than puts.
pub trait RingLink {
    /// Makes a ring of `bytes` (a power of two) in a region of its own, which the caller exports.
    ///
    /// Errors: [`PushOpenError`].
    fn make_ring(&mut self, bytes: u64) -> Result<NativeRing, PushOpenError>;

    /// Becomes the sender of the ring in an imported region.
    ///
    /// Errors: [`PushOpenError`]; [`PushOpenError::NoRing`] when the region has no such ring.
    fn attach(&mut self, remote: RemoteId) -> Result<Box<dyn NativeSender>, PushOpenError>;
}

/// A ring that was made, and the region in which it lies.
pub struct NativeRing {
    /// The region, to be exported with the right to put.
    pub region: RegionId,
    /// The reading end.
    pub receiver: Box<dyn NativeReceiver>,
}

/// The writing end of a link's own ring. When it is dropped, it publishes the rest.
pub trait NativeSender: Send {
    /// Copies a record behind the last one, and its stamp before it. Errors: [`PushRefused`].
    fn push(&mut self, stamp: Option<Moment>, bytes: &[u8]) -> Result<(), PushRefused>;

    /// Shows all records to the receiver.
    fn publish(&mut self);

    /// Returns the reason why each push fails from now on; `None`: pushing may work.
    fn ended(&self) -> Option<PushRefused>;

    /// Returns the number of records of earlier senders, all of which are read, or will be; `None`:
    /// it is not known.
    fn resumes_from(&self) -> Option<u64>;

    /// Counts the records that the receiver's program has taken.
    fn count_delivered(&mut self);

    /// Returns the length of the longest record \[byte\].
    fn record_bytes_max(&self) -> usize;

    /// Returns the counters of this side.
    fn counters(&self) -> &PushCounters;
}

/// The reading end of a link's own ring.
pub trait NativeReceiver: Send {
    /// Returns the oldest record, in place, until the next call. Errors: [`NextError`].
    fn next(&mut self) -> Result<Option<Record<'_>>, NextError>;

    /// Counts on behind `taken` records, which the program took from an earlier ring.
    fn begin_at(&mut self, taken: u64);

    /// Returns the records that were read in the ring's life, those of `begin_at` included.
    fn taken(&self) -> u64;

    /// Sleeps until there are records, the sender has closed, or `timeout` has passed.
    fn wait(&mut self, timeout: Span);

    /// Returns the counters of this side.
    fn counters(&self) -> &PushCounters;
}
