//! The identity of an event: its position, and its source if only one has it.

use serde::{Deserialize, Serialize};

use super::position::Position;

/// The identity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct EventId {
    /// The source, or [`SCOPE_ALL`].
    pub(super) scope: u32,
    pub(super) position: Position,
}

impl EventId {
    /// Returns the only source of the event; `None` if all sources share it.
    pub(super) fn source(self) -> Option<u32> {
        (self.scope != SCOPE_ALL).then_some(self.scope)
    }

    /// Returns the bit of `source` in the event's set of sources.
    pub(super) fn bit_of(self, source: u32) -> u32 {
        if self.scope == SCOPE_ALL { source } else { 0 }
    }
}

/// The scope of events that all sources share.
pub(super) const SCOPE_ALL: u32 = u32::MAX;
