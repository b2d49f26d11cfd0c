//! The errors of a benchmark, one sentence each: what happened, and what to do.

use std::io;

use fluxline_core::fabric::{
    AccessError, ConnectError, ExportError, ImportError, NameError, PostError, RegisterError,
};

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other side is gone: its process ended, its machine is off, the cable is out.
    #[error("the other side is gone ({how}); check it, and start `fluxline bench --serve` again")]
    PeerGone {
        /// The first sign of it.
        how: String,
    },
    /// A process that was started to send ended, or sends nonsense.
    #[error("a sending process failed ({how}), and its counts are lost; measure again")]
    SenderFailed {
        /// The first sign of it.
        how: String,
    },
    /// The other side failed, for this reason.
    #[error("the other side: {why}")]
    PeerFailed {
        /// Its sentence.
        why: String,
    },
    /// No far side serves there.
    #[error(
        "nobody serves at {address} ({source}); start `fluxline bench --serve {address}` on the \
         other side, and give its key with --key"
    )]
    NoPeer {
        /// The address.
        address: String,
        /// The host's error.
        source: io::Error,
    },
    /// The two sides are not of one release.
    #[error("the other side runs {theirs}, this one {ours}; bring both to the same release")]
    Version {
        /// The release of the other side.
        theirs: String,
        /// The release of this side.
        ours: String,
    },
    /// The other side sent something that is not a message.
    #[error("the other side sent {what}; it may not be `fluxline bench --serve`")]
    Garbled {
        /// The thing received.
        what: String,
    },
    /// The user pressed Ctrl-C, or the time is up.
    #[error("the benchmark was interrupted")]
    Interrupted,
    /// A measurement without progress for a long time.
    #[error("{what} made no progress for {seconds} s; the link loses everything, or a side hangs")]
    Stalled {
        /// The part that hangs.
        what: String,
        /// The time without progress \[s\].
        seconds: u64,
    },
    /// The link delivered other data than was sent.
    #[error("the link has a defect: {what}; please report it")]
    Defect {
        /// The data that arrived.
        what: String,
    },
    /// This link does not support it.
    #[error("{what} is not possible on {link}")]
    Unsuitable {
        /// The operation.
        what: String,
        /// The link.
        link: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Input(String),
    /// The link refused.
    #[error("the link rejected the operation: {0}")]
    Refused(String),
    /// The host refused.
    #[error("{what}: {source}")]
    Host {
        /// The attempt.
        what: String,
        /// The host's error.
        source: io::Error,
    },
}

impl Error {
    /// Wraps a host's error.
    pub fn host(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::Host { what, source }
    }

    /// Returns true if nothing more can be measured with this peer; otherwise the next experiment
    /// may run.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        !matches!(self, Error::PeerFailed { .. } | Error::Unsuitable { .. } | Error::Input(_))
    }
}

/// Errors of the library have one case: the user of the benchmark cannot fix them.
macro_rules! refused {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Error {
            fn from(error: $kind) -> Error {
                Error::Refused(error.to_string())
            }
        }
    )*};
}
refused!(
    AccessError,
    ConnectError,
    ExportError,
    ImportError,
    NameError,
    PostError,
    RegisterError,
    fluxline::OpenError,
    fluxline::push::Broken,
    fluxline::push::PushOpenError,
    fluxline::push::PushRefused,
    fluxline::shm::ShmError
);

impl From<fluxline::pin::PinError> for Error {
    fn from(error: fluxline::pin::PinError) -> Error {
        Error::Input(error.to_string())
    }
}
