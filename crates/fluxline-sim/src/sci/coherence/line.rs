//! A cache's line: its state, its neighbours in the sharing list, and what it is in the middle of.

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
    /// The first of several; memory has the same.
    HeadFresh,
    /// The first of several; memory's is stale.
    HeadDirty,
    /// Neither the first nor the last.
    MidValid,
    /// The last of several.
    TailValid,
}

/// An operation of a processor on its cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation<D> {
    /// Read the line.
    Load,
    /// Replace the line's data.
    Store(D),
    /// Give the copy up.
    Delete,
    /// Take all copies away and bring memory up to date: at some moment of the operation nobody
    /// else has a copy. Who comes later may have one when it ends.
    Flush {
        /// That moment has been; to begin with, false. Without it, several that flush would take
        /// each other's copies away for ever.
        alone: bool,
    },
}

impl<D> Operation<D> {
    /// A flush, to begin with.
    pub const FLUSH: Operation<D> = Operation::Flush { alone: false };
}

/// The place in the operation: which request is under way. The names say what is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Asked memory for the line and for the head's place.
    Joining,
    /// Asking the old head to go behind this cache.
    Attaching {
        /// The old head.
        to: CacheId,
        /// True if its data is needed: memory's is stale.
        copy: bool,
        /// The command to memory.
        command: MemoryCommand,
    },
    /// Asking the predecessor to forget this cache. Nothing is decided yet: whatever a predecessor
    /// asks meanwhile is done.
    Leaving {
        /// The predecessor that was asked; meanwhile it may be another.
        to: CacheId,
    },
    /// No request under way: `by` has forgotten this cache, but those that were between the two are
    /// still leaving, and are going to say that `by` is the predecessor.
    Left {
        /// The cache that has forgotten this one.
        by: CacheId,
    },
    /// Telling the successor who its predecessor is now.
    Unlinking,
    /// Asking memory to make the successor head.
    Passing,
    /// Telling the successor that it is head.
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
    /// No request under way: memory has a newer head, which is going to ask to be attached.
    WaitingForHead,
}

/// A cache's line. `D`: its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line<D> {
    /// The cache's state.
    pub state: CacheState,
    /// The next in the list, away from memory.
    pub forward: Option<CacheId>,
    /// The one before.
    pub back: Option<CacheId>,
    /// The bytes; meaningful when the state is not invalid.
    pub data: D,
    /// The operation in progress and its place; `None`: idle.
    pub doing: Option<(Operation<D>, Phase)>,
}

impl CacheState {
    /// Returns true if it is the first of its list.
    #[must_use]
    pub const fn is_head(self) -> bool {
        use CacheState::{HeadDirty, HeadFresh, OnlyDirty, OnlyFresh};
        matches!(self, OnlyFresh | OnlyDirty | HeadFresh | HeadDirty)
    }

    /// Returns true if it is the head of a list of which memory's copy is stale.
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        matches!(self, CacheState::OnlyDirty | CacheState::HeadDirty)
    }

    /// The head's state of a list of one, or of several.
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

    /// The place in the operation.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.doing.as_ref().map(|&(_, phase)| phase)
    }
}
