//! Plots over the whole run: filled from batches of events, in constant memory.
//!
//! A [`PlotSet`] takes the batches that are recorded, and counts those that were left out
//! ([`PlotSet::skip`]). Two laws hold at each moment ([`Filled::closes`]):
//!
//! ```text
//!   packets seen = used + cut by `events` + of other types + skipped
//!   values seen  = entries + underflow + overflow + not a number + cut by `where`
//! ```
//!
//! A value is a packet, or a sample where an expression names one. `axis.rs` has bins of numbers,
//! `time_bins.rs` those of time, `filled.rs` a plot, `document.rs` its JSON, `saved.rs` reads
//! `plots.json` back. docs/plots.md is the manual.

mod axis;
mod document;
mod filled;
mod reference;
mod saved;
#[cfg(test)]
mod tests;
mod time_bins;

use fluxline_core::Moment;

pub use axis::{Axis, Place};
pub use document::{Document, Ended};
pub use filled::{Filled, PacketCounts, ValueCounts};
pub use reference::Reference;
pub use saved::{PLOTS_FILE, SHOWN_BINS_MAX, SavedPlots};

use crate::event::EventBatch;
use crate::experiment::{Plot, Problem};
use crate::filter::FilterInput;

/// The plots of a run.
#[derive(Clone, Debug, Default)]
pub struct PlotSet {
    plots: Vec<Filled>,
}

impl PlotSet {
    /// Makes empty plots of packets of these inputs, numbered in this order.
    ///
    /// # Errors
    /// The first wrong expression: its key and one sentence.
    pub fn new(plots: &[Plot], inputs: &[FilterInput<'_>]) -> Result<PlotSet, Problem> {
        let made = plots.iter().enumerate().map(|(number, plot)| {
            Filled::new(plot, inputs).map_err(|problem| problem.below(&format!("plot.{number}")))
        });
        Ok(PlotSet { plots: made.collect::<Result<_, _>>()? })
    }

    /// Returns the plots.
    #[must_use]
    pub fn plots(&self) -> &[Filled] {
        &self.plots
    }

    /// Returns the plots, to give them their references.
    pub fn plots_mut(&mut self) -> &mut [Filled] {
        &mut self.plots
    }

    /// Adds a source, before the first batch with its packets.
    pub fn add_source(&mut self, number: u32, input: u16, label: &str) {
        self.plots.iter_mut().for_each(|plot| plot.add_source(number, input, label));
    }

    /// Fills every plot with the packets of a batch.
    ///
    /// Cost: an evaluation of each plot's expressions for each packet, or for each sample where
    /// one is named.
    pub fn take(&mut self, batch: &EventBatch) {
        self.plots.iter_mut().for_each(|plot| plot.take(batch));
    }

    /// Counts packets that no plot is filled with.
    pub fn skip(&mut self, packets: u64) {
        self.plots.iter_mut().for_each(|plot| plot.skip(packets));
    }

    /// Returns the document of plots.json; without the bins of those plots that would make more
    /// than `bins_max` bins in all.
    #[must_use]
    pub fn document(&self, at: Moment, is_ended: Ended, bins_max: u64) -> Document<'_> {
        Document::of(&self.plots, at, is_ended, bins_max)
    }
}
