//! The errors of a group: the rank, the event and the remedy.

use alloc::string::String;

use crate::fabric::{
    AccessError, ExportError, ImportError, PostError, RegisterError, Status, connect::NoConnection,
};

/// The reason why a call of a group failed. Every error of a peer names its rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The caller's: the configuration is not possible.
    #[error("{problem}")]
    Config {
        /// The reason and the remedy.
        problem: String,
    },
    /// The caller's: this rank is not another member.
    #[error("rank {rank} is not another member of this group; ranks are 0 to {last}")]
    Rank {
        /// The given rank.
        rank: usize,
        /// The last rank.
        last: usize,
    },
    /// A member did not join in time.
    #[error("rank {rank} did not join in time ({reason}); start it, or allow more time")]
    NotJoined {
        /// The member.
        rank: usize,
        /// The state of its connection.
        reason: String,
    },
    /// A member was not reached.
    #[error("rank {rank}: {reason}")]
    NoConnection {
        /// The member.
        rank: usize,
        /// The reason.
        reason: NoConnection,
    },
    /// A member died or left.
    #[error("rank {rank} has left the group: {status}")]
    RankGone {
        /// The member.
        rank: usize,
        /// The end of its connection.
        status: Status,
    },
    /// A member broke the protocol, or has another configuration.
    #[error("rank {rank} {problem}; run the same release and configuration on all ranks")]
    Protocol {
        /// The member.
        rank: usize,
        /// Its action.
        problem: String,
    },
    /// A message is longer than its receiver allows.
    #[error("a message of {bytes} bytes is longer than its receiver, rank {rank}, allows: {max}")]
    TooLong {
        /// The receiver.
        rank: usize,
        /// The length of the message \[byte\].
        bytes: u64,
        /// The receiver's limit \[byte\]; at the sender: of the group.
        max: u64,
    },
    /// The receiver of a message refused it: too long, or no memory.
    #[error("rank {rank} refused a message of {bytes} bytes: too long for it; send less at once")]
    Refused {
        /// The receiver.
        rank: usize,
        /// The length of the message \[byte\].
        bytes: u64,
    },
    /// The caller's: other messages of the rank wait, and no room is left for the expected one.
    #[error(
        "rank {rank} has sent {waiting} messages that nobody receives, and has no slot left for \
         this one; receive them, or configure more slots"
    )]
    Unexpected {
        /// The sender.
        rank: usize,
        /// The number of its messages.
        waiting: usize,
    },
    /// Two members called different collective operations.
    #[error("rank {rank} called {theirs}, this rank {own}; call the same on all ranks")]
    Mismatch {
        /// The other member.
        rank: usize,
        /// The operation of this rank.
        own: String,
        /// The operation of the other rank.
        theirs: String,
    },
    /// The caller's: one collective operation at a time.
    #[error("a collective operation is under way; finish it first")]
    Busy,
    /// The caller's: too many requests are open.
    #[error("{max} requests are open; finish some first")]
    Requests {
        /// The most that is possible.
        max: usize,
    },
    /// The caller's: no such request.
    #[error("no such request is open; each is finished once")]
    UnknownRequest,
    /// The caller's: the group has not joined yet.
    #[error("the group is not complete yet; join first")]
    Joining,
    /// Nothing happened for too long.
    #[error("{waits_for} took longer than {patience}; look at the other ranks")]
    Late {
        /// The expected event.
        waits_for: String,
        /// The time.
        patience: crate::Span,
    },
    /// The host has too little memory for a message.
    #[error("the host has too little memory for a message of {bytes} bytes")]
    Memory {
        /// The length of the message \[byte\].
        bytes: u64,
    },
    /// The link refused work.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The link refused the group's region.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The link refused the region's name.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The link refused an import.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The link refused an access to own memory.
    #[error(transparent)]
    Access(#[from] AccessError),
}
