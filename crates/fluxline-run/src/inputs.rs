//! The inputs of some sources of an experiment, for a packet taker of the caller's: a readout node
//! that builds no events itself.

use std::thread::JoinHandle;

use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats::LoadedFormat;
use fluxline_daq::ledger::{InputCounters, RemoteWriteCounters};

use crate::acquisition::joined;
use crate::config;
use crate::error::Error;
use crate::monitor::Monitor;
use crate::plan::PlannedInput;
use crate::readout::Readout;
use crate::source::{self, InputEnd, OpenInput};
use crate::stop::Stop;
use crate::taker::PacketTaker;

/// Inputs that run, with the taker of their packets.
pub struct Inputs<T: PacketTaker> {
    plan: Vec<PlannedInput>,
    readout: JoinHandle<T::Outcome>,
    threads: Vec<(usize, JoinHandle<InputEnd>)>,
    /// For each thread: the packets taken are the packets that came, since no thread of this
    /// program filled its ring.
    filled_elsewhere: Vec<bool>,
    monitor: Monitor,
    stop: Stop,
}

/// The counts of one input.
#[derive(Clone, Debug)]
pub struct InputCounts {
    /// The source's number in the experiment.
    pub number: usize,
    /// Its counters, without those of the taker.
    pub counters: InputCounters,
    /// Counters of the frames and records that peers wrote into its memory.
    pub remote: RemoteWriteCounters,
    /// The packets taken are the packets that came.
    pub filled_elsewhere: bool,
}

/// Inputs that have ended and were read.
pub struct EndedInputs<T> {
    /// The taker.
    pub taker: T,
    /// The counts of each input.
    pub inputs: Vec<InputCounts>,
    /// Inputs that ended before the run did, a sentence each.
    pub faults: Vec<String>,
}

/// Opens the links of these sources and closes them, to find mistakes before a run begins. Links
/// that another process would notice are left out.
///
/// # Errors
/// The link's, as [`start_inputs`].
pub fn try_links(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    sources: &[usize],
) -> Result<(), Error> {
    for &number in sources {
        let source = &experiment.sources[number];
        if source.shm.is_none() && source.roce.is_none() && source.emulator.is_none() {
            drop(source::open(source, &loaded[number])?);
        }
    }
    Ok(())
}

/// Starts the inputs of these sources, given by their numbers in the experiment, which are the
/// numbers of the inputs for the taker too. They end by `stop`, by the experiment's `seconds`, or
/// by themselves.
///
/// # Errors
/// A link cannot be opened; nothing was started then.
pub fn start_inputs<T: PacketTaker>(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    sources: &[usize],
    taker: T,
    stop: &Stop,
) -> Result<Inputs<T>, Error> {
    let open = |number: &usize| source::open(&experiment.sources[*number], &loaded[*number]);
    let opened: Vec<OpenInput> = sources.iter().map(open).collect::<Result<_, _>>()?;
    let monitor = Monitor::default();
    for input in &opened {
        let warnings = input.warnings.iter();
        warnings.for_each(|text| monitor.note(Some(format!("source `{}`: {text}", input.name))));
    }
    let plan = opened.iter().map(PlannedInput::of).collect();
    let filled_elsewhere = sources.iter().map(|number| is_filled_elsewhere(experiment, *number));
    let filled_elsewhere = filled_elsewhere.collect();
    let stop = stop.inner().after(experiment.seconds);
    let (rings, feeds): (Vec<_>, Vec<_>) = opened.into_iter().map(OpenInput::split).unzip();
    let readout = Readout {
        taker,
        rings: sources.iter().map(|number| *number as u16).zip(rings).collect(),
        clock: config::event_clock(experiment),
        core: experiment.readout_core,
        stop: stop.clone(),
    };
    let readout = readout.start(monitor.clone());
    let threads = sources.iter().zip(feeds).enumerate().map(|(place, (number, feed))| {
        (*number, feed.start(stop.clone(), monitor.of_input(place)))
    });
    let threads = threads.collect();
    Ok(Inputs { plan, readout, threads, filled_elsewhere, monitor, stop })
}

fn is_filled_elsewhere(experiment: &Experiment, number: usize) -> bool {
    let source = &experiment.sources[number];
    let of_peers = source.roce.as_ref().is_some_and(|roce| roce.push.is_some());
    source.shm.is_some() || of_peers || source.is_replayed()
}

impl<T: PacketTaker> Inputs<T> {
    /// Returns the inputs with the addresses that senders reach them by.
    #[must_use]
    pub fn plan(&self) -> &[PlannedInput] {
        &self.plan
    }

    /// Returns the notes from number `first` on: problems that a user should see, each once.
    #[must_use]
    pub fn notes(&self, first: usize) -> Vec<String> {
        self.monitor.notes(first)
    }

    /// Asks the inputs to stop; returns at once. Packets received so far are still taken.
    pub fn stop(&self) {
        self.stop.now();
    }

    /// Returns true when all inputs have ended and were read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.readout.is_finished()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// [`Error::Failed`] when the readout's thread panicked.
    pub fn wait(self) -> Result<EndedInputs<T::Outcome>, Error> {
        let ends = self.threads.into_iter().zip(self.filled_elsewhere);
        let inputs = ends.map(|((number, thread), filled_elsewhere)| {
            let end = thread.join().unwrap_or_default();
            let remote = end.remote_counters();
            InputCounts { number, counters: end.counters, remote, filled_elsewhere }
        });
        let inputs = inputs.collect();
        let taker = joined(self.readout, "readout")?;
        Ok(EndedInputs { taker, inputs, faults: self.monitor.faults() })
    }
}
