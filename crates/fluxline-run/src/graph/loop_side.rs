//! The feedback loop at a builder: shows closed events to its decider.

use fluxline::clock;
use fluxline_cluster::PartitionBuilder;
use fluxline_cluster::edges::Inlets;
use fluxline_cluster::rings::RingNode;
use fluxline_core::{Moment, Span};
use fluxline_daq::event::{BatchPlace, EventBatch};
use fluxline_daq::experiment::Sampled;

use super::link::EPOCH;
use crate::feedback::{Asked, DeciderPart, Inline, WorkerHandle};
use crate::filter::RunSource;

/// The decider of a builder, and how far its events were shown to it.
pub(crate) struct LoopSide<I> {
    way: Way<I>,
    /// The time at which events were sampled; `None`: it is of another day.
    sampled: Option<Sampled>,
    /// Sources that the decider knows.
    known: usize,
    /// The place behind the last event that was shown, in the batch that grows.
    place: BatchPlace,
    /// Events that closed in this step.
    fresh: Vec<Asked>,
}

/// The place where the function works.
pub(crate) enum Way<I> {
    /// A thread beside the builder.
    Worker(WorkerHandle),
    /// The builder's own program, in virtual time; its node has the way to the actuator.
    Inline { inline: Inline, node: fn(&mut I) -> &mut RingNode },
}

impl<I: Inlets> LoopSide<I> {
    pub fn new(way: Way<I>, sampled: Option<Sampled>) -> LoopSide<I> {
        let (place, fresh) = (BatchPlace::default(), Vec::new());
        LoopSide { way, sampled, known: 0, place, fresh }
    }

    /// Takes the events that closed since the last look; `is_cut`: the batch ends here.
    pub fn look(&mut self, partition: &PartitionBuilder, batch: &EventBatch, is_cut: bool) {
        for source in &partition.sources()[self.known..] {
            let label = source.label.clone();
            let source = RunSource { number: source.number, input: source.input, label };
            match &mut self.way {
                Way::Worker(worker) => worker.add_source(source),
                Way::Inline { inline, .. } => inline.add_source(&source),
            }
        }
        self.known = partition.sources().len();
        while let Some(event) = batch.view_at(&mut self.place) {
            if !event.is_late() {
                self.fresh.push(Asked::of(&event, self.sampled));
            }
        }
        if is_cut {
            self.place = BatchPlace::default();
        }
    }

    /// Shows the events of this step to the decider, and lets it work where it has no thread.
    /// Returns the time until it has more to do.
    pub fn go_on(&mut self, inlets: &mut I) -> Option<Span> {
        let fresh = self.fresh.drain(..);
        match &mut self.way {
            Way::Worker(worker) => {
                fresh.for_each(|asked| worker.ask(asked.closed_at(clock::now())));
                None
            }
            Way::Inline { inline, node } => {
                let node = node(inlets);
                let now = node.now();
                let closed = EPOCH + now.since(Moment::default());
                fresh.for_each(|asked| inline.ask(asked.closed_at(closed)));
                inline.poll(now, EPOCH, node).map(|until| until.since(node.now()))
            }
        }
    }

    /// Decides on what waits, and ends the writes.
    pub fn finish(&mut self, inlets: &mut I) {
        match &mut self.way {
            Way::Worker(worker) => worker.finish(),
            Way::Inline { inline, node } => inline.finish(EPOCH, node(inlets)),
        }
    }

    pub fn part(&self) -> DeciderPart {
        match &self.way {
            Way::Worker(worker) => worker.part(),
            Way::Inline { inline, .. } => inline.part(),
        }
    }
}
