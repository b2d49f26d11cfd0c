//! Remote interrupts, as a program of a node uses them beside its [`Node`](super::Node).

use std::sync::Arc;

use fluxline_core::lock::Lock;

use super::nodes::Nodes;
use crate::fabric::interrupt::{
    Condition, INTERRUPTS_MAX, InterruptCounts, InterruptError, InterruptReport,
};

/// The interrupts of one node: those that others trigger here, and those it triggers elsewhere.
///
/// Time moves by polling the node, or by [`Cluster::drive`](super::Cluster::drive), which looks at
/// a program again when it was interrupted.
pub struct Interrupts {
    world: Arc<Lock<Box<dyn Nodes>>>,
    index: usize,
}

impl Interrupts {
    pub(super) fn new(world: Arc<Lock<Box<dyn Nodes>>>, index: usize) -> Interrupts {
        Interrupts { world, index }
    }

    /// Makes an interrupt that other nodes can trigger; `number` is below [`INTERRUPTS_MAX`].
    ///
    /// # Errors
    /// [`InterruptError`]: the number is too large or taken.
    pub fn create(&mut self, number: u32) -> Result<(), InterruptError> {
        let mut result = Err(InterruptError::Unsupported);
        self.world.lock().act(self.index, &mut |_, hands| {
            result = hands.memory().interrupts.create(number);
        });
        result
    }

    /// Removes an interrupt: later triggers are refused, unreported ones are forgotten. Returns
    /// true if it existed.
    pub fn remove(&mut self, number: u32) -> bool {
        let mut was_there = false;
        self.world.lock().act(self.index, &mut |_, hands| {
            was_there = hands.memory().interrupts.remove(number);
        });
        was_there
    }

    /// Triggers an interrupt of another node, and returns the number that
    /// [`InterruptReport::Triggered`] gives it. It costs the processor a store and a check, or a
    /// lock; the other one what its machine's `Software::interrupt` says.
    ///
    /// # Errors
    /// [`InterruptError`]: a node or number that does not exist.
    pub fn trigger(
        &mut self,
        node: usize,
        number: u32,
        condition: Condition,
    ) -> Result<u64, InterruptError> {
        let mut world = self.world.lock();
        if !world.has_interrupts() {
            return Err(InterruptError::Unsupported);
        }
        let nodes = world.nodes();
        if node >= nodes || node == self.index {
            return Err(InterruptError::Node { node, last: nodes - 1 });
        }
        if number >= INTERRUPTS_MAX {
            return Err(InterruptError::Number { number });
        }
        let mut trigger = 0;
        world.act(self.index, &mut |driver, hands| {
            trigger = driver.trigger(hands, node as u32, number, condition);
        });
        Ok(trigger)
    }

    /// Returns the next report, oldest first: interrupts, then ends of triggers.
    pub fn next_report(&mut self) -> Option<InterruptReport> {
        let mut report = None;
        self.world.lock().act(self.index, &mut |driver, hands| {
            let raised = hands.memory().interrupts.next_raised();
            report = raised.or_else(|| driver.next_triggered());
        });
        report
    }

    /// Returns the counts of the triggers that arrived here.
    #[must_use]
    pub fn counts(&self) -> InterruptCounts {
        let mut counts = InterruptCounts::default();
        self.world.lock().act(self.index, &mut |_, hands| {
            counts = hands.memory().interrupts.counts();
        });
        counts
    }
}
