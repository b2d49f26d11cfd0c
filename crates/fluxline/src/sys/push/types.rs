//! Counters and errors of push rings, as [`crate::push`] shows them.

use fluxline_core::fabric::RegisterError;

fluxline_core::counters! {
    /// Counters of one side of a push ring. Law, when all is read: both sides' `records` are equal.
    pub struct PushCounters {
        records [Sum "record"] "Records pushed or read" => "";
        bytes [Sum "byte"] "Their bytes, without the ring's own words" => "";
        batches [Sum "batch"] "Times that records were published" => "";
        full [Sum "refusal"] "Times that a record found no room"
            => "The consumer is too slow, or the ring too small for its pauses.";
        stalled_ns [Sum "ns"] "Time from a refusal until a record found room again" => "";
        died [Sum "producer"] "Producers whose process died before it closed the ring"
            => "Its records that were not published are gone; find out why it died.";
        broken [Sum "ring"] "Rings in which the other process wrote an invalid record"
            => "No more is read from such a ring; repair the producer, and open the ring anew.";
    }
}

/// The other process wrote an invalid record. Nothing more can be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the push ring has an invalid record: the other process has a defect, or another version; \
     repair it, and open the ring anew"
)]
pub struct Broken;

/// The reason why there is no next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NextError {
    /// The last producer has closed, or its process has died, and all that it published is read.
    /// Another producer may attach: then there are records again.
    #[error("the push ring's producer has gone")]
    Gone,
    /// The ring is broken for good.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// The reason why a record was not pushed; the caller keeps the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefused {
    /// The consumer has not read yet; try again. All records so far are published.
    #[error("the push ring is full; its consumer is behind")]
    Full,
    /// The record is longer than a quarter of the ring.
    #[error("a record of {bytes} bytes is too long for the ring, which takes at most {max}")]
    TooLong {
        /// Asked \[byte\].
        bytes: usize,
        /// Possible \[byte\].
        max: usize,
    },
    /// Final: the consumer has closed, or its process has died.
    #[error("the push ring's consumer has gone")]
    ConsumerGone,
    /// The ring is broken for good.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// The reason why a ring could not be made or attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushOpenError {
    /// The size is not possible.
    #[error("a ring of {bytes} bytes is not possible: write a power of two of 64 or more")]
    Size {
        /// Asked \[byte\].
        bytes: u64,
    },
    /// An error of the host.
    #[error(transparent)]
    Region(#[from] RegisterError),
    /// The peer's region does not have a ring (yet), or has one of another version.
    #[error(
        "the region has no push ring of this version, or may not be written; its owner must make \
         the ring and grant the right to put"
    )]
    NoRing,
    /// Another producer has the ring, which has one at a time.
    #[error(
        "the push ring has a producer already (process {process}); end that one first, or give \
         each producer a ring of its own"
    )]
    Claimed {
        /// The process's own number for itself; another container may see another number.
        process: u64,
    },
    /// Final: the consumer has closed, or its process has died.
    #[error("the push ring's consumer has gone; connect to it again once it runs")]
    ConsumerGone,
    /// The ring is broken for good.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// An error of the host.
    #[error("the push ring's file could not be opened or locked: {reason}")]
    Host {
        /// The system's message, with the remedy.
        reason: String,
    },
}
