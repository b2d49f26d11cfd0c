//! The feedback loop among the nodes of a graph: the ways from builders to the actuator.

use std::path::Path;
use std::thread::JoinHandle;

use fluxline_cluster::edges::{Inlets, Outlets};
use fluxline_cluster::mailbox::{MailboxInlets, MailboxOutlets, mailboxes};
use fluxline_cluster::rings::RingNode;
use fluxline_core::Span;
use fluxline_daq::experiment::Feedback;
use serde_json::{Value, json};

use super::link::{EPOCH, Link, Places};
use super::loop_side::{LoopSide, Way};
use super::{Graph, Own, Shared};
use crate::error::Error;
use crate::feedback::{Actuator, ActuatorClock, Decider, HEAD_BYTES, Inline, RING_SLOTS, Worker};
use crate::stop::Stop;

/// The longest record of a loop \[byte\].
pub(super) fn record_bytes(of: &Feedback) -> usize {
    HEAD_BYTES + of.bytes_max as usize
}

impl Graph {
    /// Returns `[loop]`.
    pub(super) fn loop_table(&self) -> Option<&Feedback> {
        self.feedback.as_ref().map(|plan| &plan.of_file)
    }

    /// Returns true when the actuator is in this process.
    pub(super) fn has_actuator(&self) -> bool {
        self.feedback.is_some() && matches!(self.own, None | Some(Own::Actuator))
    }

    /// Returns the loop's words for run.json.
    pub(super) fn about_loop(&self, reads_files: bool) -> Value {
        let Some(of) = self.loop_table() else { return Value::Null };
        let clock = match &self.link {
            Link::Simulated(..) => "virtual time",
            _ if reads_files => "this host's clock, without sampling: packets come from files",
            Link::Ethernet(_) if self.own.is_some() && !self.is_on_loopback() => {
                "the clocks of several hosts, whose differences are in it"
            }
            _ => "this host's clock",
        };
        json!({ "sampled": of.sampled, "clock": clock, "deadline_us": of.deadline_us })
    }

    /// Returns true when all nodes on Ethernet are on this host.
    fn is_on_loopback(&self) -> bool {
        let Link::Ethernet(first) = &self.link else { return false };
        let mut own = self.of_file.addresses.values();
        first.ip().is_loopback() && own.all(|address| address.ip().is_loopback())
    }
}

impl Shared<'_> {
    fn decider(&self, number: usize) -> Option<(Decider, &Feedback)> {
        let plan = self.graph.feedback.as_ref()?;
        let (of, monitor) = (&plan.of_file, self.monitor.clone());
        let function = plan.function(number);
        Some((Decider::new(number, function, of.bytes_max as usize, monitor), of))
    }

    /// Starts the decider of a builder in a thread that writes to `outlets`.
    fn worker<I: Inlets, O: Outlets + 'static>(
        &self,
        number: usize,
        outlets: O,
    ) -> Option<LoopSide<I>> {
        let (decider, of) = self.decider(number)?;
        let (worker, handle) = Worker::new(
            decider,
            outlets,
            of.waiting_max as usize,
            of.answer_ms,
            self.left_behind.clone(),
        );
        // A function that never returns is left behind.
        drop(std::thread::spawn(move || worker.run()));
        let is_live = !self.graph.reads_files(self.experiment);
        Some(LoopSide::new(Way::Worker(handle), is_live.then_some(of.sampled)))
    }

    /// Makes the decider of a builder in virtual time, whose node has the way to the actuator.
    pub(super) fn inline(&self, number: usize) -> Option<LoopSide<RingNode>> {
        let (decider, of) = self.decider(number)?;
        let cost = Span::from_ns(of.decision_ns);
        let inline = Inline::new(decider, cost, of.waiting_max as usize);
        Some(LoopSide::new(Way::Inline { inline, node: |node| node }, Some(of.sampled)))
    }

    /// Returns the maker of the actuator, which takes its edges.
    pub(super) fn actuator<I: Inlets>(
        &self,
        folder: Option<&Path>,
    ) -> impl FnOnce(I) -> Actuator<I> + use<I> {
        let deadline = self.graph.loop_table().and_then(|of| of.deadline_us);
        let deadline = deadline.map(|us| Span::from_ns((us * 1e3) as u64));
        let clock = match self.graph.is_virtual() {
            true => ActuatorClock::Virtual { epoch: EPOCH },
            false => ActuatorClock::Host,
        };
        let stop = (self.graph.own == Some(Own::Actuator)).then(|| Stop::clone(&self.stop));
        let (builders, monitor) = (self.graph.builders(), self.monitor.clone());
        let folder = folder.map(Path::to_path_buf);
        let left_behind = self.left_behind.clone();
        move |inlets| {
            Actuator::new(inlets, builders, clock, monitor)
                .with_left_behind(left_behind)
                .with_deadline(deadline)
                .with_stop(stop)
                .with_file(folder.as_deref())
        }
    }

    /// Starts the actuator in a thread.
    pub(super) fn start_actuator<I: Inlets + 'static>(
        &self,
        folder: Option<&Path>,
        inlets: I,
    ) -> JoinHandle<()> {
        let (make, board) = (self.actuator(folder), self.board.clone());
        std::thread::spawn(move || board.set_actuator(make(inlets).run()))
    }

    /// Makes the ways to the actuator between threads: one for each builder, and their end.
    pub(super) fn loop_threads(&self) -> (Vec<MailboxOutlets>, Option<MailboxInlets>) {
        let Some(of) = self.graph.loop_table() else { return (Vec::new(), None) };
        let lane_bytes = RING_SLOTS as usize * record_bytes(of);
        let (outlets, mut inlets) = mailboxes(self.graph.builders(), 1, lane_bytes);
        (outlets, inlets.pop())
    }

    /// Returns the side of a builder between threads.
    pub(super) fn loop_side_of_thread<I: Inlets>(
        &self,
        number: usize,
        outlets: Option<MailboxOutlets>,
    ) -> Option<LoopSide<I>> {
        self.worker(number, outlets?)
    }

    /// Opens the node that writes for a builder, and returns the builder's side.
    ///
    /// # Errors
    /// The node cannot be opened.
    pub(super) fn open_loop_side<I: Inlets>(
        &self,
        number: usize,
        places: &Places,
    ) -> Result<Option<LoopSide<I>>, Error> {
        if self.graph.feedback.is_none() {
            return Ok(None);
        }
        let mut node = places.open(&Places::decider(number))?;
        places.add_outlet(&mut node, &Places::builder(number), &Places::actuator())?;
        Ok(self.worker(number, node))
    }

    /// Opens the actuator, where it is in this process.
    ///
    /// # Errors
    /// The node cannot be opened.
    pub(super) fn open_actuator(&self, places: &Places) -> Result<Option<RingNode>, Error> {
        match self.graph.loop_table().filter(|_| self.graph.has_actuator()) {
            Some(of) => places.open_actuator(RING_SLOTS, record_bytes(of) as u32).map(Some),
            None => Ok(None),
        }
    }
}
