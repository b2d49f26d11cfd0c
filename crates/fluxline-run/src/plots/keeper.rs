//! The thread that fills the plots and writes plots.json.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fluxline::{clock, pin};
use fluxline_daq::plots::{Ended, PLOTS_FILE};
use fluxline_daq::record::{FolderError, RunFolder};

use super::shared::Plots;
use super::tap::{Drain, Work};
use crate::monitor::Monitor;

/// Time from one plots.json to the next.
const PERIOD: Duration = Duration::from_secs(5);
/// A file takes at most one part in this many of the time.
const WRITING_SHARE: u32 = 50;

/// The running thread.
#[derive(Debug)]
pub(crate) struct PlotKeeper {
    plots: Plots,
    monitor: Monitor,
    thread: JoinHandle<()>,
}

impl PlotKeeper {
    /// Starts the thread, which ends when the tap is dropped; without a folder, nothing is written.
    pub fn start(
        plots: &Plots,
        drain: Drain,
        folder: Option<&RunFolder>,
        monitor: &Monitor,
    ) -> PlotKeeper {
        let keeping =
            Keeping { plots: plots.clone(), folder: folder.cloned(), monitor: monitor.clone() };
        let thread = std::thread::spawn(move || keeping.run(&drain));
        PlotKeeper { plots: plots.clone(), monitor: monitor.clone(), thread }
    }

    /// Waits for the end of the thread, and checks the laws. `recorded`: the packets in the files;
    /// `None`: there are no files.
    pub fn end(self, recorded: Option<u64>) {
        let PlotKeeper { plots, monitor, thread } = self;
        if thread.join().is_err() {
            monitor.note(Some(
                "the plots' thread ended by a defect of the program: plots.json is \
                               older than the end of the run",
            ));
            return;
        }
        let state = plots.state();
        for plot in state.set.plots() {
            let seen = plot.packets().seen;
            let is_whole = recorded.is_none_or(|packets| packets == seen);
            monitor.note((!plot.closes() || !is_whole).then(|| {
                format!(
                    "the counts of plot `{}` do not add up, by a defect of the program: {:?}, \
                     {:?}, {recorded:?} packets recorded",
                    plot.plot().name,
                    plot.packets(),
                    plot.values()
                )
            }));
        }
    }
}

struct Keeping {
    plots: Plots,
    folder: Option<RunFolder>,
    monitor: Monitor,
}

impl Keeping {
    fn run(self, drain: &Drain) {
        // The acquisition goes first where all cores are busy; a refusal changes no result.
        let _ = pin::lower_priority();
        let mut due = Instant::now() + PERIOD;
        loop {
            let rest = due.saturating_duration_since(Instant::now());
            match drain.work.recv_timeout(rest) {
                Ok(Work::Source(source)) => {
                    let mut state = self.plots.state();
                    state.set.add_source(source.number, source.input, &source.label);
                }
                Ok(Work::Skipped(packets)) => self.plots.state().set.skip(packets),
                Ok(Work::Batch(mut batch)) => {
                    self.plots.state().set.take(&batch);
                    batch.clear();
                    let _ = drain.give_back.send(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if now >= due {
                self.write();
                due = Instant::now() + PERIOD.max(now.elapsed() * WRITING_SHARE);
            }
        }
        self.plots.state().ended = Ended::Yes;
        self.write();
    }

    /// Replaces plots.json as a whole; a disk that cannot have it is a note.
    fn write(&self) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.plots.any()) else { return };
        let text = self.plots.text(clock::now());
        let written = folder.directory().replace(Path::new(PLOTS_FILE), &text);
        self.monitor.note(written.err().map(|error| no_plots(&error)));
    }
}

fn no_plots(error: &FolderError) -> String {
    format!("{PLOTS_FILE} cannot be written; the last one that was written stays: {error}")
}
