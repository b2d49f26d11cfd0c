//! The other end of a connection: its kind and its identity.

use alloc::string::String;

/// The kind of a peer, which decides what frames it understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerKind {
    /// A Fluxline end: it keeps frames beyond a missing one and acknowledges selectively.
    Fluxline,
    /// A configured peer that speaks only the standard: it goes back to the missing frame.
    Standard,
}

impl PeerKind {
    #[inline]
    pub fn is_fluxline(self) -> bool {
        self == PeerKind::Fluxline
    }
}

/// The identity of a peer.
pub(super) struct Peer {
    pub name: String,
    pub kind: PeerKind,
    /// A random number of the end that called; it distinguishes this connection from others.
    pub nonce: u64,
    /// The peer called this node, and not the other way round.
    pub is_caller: bool,
}
