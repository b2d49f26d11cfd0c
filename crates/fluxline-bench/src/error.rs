//! Why a benchmark, or a part of it, came to no result: one sentence each.

use std::io;

use fluxline_proto::fabric::{
    AccessError, ConnectError, ExportError, ImportError, NameError, PostError, RegisterError,
};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other side went away: its process died, its machine is off, the cable is out.
    #[error("the other side is gone ({how}); look at it, and start `fluxline bench --serve` again")]
    PeerGone {
        /// How that was noticed.
        how: String,
    },
    /// A process that was started to send went away, or talks nonsense.
    #[error("a sending process failed ({how}); what it sent is not known, measure again")]
    SenderFailed {
        /// How that was noticed.
        how: String,
    },
    /// The other side could not do its part, and says why.
    #[error("the other side: {why}")]
    PeerFailed {
        /// Its sentence.
        why: String,
    },
    /// Nobody serves there.
    #[error(
        "nobody serves at {address} ({source}); start `fluxline bench --serve {address}` on the \
         other side, and show its key with --key"
    )]
    NoPeer {
        /// Where.
        address: String,
        /// What the host said.
        source: io::Error,
    },
    /// The two sides are not of one release.
    #[error("the other side runs {theirs}, this one {ours}; bring both to the same release")]
    Version {
        /// Theirs.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// The other side sent something that is no message.
    #[error("the other side sent {what}; is it `fluxline bench --serve` at all?")]
    Garbled {
        /// What.
        what: String,
    },
    /// Ctrl-C, or the time is up.
    #[error("the benchmark was interrupted")]
    Interrupted,
    /// Nothing happened for long.
    #[error("{what} made no progress for {seconds} s; the link loses everything, or a side hangs")]
    Stalled {
        /// Which part.
        what: String,
        /// For how long.
        seconds: u64,
    },
    /// The link delivered something else than was sent.
    #[error("the link has a defect: {what}; please report it")]
    Defect {
        /// What came.
        what: String,
    },
    /// This link cannot do it.
    #[error("{what} is not possible on {link}")]
    Unsuitable {
        /// What was asked.
        what: String,
        /// Of which link.
        link: String,
    },
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Input(String),
    /// The model refused.
    #[error("the link refused: {0}")]
    Refused(String),
    /// The host refused.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    /// The host's refusal of something.
    pub fn host(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::Host { what, source }
    }

    /// Whether nothing more can be measured with this peer; else the next experiment may run.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        !matches!(self, Error::PeerFailed { .. } | Error::Unsuitable { .. } | Error::Input(_))
    }
}

/// What the library refuses is no case of its own: who runs the benchmark cannot mend it.
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
