//! A cache's line: its state, its neighbours in the sharing list, and its operation in progress.

use super::message::{CacheId, MemoryCommand};

/// A cache's state of a line. Source of the names: U. Stern's Murphi model (`CT_*`, `CS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheState {
    /// The cache has no copy.
    #[default]
    Invalid,
    /// The only copy; memory has the same.
    OnlyFresh,
    /// The only copy; memory's is stale.
    OnlyDirty,
    /// The first of several copies; memory has the same.
    HeadFresh,
    /// The first of several copies; memory's is stale.
    HeadDirty,
    /// Neither the first copy nor the last.
    MidValid,
    /// The last of several copies.
    TailValid,
}

/// An operation of a processor on its cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation<D> {
    /// Read the line.
    Load,
    /// Replace the line's data.
    Store(D),
    /// Give up the copy.
    Delete,
    /// Take all copies away and bring memory up to date: at some moment of the operation no other
    /// cache has a copy. A cache that asks later may have one when the operation ends.
    Flush {
        /// True once that moment has passed; false at the start. Without this flag, several
        /// flushing caches would take each other's copies away for ever.
        alone: bool,
    },
}

impl<D> Operation<D> {
    /// A flush at its start.
    pub const FLUSH: Operation<D> = Operation::Flush { alone: false };
}

/// The phase of an operation: the request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Asking memory for the line and for the position of head.
    Joining,
    /// Asking the old head to become this cache's successor.
    Attaching {
        /// The old head.
        to: CacheId,
        /// True if its data is needed: memory's is stale.
        copy: bool,
        /// The command to memory.
        command: MemoryCommand,
    },
    /// Asking the predecessor to forget this cache. Nothing is decided yet: this cache still obeys
    /// requests of a predecessor.
    Leaving {
        /// The predecessor that was asked; the present one may be another.
        to: CacheId,
    },
    /// No request under way: `by` has forgotten this cache. The caches between the two are still
    /// leaving, and will name `by` as the predecessor.
    Left {
        /// The cache that has forgotten this one.
        by: CacheId,
    },
    /// Naming its new predecessor to the successor.
    Unlinking,
    /// Asking memory to make the successor head.
    Passing,
    /// Making the successor head.
    Crowning,
    /// Asking memory to count its data as stale.
    Owning,
    /// Asking memory to take the line back.
    Returning,
    /// Invalidating the list, one copy at a time.
    Purging {
        /// The cache that is being invalidated.
        target: CacheId,
        /// The predecessor of that cache.
        before: CacheId,
    },
    /// No request under way: memory has a newer head, which will ask to be attached.
    WaitingForHead,
}

/// A cache's line. `D`: its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line<D> {
    /// The cache's state.
    pub state: CacheState,
    /// The successor in the list, away from memory.
    pub forward: Option<CacheId>,
    /// The predecessor in the list.
    pub back: Option<CacheId>,
    /// The bytes; meaningful when the state is not invalid.
    pub data: D,
    /// The operation in progress and its phase; `None`: idle.
    pub doing: Option<(Operation<D>, Phase)>,
}

impl CacheState {
    /// Returns true if it is the first of its list.
    #[must_use]
    pub const fn is_head(self) -> bool {
        use CacheState::{HeadDirty, HeadFresh, OnlyDirty, OnlyFresh};
        matches!(self, OnlyFresh | OnlyDirty | HeadFresh | HeadDirty)
    }

    /// Returns true if it is the head of a list and memory's copy is stale.
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        matches!(self, CacheState::OnlyDirty | CacheState::HeadDirty)
    }

    /// Returns the state of a head that is alone, or of several caches.
    #[must_use]
    pub const fn head(alone: bool, dirty: bool) -> CacheState {
        match (alone, dirty) {
            (true, false) => CacheState::OnlyFresh,
            (true, true) => CacheState::OnlyDirty,
            (false, false) => CacheState::HeadFresh,
            (false, true) => CacheState::HeadDirty,
        }
    }
}

impl<D> Line<D> {
    /// Forgets the line.
    pub fn forget(&mut self) {
        (self.state, self.forward, self.back) = (CacheState::Invalid, None, None);
    }

    /// Returns the phase of the operation in progress.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.doing.as_ref().map(|&(_, phase)| phase)
    }
}
