//! The nodes whose programs may have something to do.

use std::collections::BTreeSet;

use crate::Instant;
use crate::fabric::driver::Driver;

/// The known state of one node's driver.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    progress: u64,
    next_completion_at: Option<Instant>,
}

/// Follows the drivers of all nodes. Its cost grows with the changes, not with the nodes.
#[derive(Debug)]
pub struct Waking {
    known: Vec<Known>,
    /// The next completion of each node that has one.
    due: BTreeSet<(Instant, u32)>,
    /// Nodes whose driver made progress since they were taken, and nodes that crashed.
    woken: BTreeSet<u32>,
    progress: u64,
}

impl Waking {
    /// Makes the record of `nodes` nodes at rest.
    #[must_use]
    pub fn new(nodes: usize) -> Waking {
        let (due, woken) = (BTreeSet::new(), BTreeSet::new());
        Waking { known: vec![Known::default(); nodes], due, woken, progress: 0 }
    }

    /// Notes the present state of a node's driver.
    pub fn note(&mut self, node: u32, driver: &Driver) {
        let known = &mut self.known[node as usize];
        let (progress, next) = (driver.progress(), driver.next_completion_at());
        if progress != known.progress {
            self.progress += progress - known.progress;
            known.progress = progress;
            self.woken.insert(node);
        }
        if next != known.next_completion_at {
            known.next_completion_at.map(|at| self.due.remove(&(at, node)));
            next.map(|at| self.due.insert((at, node)));
            known.next_completion_at = next;
        }
    }

    /// Forgets the driver of a node's former life.
    pub fn reset(&mut self, node: u32) {
        let former = std::mem::take(&mut self.known[node as usize]);
        former.next_completion_at.map(|at| self.due.remove(&(at, node)));
    }

    /// Wakes a node's program: the node crashed, or started again.
    pub fn wake(&mut self, node: u32) {
        self.woken.insert(node);
    }

    /// Returns the number of work items completed for programs.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Returns the time of the next completion of any node after `seen`.
    #[must_use]
    pub fn next_due_after(&self, seen: Instant) -> Option<Instant> {
        self.due.range((seen, u32::MAX)..).find(|of| of.0 > seen).map(|of| of.0)
    }

    /// Takes the nodes that have a completion by `now`, made progress, or crashed.
    pub fn take(&mut self, now: Instant) -> BTreeSet<u32> {
        let mut nodes = std::mem::take(&mut self.woken);
        nodes.extend(self.due.range(..=(now, u32::MAX)).map(|of| of.1));
        nodes
    }
}
