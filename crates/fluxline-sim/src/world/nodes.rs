//! A world as its nodes and programs see it, whatever its network is.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fluxline_core::Moment;
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, Fabric, Memory, RegionId, WorkCounters,
};

use crate::core::dump::{Dump, Written};
use crate::core::interconnect::{Counter, Loss};
use crate::fabric::adapter::{Counts, Hands};
use crate::fabric::driver::Driver;
use crate::{Duration, Fingerprint, Instant};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// The time of its program's next completion, if it is known.
    pub next_completion_at: Option<Instant>,
    /// Writes and atomics of other nodes in its regions so far.
    pub changes: u64,
    /// True if its driver still does posted work, or sends messages to peers.
    pub is_busy: bool,
    /// True until the node crashes or is switched off.
    pub is_alive: bool,
    /// The number of times that it has started: 1, and one more after each restart.
    pub starts: u32,
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

    /// Calls `work` with a node, once, and settles what follows.
    fn call(&mut self, node: usize, work: &mut dyn FnMut(&mut dyn Fabric));

    /// Returns the longest time without progress after which there will be none: longer than every
    /// time-out of its nodes together.
    fn patience(&self) -> Duration;

    /// Returns true if a node answers its peers only while its program polls.
    fn answers_by_polling(&self) -> bool {
        false
    }

    /// Switches a node off: its peers notice the silence, or get a goodbye.
    fn switch_off(&mut self, node: usize);

    /// Starts a node that was switched off or crashed, with empty memory. Returns false if it is
    /// alive, or if nodes of this world cannot start again.
    fn restart(&mut self, node: usize) -> bool;

    /// Does all that is due by `until`; then it is `until`.
    fn run_until(&mut self, until: Instant);

    /// Returns the state of a node.
    fn look(&self, node: usize) -> NodeState;

    /// Returns the time of the next completion for any program after `seen`.
    fn next_due_after(&self, seen: Moment) -> Option<Moment>;

    /// Returns the number of work items completed for programs.
    fn progress(&self) -> u64;

    /// Takes the nodes whose programs may have something to do: they have a completion by `now`,
    /// their driver made progress, or they crashed.
    fn take_woken(&mut self, now: Moment) -> BTreeSet<u32>;

    /// Returns the counts of a node's adapter.
    fn counts(&self, node: usize) -> Counts;

    /// Checks that every frame of the network is in exactly one place.
    fn check_conservation(&self) -> Result<(), String>;

    /// Returns the places where the network lost frames.
    fn losses(&self) -> Vec<Loss>;

    /// Returns further counts of the network.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// Returns the number of requests that are not over, of all nodes.
    fn transactions_open(&self) -> usize;

    /// Records the network's frames in a new file from now on; `false`: it has no dumps.
    fn begin_dump(&mut self, file: &Path, dump: Dump) -> io::Result<bool>;

    /// Ends the dump, if there is one.
    fn end_dump(&mut self) -> io::Result<Option<Written>>;
}

/// A world whose nodes have drivers.
pub trait Drivers: Nodes {
    /// Lets a node's driver do something, and settles what follows.
    fn act(&mut self, node: usize, work: &mut dyn FnMut(&mut Driver, &mut dyn Hands));

    /// Returns the capabilities of its nodes.
    fn capabilities(&self) -> &Capabilities;

    /// Returns the counters of a node without its handle: zero.
    fn uncounted(&self) -> &WorkCounters;

    /// Returns the bytes that a node stored through windows since they were charged.
    fn through_windows(&self, node: usize) -> &Arc<AtomicU64>;

    /// Returns the next completion for a node's program.
    fn next_completion(&mut self, node: usize) -> Option<Completion>;

    /// Returns the memory of a node's own region.
    fn region_words(&self, node: usize, region: RegionId) -> Result<Arc<dyn Memory>, AccessError>;

    /// Returns the memory of the region at an address of a node.
    fn words_at(&self, node: u32, offset: u64) -> Option<Arc<dyn Memory>>;

    /// Returns a node's driver.
    fn driver(&self, node: usize) -> &Driver;
}
