//! Work that waits in an endpoint's queue.

use alloc::vec::Vec;

use super::super::region::{RegionId, Slice, Target};
use super::super::work::{Operation, total_bytes};

/// Work in an endpoint's queue.
pub(super) struct Queued {
    pub tag: u64,
    pub act: Act,
    /// Success is reported too.
    pub is_reported: bool,
}

/// The operation that queued work does.
pub(super) enum Act {
    Put { from: Source, to: Target, notify: Option<u32> },
    Get { from: Target, into: Slice },
    FetchAdd { at: Target, add: u64 },
    CompareSwap { at: Target, expected: u64, desired: u64 },
    Send { from: Source },
    Flush,
}

/// The bytes of a put or a message.
pub(super) enum Source {
    Bytes(Vec<u8>),
    Pieces(Vec<Slice>),
}

impl Source {
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Pieces(pieces) => total_bytes(pieces),
        }
    }
}

impl Queued {
    /// Returns the own region that it will write.
    pub fn fills(&self) -> Option<RegionId> {
        match self.act {
            Act::Get { into, .. } => Some(into.region),
            _ => None,
        }
    }

    pub fn operation(&self) -> Operation {
        match self.act {
            Act::Put { .. } => Operation::Put,
            Act::Get { .. } => Operation::Get,
            Act::FetchAdd { .. } => Operation::FetchAdd,
            Act::CompareSwap { .. } => Operation::CompareSwap,
            Act::Send { .. } => Operation::Send,
            Act::Flush => Operation::Flush,
        }
    }
}
