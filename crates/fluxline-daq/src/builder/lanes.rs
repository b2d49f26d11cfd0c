//! Open events in the order of their positions: one lane for all, or one per source.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::event_id::SCOPE_ALL;
use super::position::Position;

/// An open event in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) position: Position,
    pub(super) slot: u32,
}

/// The lanes of all scopes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lanes {
    shared: BinaryHeap<Reverse<Head>>,
    of_sources: Vec<BinaryHeap<Reverse<Head>>>,
}

impl Lanes {
    /// Returns true when its events are in slots below `slots`, and its sources below `sources`.
    pub(super) fn is_sound(&self, slots: u32, sources: u32) -> bool {
        let heads = self.shared.iter().chain(self.of_sources.iter().flatten());
        self.of_sources.len() <= sources as usize && heads.into_iter().all(|its| its.0.slot < slots)
    }

    /// Adds an event that was opened.
    pub(super) fn push(&mut self, scope: u32, head: Head) {
        if scope == SCOPE_ALL {
            self.shared.push(Reverse(head));
            return;
        }
        let place = scope as usize;
        if self.of_sources.len() <= place {
            self.of_sources.resize_with(place + 1, BinaryHeap::new);
        }
        self.of_sources[place].push(Reverse(head));
    }

    /// Returns the lowest event of a scope.
    #[inline]
    pub(super) fn head(&self, scope: u32) -> Option<Head> {
        let lane = match scope {
            SCOPE_ALL => &self.shared,
            scope => self.of_sources.get(scope as usize)?,
        };
        lane.peek().map(|head| head.0)
    }

    /// Removes the lowest event of a scope.
    pub(super) fn pop(&mut self, scope: u32) {
        match scope {
            SCOPE_ALL => self.shared.pop(),
            scope => self.of_sources.get_mut(scope as usize).and_then(BinaryHeap::pop),
        };
    }
}
