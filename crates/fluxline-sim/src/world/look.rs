//! The world as programs on threads see it: whether a node has work, and the next event.

use fluxline_core::Moment;

use super::Cluster;
use super::moments::{instant, moment};

/// The state of a node that a waiting program looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// True if the program would get a completion now.
    pub has_completion: bool,
    /// Writes and atomics of other nodes in its regions so far.
    pub changes: u64,
    /// True if its driver still does posted work, or writes messages to peers.
    pub is_busy: bool,
    /// True until the node crashes.
    pub is_alive: bool,
}

impl Cluster {
    /// Looks at a node.
    pub(crate) fn look(&self, node: usize) -> Look {
        self.look_at(|_, look| look(node))
    }

    /// Calls `with` with the time, and with a function that looks at a node: all at one time.
    pub(crate) fn look_at<R>(&self, with: impl FnOnce(Moment, &dyn Fn(usize) -> Look) -> R) -> R {
        let world = self.world.lock();
        let now = world.now();
        with(moment(now), &|node| {
            let state = world.look(node);
            let has_completion = state.next_completion_at.is_some_and(|at| at <= now);
            let (changes, is_busy, is_alive) = (state.changes, state.is_busy, state.is_alive);
            Look { has_completion, changes, is_busy, is_alive }
        })
    }

    /// Returns the time of a node's next completion, if it is known.
    pub(crate) fn next_completion_at(&self, node: usize) -> Option<Moment> {
        self.world.lock().look(node).next_completion_at.map(moment)
    }

    /// Moves time to the next event or completion, or to `limit` if that is earlier.
    pub(crate) fn advance(&self, limit: Moment) {
        let mut world = self.world.lock();
        let now = moment(world.now());
        let (event, completion) = (world.next_at().map(moment), world.next_due_after(now));
        let next = event.into_iter().chain(completion).chain([limit]).min();
        world.run_until(instant(next.unwrap_or(limit).max(now)));
    }

    /// Returns the number of work items completed for programs.
    pub(crate) fn progress(&self) -> u64 {
        self.world.lock().progress()
    }
}
