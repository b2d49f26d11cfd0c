//! A world as its nodes and programs see it, whatever its network is.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::{AccessError, Completion, Memory, RegionId};

use crate::core::dump::{Dump, Written};
use crate::fabric::adapter::{Counts, Hands};
use crate::fabric::driver::Driver;
use crate::fabric::memory::NodeMemory;
use crate::{Fingerprint, Instant};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// The time of its program's next completion, if it is known.
    pub next_completion_at: Option<Instant>,
    /// Writes and atomics of other nodes in its regions so far.
    pub changes: u64,
    /// True if its driver still does posted work, or sends messages to peers.
    pub is_busy: bool,
    /// True until the node crashes.
    pub is_alive: bool,
}

/// The nodes of a world, and their time.
pub trait Nodes: Send {
    /// Returns the time.
    fn now(&self) -> Instant;

    /// Returns the time of the next entry.
    fn next_at(&self) -> Option<Instant>;

    /// Returns a number that is equal for equal runs.
    fn fingerprint(&self) -> Fingerprint;

    /// Returns the number of nodes.
    fn nodes(&self) -> usize;

    /// Lets a node's driver do something, and settles what follows.
    fn act(&mut self, node: usize, work: &mut dyn FnMut(&mut Driver, &mut dyn Hands));

    /// Switches a node off: its peers notice the silence.
    fn switch_off(&mut self, node: usize);

    /// Does all that is due by `until`; then it is `until`.
    fn run_until(&mut self, until: Instant);

    /// Returns the next completion for a node's program.
    fn next_completion(&mut self, node: usize) -> Option<Completion>;

    /// Returns the state of a node.
    fn look(&self, node: usize) -> NodeState;

    /// Returns the time of the next completion for any program after `seen`.
    fn next_due_after(&self, seen: Moment) -> Option<Moment>;

    /// Returns the number of work items completed for programs.
    fn progress(&self) -> u64;

    /// Takes the nodes whose programs may have something to do: they have a completion by `now`,
    /// their driver made progress, or they crashed.
    fn take_woken(&mut self, now: Moment) -> BTreeSet<u32>;

    /// Returns the memory of a node's own region.
    fn region_words(&self, node: usize, region: RegionId) -> Result<Arc<dyn Memory>, AccessError>;

    /// Returns the memory of the region at an address of a node.
    fn words_at(&self, node: u32, offset: u64) -> Option<Arc<dyn Memory>>;

    /// Returns a node's driver.
    fn driver(&self, node: usize) -> &Driver;

    /// Returns a node's memory.
    fn memory(&self, node: usize) -> &NodeMemory;

    /// Returns the counts of a node's adapter.
    fn counts(&self, node: usize) -> Counts;

    /// Checks that every frame of the network is in exactly one place.
    fn check_conservation(&self) -> Result<(), String>;

    /// Returns the number of requests that are not over, of all nodes.
    fn transactions_open(&self) -> usize;

    /// Records the network's frames in a new file from now on; `false`: it has no dumps.
    fn begin_dump(&mut self, file: &Path, dump: Dump) -> io::Result<bool>;

    /// Ends the dump, if there is one.
    fn end_dump(&mut self) -> io::Result<Option<Written>>;
}
