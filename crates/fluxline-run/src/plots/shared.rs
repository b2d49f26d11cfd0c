//! The plots of a run, for its keeper and for pages.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::Moment;
use fluxline_daq::experiment::Experiment;
use fluxline_daq::filter::FilterInput;
use fluxline_daq::formats::LoadedFormat;
use fluxline_daq::plots::{Ended, Filled, PlotSet, Reference, SHOWN_BINS_MAX, SavedPlots};
use fluxline_daq::record::RunFolder;
use serde_json::Value;

use crate::error::Error;

/// The plots of a run; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Plots(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// True when there are plots; without any, a batch costs one load.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub set: PlotSet,
    pub ended: Ended,
}

impl Default for State {
    fn default() -> State {
        State { set: PlotSet::default(), ended: Ended::No }
    }
}

impl Plots {
    /// Makes the empty plots of an experiment, and reads their references. A reference that cannot
    /// be used is a sentence: the run goes on without it.
    ///
    /// # Errors
    /// A wrong expression: its key and place.
    pub(crate) fn of(
        experiment: &Experiment,
        loaded: &[LoadedFormat],
    ) -> Result<(Plots, Vec<String>), Error> {
        let pairs = experiment.sources.iter().zip(loaded);
        let inputs: Vec<_> = pairs
            .map(|(of, format)| FilterInput { name: &of.name, description: &format.description })
            .collect();
        let made = PlotSet::new(&experiment.plots, &inputs);
        let mut set = made.map_err(|problem| Error::input(format!("[[plot]]: {problem}")))?;
        let notes = set.plots_mut().iter_mut().filter_map(add_reference).collect();
        let plots = Plots::default();
        plots.0.any.store(!set.plots().is_empty(), Ordering::Relaxed);
        plots.state().set = set;
        Ok((plots, notes))
    }

    /// Returns true when there are plots.
    #[must_use]
    pub fn any(&self) -> bool {
        self.0.any.load(Ordering::Relaxed)
    }

    /// Returns the plots as plots.json has them, without the bins of those that are too large for
    /// a page. Cost: a copy of up to 200,000 bins; waits for a batch that is being filled.
    #[must_use]
    pub fn document(&self) -> Value {
        let state = self.state();
        let now = fluxline::clock::now();
        let document = state.set.document(now, state.ended, SHOWN_BINS_MAX as u64);
        serde_json::to_value(document).unwrap_or_default()
    }

    /// Returns the text of plots.json.
    pub(super) fn text(&self, now: Moment) -> Vec<u8> {
        let state = self.state();
        serde_json::to_vec(&state.set.document(now, state.ended, u64::MAX)).unwrap_or_default()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the reference of a plot; returns a sentence where it cannot be used.
fn add_reference(plot: &mut Filled) -> Option<String> {
    let path = plot.plot().reference.clone()?;
    match read_reference(plot, &path) {
        Ok(reference) => {
            plot.reference = Some(reference);
            None
        }
        Err(error) => Some(format!(
            "plot `{}` is shown without its reference {}: {}",
            plot.plot().name,
            path.display(),
            error.trim_end_matches('.')
        )),
    }
}

fn read_reference(plot: &Filled, path: &Path) -> Result<Reference, String> {
    let folder = RunFolder::open(path).map_err(|error| error.to_string())?;
    let saved = SavedPlots::read(folder.directory())?.ok_or("it has no plots.json")?;
    saved.reference(plot, &path.display().to_string())
}
