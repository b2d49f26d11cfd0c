//! Counters and errors of push rings on every link.

use alloc::string::String;

use crate::fabric::{ConnectError, ExportError, RegisterError, Status};

crate::counters! {
    /// Counters of one side of a push ring. Law, when all is read: both sides' `records` are equal.
    pub struct PushCounters {
        records [Sum "record"] "Records pushed or read" => "";
        bytes [Sum "byte"] "Their bytes, without the ring's own words" => "";
        batches [Sum "batch"] "Times that records were published" => "";
        full [Sum "refusal"] "Times that a record found no room"
            => "The receiver is too slow, or the ring too small for its pauses.";
        stalled_ns [Sum "ns"] "Time from a refusal until a record found room again" => "";
        delivered [Sum "record"] "Records that the receiver's program has taken, as this side knows"
            => "A sender learns it once per quarter of the ring.";
        died [Sum "producer"] "Senders whose process died before it closed the ring"
            => "Its records that were not published are gone; find out why it died.";
        broken [Sum "ring"] "Rings in which the other process wrote an invalid record"
            => "No more is read from such a ring; repair the sender, and open the ring anew.";
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
    /// The last sender has closed, or its process has died, and all that it published is read.
    /// Another sender may come: then there are records again.
    #[error("the push ring's producer has gone; start it again for more records")]
    Gone,
    /// The ring is broken for good.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// The reason why a sender is not open yet; it tries again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Waits {
    /// The peer does not answer.
    #[error("the receiver's node does not answer; start it, or look at its name")]
    Peer,
    /// The peer exports no such ring.
    #[error("the receiver's node has no ring of that name; look at the name, and who starts first")]
    Ring,
    /// Another sender has the ring.
    #[error("the ring has a sender already; end that one, or give each sender a ring of its own")]
    Turn,
    /// The peer has been asked.
    #[error("the receiver has not answered yet; poll both ends")]
    Answer,
    /// This host refused a file or memory.
    #[error("this process may not open more files or map more memory; allow more (`ulimit -n`)")]
    Host,
}

/// The reason why a record was not pushed; it stays the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefused {
    /// The receiver has not read yet; try again. All records so far are published.
    #[error("the push ring is full; its consumer is behind")]
    Full,
    /// Temporary: the sender is not open yet. Poll, and try again.
    #[error("the push ring is not open yet: {0}")]
    NotOpen(Waits),
    /// The caller's: longer than a quarter of the ring.
    #[error("a record of {bytes} bytes is too long for the ring, which takes at most {max}")]
    TooLong {
        /// Asked \[byte\].
        bytes: usize,
        /// Possible \[byte\].
        max: usize,
    },
    /// Final: the receiver has closed, or its process has died.
    #[error("the push ring's consumer has gone; start it again, and open another sender")]
    ConsumerGone,
    /// Final: the receiver's node does not let this sender in.
    #[error("the push ring's owner does not let this sender in: {0}")]
    NotAdmitted(Status),
    /// Final: the region of that name is not a push ring.
    #[error("the region of that name is not a push ring of this version; check the name")]
    NoRing,
    /// The caller's: the sender was finished.
    #[error("this sender was finished; open another one")]
    Finished,
    /// No record will ever pass again.
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
    /// The caller's.
    #[error(
        "a ring of {slots} slots of {slot_bytes} bytes is not possible: write 1 or more of each, \
         and at most 64 GiB in all"
    )]
    Plan {
        /// Records that the ring should hold.
        slots: u32,
        /// The length of one \[byte\].
        slot_bytes: u32,
    },
    /// The host's.
    #[error(transparent)]
    Region(#[from] RegisterError),
    /// The caller's, or the host's: the ring's name.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The caller's: the peer cannot be reached on this link.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The peer's: its region holds no ring (yet), or one of another version.
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
