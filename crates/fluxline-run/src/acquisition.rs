//! An acquisition: inputs, readout and recorder, each in its thread; its start and its end.
//!
//! Everything that can fail at the start fails before the run folder is made. At the end inputs
//! stop first, then the readout drains their rings, then the recorder its queue: all received
//! packets are in the files, and the ledger is closed over all of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use fluxline::kernel::KernelSnapshot;
use fluxline_core::Moment;
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::experiment::{Experiment, Source};
use fluxline_daq::formats::{self, LoadedFormat};
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_daq::record::Storage;

use crate::built::Built;
use crate::config;
use crate::control::{Control, RunState};
use crate::error::Error;
use crate::events::{Subscribers, Subscription};
use crate::feedback::{LoopPlan, MakeDecide};
use crate::filter::{Expression, Filter, FilterStage, RunSource};
use crate::graph::world::{self, World};
use crate::graph::{self, Between, Graph};
use crate::health::Keeper;
use crate::host;
use crate::limits;
use crate::live::{WatchedInput, Watcher};
use crate::local::LocalBuild;
use crate::monitor::{Monitor, Stats};
use crate::plan::{Edges, Memory, Plan, PlannedInput};
use crate::plots::{self, Pace, PlotKeeper, Plots};
use crate::readout::{EventClock, Readout};
use crate::record::{self, BatchBounds, Outlets, Recorded};
use crate::report::{Ended, Report, RunEnding};
use crate::ring::InputRing;
use crate::sink::{self, OpenSink, SinkStage};
use crate::slow::{Listener, SlowSocket};
use crate::source::program::{FeedHandle, Feeder};
use crate::source::{self, InputEnd, OpenInput};
use crate::stop::Stop;

/// Options of a start beside the experiment.
#[derive(Default)]
pub struct Options {
    /// The run's folder, which must not exist; `None`: the next number in the experiment's `runs`.
    pub folder: Option<PathBuf>,
    /// A request that ends the run too, as [`Acquisition::stop`] does: [`Stop::on_signal`].
    pub stop: Stop,
    /// The first state: [`RunState::Running`], or [`RunState::Armed`] to record from a later
    /// [`Command::Start`](crate::Command::Start) on.
    pub state: RunState,
    /// A filter beside the experiment's `[filter] keep`; it sees the events which that keeps.
    pub filter: Option<Box<dyn Filter>>,
    /// The caller pushes the packets of `[source.program]` sources ([`Acquisition::feeder`]);
    /// without it, such a source is an error.
    pub feeds: bool,
    /// The link between the nodes of the run (`threads`, `shm:GROUP`, `udp:ADDRESS`,
    /// `sim:NETWORK?KEYS`); `None`: that of the experiment. Simulated links need a program that has
    /// registered them.
    pub link: Option<String>,
    /// The only node of the run in this process (`readout-0`, `builder-1`); `None`: all nodes.
    pub node: Option<String>,
    /// Makes the function of `[loop]` for each builder; `None`: the experiment names it.
    pub decide: Option<MakeDecide>,
    /// The storage of the event files; `None`: the file system.
    pub storage: Option<Box<dyn Storage + Send>>,
    /// Opens the sink of the experiment; `None`: an experiment with a sink is refused.
    pub open_sink: Option<OpenSink>,
}

/// An acquisition that runs. When it is dropped without [`wait`](Self::wait), it is asked to stop,
/// and its threads end by themselves; run.json then still says `running`.
pub struct Acquisition {
    experiment: Experiment,
    plan: Arc<Plan>,
    /// The space of the last run.json; `None` when nothing is recorded.
    end: Option<RunEnding>,
    monitor: Monitor,
    control: Control,
    watcher: Watcher,
    feeders: Vec<FeedHandle>,
    subscribers: Subscribers,
    stop: StopOnDrop,
    threads: Threads,
    /// Looks at the run once a second; `None` in virtual time.
    keeper: Option<Keeper>,
    /// Takes the slow control values.
    slow: Option<Listener>,
    /// Fills the plots over the whole run.
    plots: PlotKeeper,
    began: Moment,
    /// The discipline of the clock at the start.
    clock: serde_json::Value,
    host: KernelSnapshot,
}

struct Threads {
    /// By source; those of other nodes have none.
    inputs: Vec<Option<JoinHandle<InputEnd>>>,
    readout: JoinHandle<Built>,
    recorder: JoinHandle<Recorded>,
}

/// Stops an acquisition that is dropped without a wait.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.now();
    }
}

/// Starts an experiment, in the next folder of its `runs`.
///
/// When it returns, all links are open, the run folder exists and the threads run. Errors:
/// [`Error`]; a link that cannot be opened leaves no run folder. Cost: a thread for each input, one
/// for the readout, one for the recorder, and the memory that [`Acquisition::plan`] bounds.
pub fn start(experiment: Experiment) -> Result<Acquisition, Error> {
    start_with(experiment, Options::default())
}

/// Returns the filters of a run: the experiment's expressions, and the caller's.
fn filter_of(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    own: Option<Box<dyn Filter>>,
) -> Result<FilterStage, Error> {
    let mark = Expression::mark_of(experiment, loaded)?;
    Ok(FilterStage::of(Expression::of(experiment, loaded)?, own).with_mark(mark))
}

fn builder_of(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    is_virtual: bool,
) -> Result<BuilderConfig, Error> {
    let mut builder = config::builder_config(experiment, loaded)?;
    if is_virtual {
        builder.settling = BuilderConfig::default().settling; // files are sent by sensors, too
    }
    Ok(builder)
}

/// Loads the packet description of each source.
fn load_formats(experiment: &Experiment) -> Result<Vec<LoadedFormat>, Error> {
    let load = |source: &Source| formats::load(&source.format, &source.parameters);
    Ok(experiment.sources.iter().map(load).collect::<Result<_, _>>()?)
}

/// Starts an experiment as [`start`] does, with a folder and a stop of the caller's.
pub fn start_with(mut experiment: Experiment, options: Options) -> Result<Acquisition, Error> {
    // The first packets may wait in a socket before the threads run.
    let (began, resident) = (fluxline::clock::now(), host::resident());
    config::check_memory(&experiment)?;
    let loaded = load_formats(&experiment)?;
    let graph = graph_of(&experiment, &loaded, &options)?;
    let is_virtual = graph.as_ref().is_some_and(Graph::is_virtual);
    let inputs = open_inputs(&experiment, &loaded, graph.as_ref())?;
    let slow = open_slow(&experiment, options.node.as_deref(), is_virtual)?;
    let feeders: Vec<_> = inputs.iter().filter_map(|(_, input)| input.feeder.clone()).collect();
    check_feeders(&feeders, options.feeds)?;
    let (plots, unshown) = Plots::of(&experiment, &loaded)?;
    let filter = filter_of(&experiment, &loaded, options.filter)?;
    let builder = builder_of(&experiment, &loaded, is_virtual)?;
    let sink = sink::open(&mut experiment, options.open_sink)?;
    let open_files = || {
        let (node, storage) = (options.node.as_deref(), options.storage);
        config::open_recorder(&experiment, options.folder, &loaded, node, storage)
    };
    let (recorder, end) = experiment.record.enabled.then(open_files).transpose()?.unzip();
    let monitor = Monitor::default();
    note_warnings(&experiment, &inputs, &builder, &monitor);
    unshown.into_iter().for_each(|note| monitor.note(Some(note)));
    let edges = graph.as_ref().map_or(Edges::NONE, Graph::edges);
    let plan = Plan {
        name: experiment.name.clone(),
        inputs: planned(&experiment, &inputs),
        folder: end.as_ref().map(|end| end.folder.path().to_path_buf()),
        memory: Memory::of(&experiment, &inputs, &builder, edges, resident),
    };
    // Virtual time has its own end.
    let stop = options.stop.inner().after(if is_virtual { 0.0 } else { experiment.seconds });
    let watched = Arc::new(watched_inputs(&experiment, &loaded));
    let host = KernelSnapshot::take();
    let control = Control::new(first_state(options.state), stop.clone(), fluxline::clock::now());
    let (subscribers, sink) = (Subscribers::default(), SinkStage::new(sink));
    let (tap, drain) = plots::tap(&plots, pace_of(&experiment, is_virtual));
    let outlets = Outlets { filter, recorder, sink, subscribers: subscribers.clone(), plots: tap };
    let (folder, loaded) = (plan.folder.clone(), loaded.as_slice());
    let parts = Parts { experiment: &experiment, loaded, inputs, outlets, builder, graph, folder };
    let threads = spawn(parts, &control, &stop, &monitor)?;
    let (stop, plan) = (StopOnDrop(stop), Arc::new(plan));
    plan.log();
    let mut watcher = Watcher::new(&plan, &monitor, &control, watched);
    watcher.plots = plots.clone();
    watcher.slow = slow.as_ref().map(|slow| slow.values().clone());
    let (run_folder, is_part) = (end.as_ref().map(|end| &end.folder), options.node.is_some());
    let keeper =
        (!is_virtual).then(|| Keeper::start(watcher.clone(), &experiment, run_folder, is_part));
    Ok(Acquisition {
        keeper,
        slow: slow.map(|slow| slow.start(run_folder, &monitor)),
        plots: PlotKeeper::start(&plots, drain, run_folder, &monitor),
        watcher,
        experiment,
        plan,
        end,
        monitor,
        control,
        feeders,
        subscribers,
        stop,
        threads,
        began,
        clock: host::clock(),
        host,
    })
}

/// Plots wait for nothing but files, and for sensors in virtual time, which wait too.
fn pace_of(experiment: &Experiment, is_virtual: bool) -> Pace {
    match is_virtual || config::event_clock(experiment) == EventClock::Data {
        true => Pace::Wait,
        false => Pace::Skip,
    }
}

/// Returns the graph of a run, with the functions of its feedback loop; `None`: all is one node.
fn graph_of(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    options: &Options,
) -> Result<Option<Graph>, Error> {
    let decide = options.decide.clone();
    match Graph::of(experiment, options.link.as_deref(), options.node.as_deref())? {
        Some(graph) => graph.with_feedback(experiment, loaded, decide).map(Some),
        None => LoopPlan::of(experiment, loaded, decide, 0..0).map(|_| None),
    }
}

/// Opens the inputs that this process reads, with their numbers. Other processes read the others,
/// and those of a simulated world are nodes of it.
fn open_inputs(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    graph: Option<&Graph>,
) -> Result<Vec<(usize, OpenInput)>, Error> {
    let is_read = |source| graph.is_none_or(|of| !of.is_virtual() && of.reads(experiment, source));
    let pairs = experiment.sources.iter().zip(loaded).enumerate();
    pairs
        .filter(|(number, _)| is_read(*number))
        .map(|(number, (source, format))| Ok((number, source::open(source, format)?)))
        .collect()
}

/// The only node of several processes that takes slow control values: one file has them all.
const SLOW_NODE: &str = "builder-0";

/// Opens the socket of slow control values. Virtual time has none, since their times are ours.
fn open_slow(
    experiment: &Experiment,
    node: Option<&str>,
    is_virtual: bool,
) -> Result<Option<SlowSocket>, Error> {
    let is_here = !is_virtual && node.is_none_or(|node| node == SLOW_NODE);
    let slow = experiment.slow_control.as_ref().filter(|_| is_here);
    slow.map(SlowSocket::open).transpose()
}

/// Returns all inputs of an experiment; those without a link here are other nodes'.
fn planned(experiment: &Experiment, inputs: &[(usize, OpenInput)]) -> Vec<PlannedInput> {
    let of = |(number, source): (usize, &Source)| {
        let own = inputs.iter().find(|input| input.0 == number);
        own.map_or_else(|| PlannedInput::elsewhere(source), |(_, input)| PlannedInput::of(input))
    };
    experiment.sources.iter().enumerate().map(of).collect()
}

/// Returns the descriptions by which a live view decodes the packets of each input.
fn watched_inputs(experiment: &Experiment, loaded: &[LoadedFormat]) -> Vec<WatchedInput> {
    let lines = config::source_lines(experiment, loaded);
    let watched = loaded.iter().zip(lines).map(|(format, line)| WatchedInput {
        description: format.description.clone(),
        port: line.port.unwrap_or(0),
    });
    watched.collect()
}

/// Keeps what the inputs and the limits warn of.
fn note_warnings(
    experiment: &Experiment,
    inputs: &[(usize, OpenInput)],
    builder: &BuilderConfig,
    monitor: &Monitor,
) {
    let traffic: Vec<_> = inputs.iter().map(|(_, input)| input.expected).collect();
    let warnings = inputs.iter().flat_map(|(_, input)| {
        input.warnings.iter().map(|warning| format!("source `{}`: {warning}", input.name))
    });
    let limits = limits::too_small(experiment, &traffic, builder);
    warnings.chain(limits).for_each(|sentence| monitor.note(Some(sentence)));
}

/// Checks that the caller pushes the packets of sources that need it.
fn check_feeders(feeders: &[FeedHandle], feeds: bool) -> Result<(), Error> {
    match feeders.first().filter(|_| !feeds) {
        None => Ok(()),
        Some(feeder) => Err(Error::input(format_args!(
            "source `{}` has [source.program]: its packets come from the program that starts the \
             run. Start it from Rust (Options::feeds) or Python (fl.acquire), or give the source \
             another link.",
            feeder.name()
        ))),
    }
}

/// An acquisition begins armed or running.
fn first_state(wanted: RunState) -> RunState {
    match wanted {
        RunState::Armed => RunState::Armed,
        _ => RunState::Running,
    }
}

/// The open parts of an acquisition.
struct Parts<'a> {
    experiment: &'a Experiment,
    loaded: &'a [LoadedFormat],
    inputs: Vec<(usize, OpenInput)>,
    outlets: Outlets,
    builder: BuilderConfig,
    graph: Option<Graph>,
    folder: Option<PathBuf>,
}

/// Starts the threads, the inputs' last.
fn spawn(
    parts: Parts<'_>,
    control: &Control,
    stop: &Stop,
    monitor: &Monitor,
) -> Result<Threads, Error> {
    let Parts { experiment, loaded, inputs, outlets, builder, graph, folder } = parts;
    let bounds = BatchBounds::of(experiment);
    let (queue, recorder) =
        record::start(outlets, bounds, experiment.recorder_core, monitor.clone());
    let (mut rings, mut feeds) = (Vec::new(), Vec::new());
    for (number, input) in inputs {
        let (ring, feed) = input.split();
        rings.push((number as u16, ring));
        feeds.push((number, feed));
    }
    let builder = &builder;
    let between = Between { experiment, loaded, builder, queue, control, stop, monitor, folder };
    let readout = match graph {
        None => start_alone(between, rings),
        Some(graph) if graph.is_virtual() => {
            let World { readout, inputs } = world::start(&graph, between)?;
            let inputs = inputs.into_iter().map(Some).collect();
            return Ok(Threads { inputs, readout, recorder });
        }
        Some(graph) => graph::start(&graph, between, rings)?,
    };
    let mut inputs: Vec<_> = experiment.sources.iter().map(|_| None).collect();
    for (number, feed) in feeds {
        inputs[number] = Some(feed.start(stop.clone(), monitor.of_input(number)));
    }
    Ok(Threads { inputs, readout, recorder })
}

/// Starts readout and builder in one thread.
fn start_alone(between: Between<'_>, rings: Vec<(u16, InputRing)>) -> JoinHandle<Built> {
    let Between { experiment, loaded, builder, queue, control, stop, monitor, .. } = between;
    let descriptions = loaded.iter().map(|format| format.description.clone());
    let names = experiment.sources.iter().map(|source| source.name.clone());
    let limits =
        ReadoutLimits { sources_max: experiment.sources_max as usize, ..ReadoutLimits::default() };
    let pipeline = Pipeline::new(names.zip(descriptions).collect(), limits, builder.clone());
    let lines = config::source_lines(experiment, loaded);
    let mut taker = LocalBuild::new(pipeline, queue, lines, control.clone(), monitor.clone());
    let clock = config::event_clock(experiment);
    if clock == EventClock::Wall {
        taker.measure_delays();
    }
    let readout =
        Readout { taker, rings, clock, core: experiment.readout_core, stop: stop.clone() };
    readout.start(monitor.clone())
}

impl Acquisition {
    /// Returns addresses, folder and bounds of memory.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the newest counters. Cost: a lock that the readout takes ten times a second.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.monitor.stats()
    }

    /// Returns the notes from number `first` on: problems that a user should see, each once.
    #[must_use]
    pub fn notes(&self, first: usize) -> Vec<String> {
        self.monitor.notes(first)
    }

    /// Returns the events as they come, from now on: batches that the filter kept. At most
    /// `batches` wait; when the caller is slower than the run, further ones are dropped for it and
    /// counted. The run never waits.
    #[must_use]
    pub fn subscribe(&self, batches: usize) -> Subscription {
        self.subscribers.add(batches)
    }

    /// Returns the sources that have appeared, by number.
    #[must_use]
    pub fn sources(&self) -> Vec<RunSource> {
        self.subscribers.sources()
    }

    /// Returns the feeder of a `[source.program]` source, once; `None`: the source is unknown, or
    /// its feeder was returned before. The source ends when its feeder is dropped.
    #[must_use]
    pub fn feeder(&self, source: &str) -> Option<Feeder> {
        self.feeders.iter().find(|feeder| feeder.name() == source)?.take()
    }

    /// Returns the control of its state, which may be used from any thread.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns a watcher, which sees and controls this acquisition from any thread.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        self.watcher.clone()
    }

    /// Asks the inputs to stop; returns at once. Packets received so far are still recorded.
    pub fn stop(&self) {
        self.stop.0.now();
    }

    /// Returns true when all inputs have ended and their packets are read; [`Self::wait`] then only
    /// waits for the recorder.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.readout.is_finished()
    }

    /// Waits for the end: by [`Self::stop`], by the experiment's `seconds`, or of the sources.
    ///
    /// When it returns, all received packets are in the files and run.json has the ledger. A ledger
    /// that does not close or a recording that stopped is in [`Report::verdict`], not an error
    /// here. Errors: [`Error::Failed`] when a thread panicked; the run folder stays readable.
    pub fn wait(self) -> Result<Report, Error> {
        let Threads { inputs, readout, recorder } = self.threads;
        let inputs = inputs.into_iter();
        let inputs = inputs.map(|input| input.and_then(|of| of.join().ok()).unwrap_or_default());
        let (inputs, ended) = (inputs.collect(), fluxline::clock::now());
        let built = joined(readout, "readout")?;
        let recorded = joined(recorder, "recorder")?;
        let in_files = self.end.is_some().then(|| recorded.ledger.source_totals().recorded);
        self.plots.end(in_files);
        self.monitor.publish_end(&recorded.ledger);
        self.control.stopped(ended);
        let ended = Ended {
            began: self.began,
            clock: self.clock,
            inputs,
            ended,
            built,
            recorded,
            host: KernelSnapshot::take().since(&self.host),
            kept: self.keeper.map(Keeper::end).unwrap_or_default(),
            slow: self.slow.map(Listener::end),
            notes: self.monitor.notes(0),
            faults: self.monitor.faults(),
            control: self.control,
        };
        tracing::info!(run = self.plan.name, "the run has ended");
        Ok(Report::close(&self.experiment, self.end, &self.plan, ended))
    }
}

/// Waits for a thread; an error when it panicked.
pub(crate) fn joined<T>(thread: JoinHandle<T>, name: &str) -> Result<T, Error> {
    thread.join().map_err(|_| {
        Error::failed(format_args!(
            "the {name}'s thread ended by a defect of the program; the run is readable after \
             `fluxline recover`."
        ))
    })
}
