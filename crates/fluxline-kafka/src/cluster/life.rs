//! The state of each process of a run, as an observer sees it.

use super::block::{NodeState, Role};
use super::observed::{DEAD_AFTER, Seen};

/// The state of a process, as an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its last block is final and good.
    Ended,
    /// It stopped early and said why.
    Failed,
    /// Its blocks come.
    Alive,
    /// It sends no block any more.
    Dead,
    /// A later start of the same node has taken its place.
    Replaced,
}

impl Life {
    /// Returns the state in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Life::Ended => "ended",
            Life::Failed => "failed",
            Life::Alive => "running",
            Life::Dead => "DEAD",
            Life::Replaced => "replaced",
        }
    }

    /// Returns true when the process may have counted packets after its last block, and is gone.
    #[must_use]
    pub fn is_lost(self) -> bool {
        matches!(self, Life::Dead | Life::Replaced)
    }
}

/// Returns the state of a process.
#[must_use]
pub fn life_of(seen: &Seen, all: &[Seen]) -> Life {
    let block = &seen.block;
    let is_later = |other: &Seen| {
        let (this, that) = (block, &other.block);
        let is_same = match this.role {
            Role::Readout => that.node == this.node,
            Role::Builder => that.node == this.node && that.id == this.id,
        };
        is_same && (that.start, that.incarnation) > (this.start, this.incarnation)
    };
    match block.state {
        NodeState::Ended => Life::Ended,
        NodeState::Failed => Life::Failed,
        _ if all.iter().any(is_later) => Life::Replaced,
        _ if seen.quiet >= DEAD_AFTER => Life::Dead,
        _ => Life::Alive,
    }
}
