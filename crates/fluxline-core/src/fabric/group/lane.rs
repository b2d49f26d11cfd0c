//! The lanes between two members.

/// A lane of slots from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Messages, and announcements of longer ones.
    Messages = 0,
    /// Parts of collective operations.
    Collectives = 1,
    /// Pieces of longer messages.
    Bulk = 2,
}

/// All lanes, by number.
pub(super) const LANES: [Lane; 3] = [Lane::Messages, Lane::Collectives, Lane::Bulk];
