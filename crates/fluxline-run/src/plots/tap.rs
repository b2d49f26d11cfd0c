//! The recorder's end of the plots: batches go out, and their memory comes back.

use std::sync::mpsc::{Receiver, Sender, channel};

use fluxline_daq::event::EventBatch;

use super::shared::Plots;
use crate::filter::RunSource;

/// Most batches that wait for the keeper.
pub(crate) const QUEUE: usize = 4;

/// An item for the keeper.
pub(super) enum Work {
    /// A source of the packets that follow.
    Source(RunSource),
    /// A batch to fill.
    Batch(EventBatch),
    /// Packets of batches that were left out.
    Skipped(u64),
}

/// The way in which the recorder treats a keeper that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Leaves batches out: senders do not wait.
    Skip,
    /// Waits: all packets come from files.
    Wait,
}

/// Gives recorded batches to the keeper.
pub(crate) struct PlotTap {
    plots: Plots,
    work: Sender<Work>,
    empty: Receiver<EventBatch>,
    spare: Vec<EventBatch>,
    /// Batches that the keeper has.
    given: usize,
    /// Packets that were left out since the last one that was given.
    skipped: u64,
    pace: Pace,
}

/// The keeper's end of a tap.
pub(crate) struct Drain {
    pub(super) work: Receiver<Work>,
    pub(super) give_back: Sender<EventBatch>,
}

/// Makes both ends.
pub(crate) fn tap(plots: &Plots, pace: Pace) -> (PlotTap, Drain) {
    let (work, incoming) = channel();
    let (give_back, empty) = channel();
    let (plots, spare) = (plots.clone(), Vec::with_capacity(QUEUE));
    let tap = PlotTap { plots, work, empty, spare, given: 0, skipped: 0, pace };
    (tap, Drain { work: incoming, give_back })
}

impl PlotTap {
    /// Takes note of a source.
    pub fn add_source(&self, source: &RunSource) {
        let _ = self.work.send(Work::Source(source.clone()));
    }

    /// Offers a batch that nobody needs any more; it may be exchanged for an empty one. Costs no
    /// copy.
    pub fn offer(&mut self, batch: &mut EventBatch) {
        if let Some(mut taken) = self.room_for(batch) {
            std::mem::swap(batch, &mut taken);
            self.give(taken);
        }
    }

    /// Offers a batch that others need too. Cost: a copy, where the keeper is not behind.
    pub fn offer_copy(&mut self, batch: &EventBatch) {
        if let Some(mut taken) = self.room_for(batch) {
            taken.clone_from(batch);
            self.give(taken);
        }
    }

    /// Returns an empty batch for the packets of `batch`; `None`: they are left out.
    fn room_for(&mut self, batch: &EventBatch) -> Option<EventBatch> {
        if batch.is_empty() || !self.plots.any() {
            return None;
        }
        while let Ok(empty) = self.empty.try_recv() {
            self.came_back(empty);
        }
        if self.given >= QUEUE
            && self.pace == Pace::Wait
            && let Ok(empty) = self.empty.recv()
        {
            self.came_back(empty);
        }
        if self.given >= QUEUE {
            self.skipped += batch.packets.len() as u64;
            return None;
        }
        Some(self.spare.pop().unwrap_or_default())
    }

    fn came_back(&mut self, empty: EventBatch) {
        self.given -= 1;
        self.spare.push(empty);
    }

    fn give(&mut self, batch: EventBatch) {
        self.given += 1;
        self.send_skipped();
        let _ = self.work.send(Work::Batch(batch));
    }

    fn send_skipped(&mut self) {
        let skipped = std::mem::take(&mut self.skipped);
        if skipped > 0 {
            let _ = self.work.send(Work::Skipped(skipped));
        }
    }
}

impl Drop for PlotTap {
    fn drop(&mut self) {
        self.send_skipped();
    }
}
