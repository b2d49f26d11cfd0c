//! The reasons why a call of a node has failed.

use alloc::string::String;

use crate::Span;
use crate::fabric::connect::NoConnection;
use crate::fabric::push::{NextError, PushOpenError, PushRefused};
use crate::fabric::{ExportError, ImportError, Name, NameError, PostError, RegisterError, Status};

/// The reason why a call of a [`Node`](super::Node) has failed: who, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// It did not happen in time. It may still happen later.
    #[error("{waits_for} of {peer} did not come within {timeout}: {remedy}, or wait longer")]
    Late {
        /// The peer's name.
        peer: String,
        /// The thing that did not come.
        waits_for: String,
        /// The time that the caller gave.
        timeout: Span,
        /// The thing to do.
        remedy: &'static str,
    },
    /// The peer cannot be reached, or was not there in time.
    #[error(transparent)]
    NoConnection(#[from] NoConnection),
    /// The peer does not give the region.
    #[error("the region {region} of {peer} cannot be imported: {status}")]
    Import {
        /// The peer's name.
        peer: String,
        /// The region's name.
        region: String,
        /// The peer's answer.
        status: Status,
    },
    /// Posted work has failed.
    #[error("work {tag} for {peer} has failed: {status}")]
    Work {
        /// The peer's name.
        peer: String,
        /// The caller's tag.
        tag: u64,
        /// The end of the work.
        status: Status,
    },
    /// The link refuses the work for good.
    #[error("work for {peer} was refused: {error}")]
    Post {
        /// The peer's name.
        peer: String,
        /// The reason.
        error: PostError,
    },
    /// A ring of a peer takes no more records, or has not taken one in time.
    #[error("the ring {ring} of {peer}: {reason}")]
    Push {
        /// The peer's name.
        peer: String,
        /// The ring's name.
        ring: Name,
        /// The reason.
        reason: PushRefused,
    },
    /// A receiver of a fan-out takes no record, or the record is too long for one.
    #[error("a receiver of the fan-out: {reason}")]
    FanOut {
        /// The reason.
        reason: PushRefused,
    },
    /// No more records can be read from an own ring.
    #[error("the ring {ring}: {reason}")]
    Next {
        /// The ring's name.
        ring: Name,
        /// The reason.
        reason: NextError,
    },
    /// The sender of an own ring has died. All that it published was read.
    #[error(
        "the sender of the ring {ring} died before it finished; all that it had published was \
         read: look why it died, and start it again"
    )]
    SenderDied {
        /// The ring's name.
        ring: Name,
    },
    /// The node has no such ring: it was ended, or it is another node's.
    #[error("this node has no {end} {number}: it was ended, or another node has it; open it anew")]
    NoSuchRing {
        /// `sender` or `receiver`.
        end: &'static str,
        /// The number of the identifier.
        number: u32,
    },
    /// Nobody takes the completions.
    #[error("{kept} completions wait for this program: take them with `next_completion`")]
    Crowded {
        /// The number of completions.
        kept: usize,
    },
    /// A ring could not be made or reached.
    #[error(transparent)]
    Ring(#[from] PushOpenError),
    /// The text is not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The region could not be made.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The region could not be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The region could not be asked for.
    #[error(transparent)]
    Ask(#[from] ImportError),
}
