//! Requests and answers between caches and memory.

/// The number of a cache.
pub type CacheId = u8;

/// The state of a line in memory. WASH belongs to the full set and is not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryState {
    /// Nobody has a copy.
    #[default]
    Home,
    /// There is a list; memory's copy is valid.
    Fresh,
    /// There is a list; memory's copy is stale.
    Gone,
}

/// A command to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryCommand {
    /// The line, to be read.
    CacheFresh,
    /// The line, clean, of which memory is to count its copy as stale.
    CacheClean,
    /// The line, to be modified.
    CacheDirty,
    /// The head's place of a list that exists.
    AttachToList,
    /// The head's place of a list of which memory's copy is stale.
    AttachToGone,
    /// Memory's copy is going to be stale.
    ListToGone,
    /// The list ends.
    ListToHome,
    /// Memory's copy is valid again.
    ListToFresh,
    /// Another is head.
    PassHead,
    /// A fresh list is to be forgotten.
    FreshToHome,
}

/// A command to another cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheCommand {
    /// Become second; the data is not needed (cread00.PEND_VALID).
    PendValid,
    /// Become second and give the data (cread64.COPY_VALID).
    CopyValid,
    /// Take this as the next instead of me; `None`: become the last (PREV_VMID, PREV_VTAIL).
    Previous(Option<CacheId>),
    /// Take this as the one before instead of me (NEXT_VMID).
    NextMid(CacheId),
    /// Become head (NEXT_FHEAD, NEXT_DHEAD); whether the list is dirty.
    NextHead {
        /// Memory's copy is stale.
        dirty: bool,
    },
    /// Become invalid and tell who is next (VALID_INVALID, FRESH_INVALID).
    Invalidate {
        /// The predecessor of the target.
        before: CacheId,
    },
}

/// A request under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request<D> {
    /// To memory; data comes with a write-back.
    Memory {
        /// The command.
        command: MemoryCommand,
        /// The next head, where it is not the sender.
        next: Option<CacheId>,
        /// The written-back line.
        data: Option<D>,
    },
    /// To another cache.
    Cache {
        /// The target.
        to: CacheId,
        /// The command.
        command: CacheCommand,
    },
}

/// An answer under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer<D> {
    /// Refused: try again, or look again (cn).
    pub nullified: bool,
    /// The memory state that was found, in an answer of memory.
    pub found: Option<MemoryState>,
    /// The old head, or who was next.
    pub other: Option<CacheId>,
    /// The line.
    pub data: Option<D>,
}

impl<D> Answer<D> {
    /// The refusal.
    #[must_use]
    pub fn null() -> Answer<D> {
        Answer { nullified: true, found: None, other: None, data: None }
    }

    /// Done, with nothing to tell.
    #[must_use]
    pub fn done() -> Answer<D> {
        Answer { nullified: false, found: None, other: None, data: None }
    }
}
