//! Requests and answers between caches and memory.

/// The number of a cache.
pub type CacheId = u8;

/// The state of a line in memory. WASH belongs to the full set and is not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryState {
    /// No cache has a copy.
    #[default]
    Home,
    /// A list exists; memory's copy is valid.
    Fresh,
    /// A list exists; memory's copy is stale.
    Gone,
}

/// A command to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryCommand {
    /// The line, to be read.
    CacheFresh,
    /// The line, clean; memory marks its copy as stale.
    CacheClean,
    /// The line, to be modified.
    CacheDirty,
    /// The position of head of an existing list.
    AttachToList,
    /// The position of head of a list whose copy in memory is stale.
    AttachToGone,
    /// Memory's copy will become stale.
    ListToGone,
    /// The list ends.
    ListToHome,
    /// Memory's copy is valid again.
    ListToFresh,
    /// Another cache becomes head.
    PassHead,
    /// Memory forgets a fresh list.
    FreshToHome,
}

/// A command to another cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheCommand {
    /// Become second; the data is not needed (cread00.PEND_VALID).
    PendValid,
    /// Become second and send the data (cread64.COPY_VALID).
    CopyValid,
    /// Take this cache as successor instead of the sender; `None`: become the last (PREV_VMID,
    /// PREV_VTAIL).
    Previous(Option<CacheId>),
    /// Take this cache as predecessor instead of the sender (NEXT_VMID).
    NextMid(CacheId),
    /// Become head (NEXT_FHEAD, NEXT_DHEAD).
    NextHead {
        /// Memory's copy is stale.
        dirty: bool,
    },
    /// Become invalid and name the successor (VALID_INVALID, FRESH_INVALID).
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
        /// The next head, if it is not the sender.
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
    /// Refused: try again, or check the state again (cn).
    pub nullified: bool,
    /// The state that memory found, in an answer of memory.
    pub found: Option<MemoryState>,
    /// The old head, or the successor.
    pub other: Option<CacheId>,
    /// The line.
    pub data: Option<D>,
}

impl<D> Answer<D> {
    /// Returns a refusal.
    #[must_use]
    pub fn null() -> Answer<D> {
        Answer { nullified: true, found: None, other: None, data: None }
    }

    /// Returns an answer without content.
    #[must_use]
    pub fn done() -> Answer<D> {
        Answer { nullified: false, found: None, other: None, data: None }
    }
}
