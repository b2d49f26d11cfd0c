//! The errors of a test with perftest, one sentence each: what happened, and what to do.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use fluxline::roce::RoceError;
use fluxline_core::endpoint::StaticPeerError;
use fluxline_core::fabric::{
    AccessError, ImportError, NameError, PostError, RegisterError, Status,
};

use super::program::Program;

/// The phase of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The ends exchange versions and path MTU.
    Greeting,
    /// The ends exchange queue pairs, keys and addresses.
    Keys,
    /// Data moves.
    Test,
    /// The ends exchange results and say goodbye.
    End,
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Phase::Greeting => "before its version arrived",
            Phase::Keys => "while queue pairs and keys were exchanged",
            Phase::Test => "during the test",
            Phase::End => "while results were exchanged",
        })
    }
}

/// The reason why a test has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer is too old.
    #[error(
        "the peer's perftest says version {theirs}, and its exchange has another form before 5.70; \
         install a later perftest there"
    )]
    Version {
        /// Its version.
        theirs: String,
    },
    /// The peer sent something else.
    #[error(
        "the peer sent {what}, which is not part of perftest's exchange; start {program} there"
    )]
    Garbled {
        /// The received bytes.
        what: String,
        /// The program that is expected.
        program: Program,
    },
    /// The peer is on InfiniBand.
    #[error(
        "the peer's GID is zero: it uses InfiniBand addresses; give it the index of a RoCEv2 GID \
         (`-x INDEX`, `ibv_devinfo -v` lists them)"
    )]
    NoGid,
    /// The peer's address for remote memory is not the one that it connected from.
    #[error(
        "the peer's remote memory is at {gid}, and its TCP connection is with {address}; pass \
         --peer {gid} here if that is right, or give the peer another GID (`-x INDEX`)"
    )]
    Gid {
        /// The address in its key message.
        gid: IpAddr,
        /// The address of its TCP connection.
        address: IpAddr,
    },
    /// The peer uses a transport of InfiniBand that is not supported.
    #[error("the peer uses the transport XRC or DC; start it with -c RC or -c UC")]
    SharedQueue,
    /// The test takes one queue pair.
    #[error(
        "the peer asks for {pairs} queue pairs or more; {program} here takes {max} (`-q {max}`)"
    )]
    Pairs {
        /// The number so far.
        pairs: usize,
        /// The most.
        max: usize,
        /// The program.
        program: Program,
    },
    /// The peer closed its connection.
    #[error("the peer closed its TCP connection {phase}; its own messages have the reason")]
    Ended {
        /// The phase.
        phase: Phase,
    },
    /// Nothing came.
    #[error("the peer was silent for {} s {phase}; {hint}", seconds(.waited))]
    Silent {
        /// The phase.
        phase: Phase,
        /// The time without progress.
        waited: Duration,
        /// The likely reason.
        hint: String,
    },
    /// The test ended without an operation.
    #[error("the test is over and no operation came; {hint}")]
    Nothing {
        /// The likely reason.
        hint: String,
    },
    /// The connection of queue pairs failed.
    #[error("the connection of queue pairs failed {phase}: {status}")]
    Broken {
        /// The phase.
        phase: Phase,
        /// The reason.
        status: Status,
    },
    /// A message did not fit.
    #[error("the peer's messages are longer than {bytes} bytes; pass their size with --bytes")]
    TooLong {
        /// The size of a buffer \[byte\].
        bytes: u64,
    },
    /// No server listens there.
    #[error("nobody listens at {address} ({source}); start {program} there, without an address")]
    NoServer {
        /// The address.
        address: SocketAddr,
        /// The program that is expected.
        program: Program,
        /// The host's error.
        source: io::Error,
    },
    /// A node needs one address.
    #[error("{0} is not one address of this machine; write the address of the RDMA network")]
    Unspecified(IpAddr),
    /// The user pressed Ctrl-C.
    #[error("the test was interrupted")]
    Interrupted,
    /// The node could not be opened.
    #[error(transparent)]
    Node(#[from] RoceError),
    /// The host refused.
    #[error("{what}: {source}")]
    Host {
        /// The attempt.
        what: String,
        /// The host's error.
        source: io::Error,
    },
    /// The link refused.
    #[error("the link rejected the operation: {0}")]
    Refused(String),
}

impl Error {
    /// Wraps a host's error.
    pub(super) fn host(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::Host { what, source }
    }
}

fn seconds(span: &Duration) -> u64 {
    span.as_secs()
}

macro_rules! refused {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Error {
            fn from(error: $kind) -> Error {
                Error::Refused(error.to_string())
            }
        }
    )*};
}
refused!(AccessError, ImportError, NameError, PostError, RegisterError, StaticPeerError);

/// Returns the IPv4 address where a GID is one.
pub(super) fn address_of(gid: Ipv6Addr) -> IpAddr {
    gid.to_canonical()
}
