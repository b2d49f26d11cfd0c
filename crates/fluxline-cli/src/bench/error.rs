//! Why a benchmark came to no result, in one sentence each.

use fluxline::pin::PinError;
use fluxline::push::{PushOpenError, PushRefused};
use fluxline::shm::ShmError;
use fluxline_proto::fabric::{ConnectError, ExportError, ImportError, PostError, RegisterError};

use crate::failure::Failure;

/// Why a benchmark came to no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The host's, or its container's.
    #[error(
        "the benchmark needs two cores, and this process may use {allowed:?} only; allow it more \
         (taskset, the container's cpuset)"
    )]
    Cores {
        /// What there is.
        allowed: Vec<usize>,
    },
    /// Somebody ended the other process, or it failed.
    #[error("the other process of the benchmark (process {process}) {how}; run it again")]
    OtherDied {
        /// Its number.
        process: u32,
        /// How it ended.
        how: String,
    },
    /// Two processes of the benchmark did not find each other.
    #[error("the two processes of the benchmark did not find each other within 10 s; run it again")]
    NotMet,
    /// Ctrl-C.
    #[error("the benchmark was interrupted")]
    Interrupted,
    /// The link delivered something else than was sent: a defect of Fluxline.
    #[error("the link has a defect: {what}; please report it")]
    Defect {
        /// What came.
        what: String,
    },
    /// The host refused.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
    /// Shared memory refused.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// The model refused.
    #[error("the link refused: {0}")]
    Refused(String),
    /// A thread was not pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
}

/// What the library refuses is no case of its own: it cannot be mended by who runs the benchmark.
macro_rules! refused {
    ($($kind:ty),*) => {$(
        impl From<$kind> for BenchError {
            fn from(error: $kind) -> BenchError {
                BenchError::Refused(error.to_string())
            }
        }
    )*};
}
refused!(
    PushOpenError,
    PushRefused,
    fluxline::push::Broken,
    ConnectError,
    ExportError,
    ImportError,
    PostError,
    RegisterError,
    fluxline_proto::fabric::NameError
);

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        match error {
            BenchError::Shm(_) | BenchError::Refused(_) => Failure::link(format_args!("{error}.")),
            _ => Failure::failed(format_args!("{error}.")),
        }
    }
}
