//! The cluster as programs on threads see it: whether a node has work, and the next event.

use fluxline_core::Moment;

use super::Cluster;
use super::moments::{instant, moment};

/// The state of a node that a waiting program looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The program would get a completion now.
    pub has_completion: bool,
    /// Writes and atomics of other nodes in its regions so far.
    pub changes: u64,
    /// Its driver still does posted work, or writes messages to peers.
    pub is_busy: bool,
}

impl Cluster {
    /// Looks at a node.
    pub(crate) fn look(&self, node: usize) -> Look {
        let world = self.world.lock();
        let machine = world.machine(node);
        let due = machine.driver.next_completion_at();
        let has_completion = due.is_some_and(|at| at <= world.agenda.now());
        let changes = machine.space().changes();
        Look { has_completion, changes, is_busy: machine.driver.is_busy() }
    }

    /// Returns the time of a node's next completion, if it is known.
    pub(crate) fn next_completion_at(&self, node: usize) -> Option<Moment> {
        self.world.lock().machine(node).driver.next_completion_at().map(moment)
    }

    /// Moves time to the next event or completion, or to `limit` if that is earlier.
    pub(crate) fn advance(&self, limit: Moment) {
        let mut world = self.world.lock();
        let now = moment(world.agenda.now());
        let (event, completion) = (world.agenda.next_at().map(moment), world.next_due_after(now));
        let next = event.into_iter().chain(completion).chain([limit]).min();
        world.run_until(instant(next.unwrap_or(limit).max(now)));
    }

    /// Returns the number of work items completed for programs.
    pub(crate) fn progress(&self) -> u64 {
        self.world.lock().progress()
    }
}
