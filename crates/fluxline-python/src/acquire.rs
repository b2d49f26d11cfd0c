//! Acquisitions: start, control, counters, events as they come, and sources that Python feeds.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fluxline_daq::experiment::Experiment;
use fluxline_run::{
    Acquisition, ClosedBatch, Command, FeedError, Options, Received, Report, RunState,
    Subscription, Watcher,
};
use pyo3::prelude::*;
use serde_json::json;

use crate::buffer::Input;
use crate::decode::{ClosedEvents, Decoding};
use crate::fault::{Class, Fault};
use crate::filter;

/// The longest time between two looks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running acquisition; `fluxline.Acquisition` is the class for users.
#[pyclass(frozen, module = "fluxline._fluxline")]
pub struct RunHandle {
    state: Mutex<State>,
    watcher: Watcher,
    decoding: Arc<Decoding>,
}

enum State {
    Running(Box<Acquisition>),
    /// A thread waits for its end.
    Ending,
    Ended(Result<Box<Report>, String>),
}

/// The result of one look at a run that may have ended.
enum Look {
    Ended(String),
    Failed(String),
    NotYet,
}

impl RunHandle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, ask: impl FnOnce(&Acquisition) -> T) -> Result<T, Fault> {
        match &*self.state() {
            State::Running(run) => Ok(ask(run)),
            _ => Err(Fault::new(Class::Gone, "the run has ended")),
        }
    }

    /// Ends the run if its threads have ended. Called without the lock of the interpreter, because
    /// the recorder may still wait for a filter of Python.
    fn look(&self) -> Look {
        let mut state = self.state();
        if matches!(&*state, State::Running(run) if run.is_finished())
            && let State::Running(run) = std::mem::replace(&mut *state, State::Ending)
        {
            drop(state);
            let report = run.wait().map(Box::new).map_err(|error| error.to_string());
            state = self.state();
            *state = State::Ended(report);
        }
        match &*state {
            State::Ended(Ok(report)) => Look::Ended(report.document.to_string()),
            State::Ended(Err(error)) => Look::Failed(error.clone()),
            State::Running(_) | State::Ending => Look::NotYet,
        }
    }
}

/// Reads the experiment and changes it as the caller asks.
fn experiment_of(
    file: Option<PathBuf>,
    text: Option<&str>,
    changes: &Changes,
) -> Result<Experiment, Fault> {
    let read = match (file, text) {
        (Some(file), _) => fluxline_run::load(&file),
        (None, text) => Experiment::parse("experiment", text.unwrap_or_default())
            .map_err(fluxline_run::Error::from),
    };
    let mut experiment = read.map_err(Fault::input)?;
    if let Some(runs) = &changes.runs {
        experiment.runs.clone_from(runs);
    }
    if let Some(record) = changes.record {
        experiment.record.enabled = record;
    }
    if let Some(seconds) = changes.seconds {
        experiment.seconds = seconds;
    }
    if let Some(keep) = &changes.keep {
        experiment.filter.keep = Some(keep.clone());
    }
    if let Some(mark) = &changes.mark {
        experiment.filter.mark = Some(mark.clone());
    }
    experiment.check().map_err(Fault::input)?;
    Ok(experiment)
}

/// Values that replace those of the experiment file.
#[derive(FromPyObject)]
struct Changes {
    #[pyo3(item)]
    runs: Option<PathBuf>,
    #[pyo3(item)]
    record: Option<bool>,
    #[pyo3(item)]
    seconds: Option<f64>,
    #[pyo3(item)]
    keep: Option<String>,
    #[pyo3(item)]
    mark: Option<String>,
}

#[pymethods]
impl RunHandle {
    /// Starts a run of an experiment file, or of its text.
    #[new]
    #[pyo3(signature = (file, text, changes, *, folder, function, address, is_armed, feeds))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, all of them required")]
    fn new(
        py: Python<'_>,
        file: Option<PathBuf>,
        text: Option<&str>,
        changes: Changes,
        folder: Option<PathBuf>,
        function: Option<Py<PyAny>>,
        address: Option<usize>,
        is_armed: bool,
        feeds: bool,
    ) -> PyResult<RunHandle> {
        let experiment = experiment_of(file, text, &changes)?;
        let decoding = Decoding::new(&experiment)?;
        let filter = filter::of(function, address, &decoding)?;
        let state = if is_armed { RunState::Armed } else { RunState::Running };
        let options = Options { folder, state, filter, feeds, ..Options::default() };
        let started = py.detach(|| fluxline_run::start_with(experiment, options));
        let run = started.map_err(|error| match error {
            fluxline_run::Error::Input(_) => Fault::input(error),
            fluxline_run::Error::Link(_) => Fault::link(error),
            _ => Fault::new(Class::Run, error),
        })?;
        decoding.set_folder(run.plan().folder.as_deref())?;
        let watcher = run.watcher();
        Ok(RunHandle { state: Mutex::new(State::Running(Box::new(run))), watcher, decoding })
    }

    /// The path of the run folder; None: nothing is recorded.
    #[getter]
    fn folder(&self) -> Option<PathBuf> {
        self.watcher.plan().folder.clone()
    }

    /// The addresses or URLs that senders reach each input by.
    #[getter]
    fn listens(&self) -> Vec<(String, Vec<String>)> {
        let inputs = self.watcher.plan().inputs.iter();
        inputs.map(|input| (input.name.clone(), input.listens.clone())).collect()
    }

    /// The state of the run, by its name.
    #[getter]
    fn state_name(&self) -> &'static str {
        self.watcher.control().state().name()
    }

    /// Carries a command out: start, pause, resume or stop; returns the new state.
    fn command(&self, name: &str) -> PyResult<&'static str> {
        let command = Command::of_name(name).ok_or_else(|| {
            Fault::input(format_args!(
                "command `{name}` is unknown; use start, pause, resume or stop"
            ))
        })?;
        let control = self.watcher.control();
        let state = control.command(command, fluxline::clock::now()).map_err(Fault::input)?;
        Ok(state.name())
    }

    /// Keeps a note of the operator, for run.json.
    fn note(&self, text: &str) -> PyResult<()> {
        let control = self.watcher.control();
        Ok(control.remark(text, fluxline::clock::now()).map_err(Fault::input)?)
    }

    /// The shot number, for run.json.
    #[getter]
    fn shot(&self) -> Option<u64> {
        self.watcher.control().shot()
    }

    fn set_shot(&self, shot: u64) {
        self.watcher.control().set_shot(shot);
    }

    /// Returns the notes from number `first` on.
    fn notes(&self, first: usize) -> Vec<String> {
        self.watcher.notes(first)
    }

    /// Returns the newest counters as JSON.
    fn stats_json(&self, py: Python<'_>) -> String {
        let live = py.detach(|| self.watcher.live());
        let stats = live.stats;
        let stats = json!({
            "packets": stats.packets,
            "bytes": stats.bytes,
            "rejected": stats.rejected,
            "lost": stats.lost,
            "events": stats.events,
            "incomplete": stats.incomplete,
            "paused": stats.paused,
            "filtered": stats.filtered,
            "recorded_bytes": stats.recorded_bytes,
            "ring_percent": stats.ring_percent,
            "sources": stats.sources,
            "free_bytes": live.free_bytes,
        });
        stats.to_string()
    }

    /// Returns the ledger so far as JSON.
    fn ledger_json(&self, py: Python<'_>) -> PyResult<String> {
        let live = py.detach(|| self.watcher.live());
        let text = serde_json::to_string(&live.ledger);
        Ok(text.map_err(|error| Fault::new(Class::Run, error))?)
    }

    /// Subscribes to closed events, of which at most `batches` batches wait.
    fn subscribe(&self, batches: usize) -> PyResult<EventStream> {
        let subscription = self.with(|run| run.subscribe(batches))?;
        let (subscription, decoding) = (Mutex::new(subscription), Arc::clone(&self.decoding));
        Ok(EventStream { subscription, decoding })
    }

    /// Returns the feeder of a `[source.program]` source, once.
    fn feeder(&self, source: &str) -> PyResult<Feeder> {
        let feeder = self.with(|run| run.feeder(source))?;
        let feeder = feeder.ok_or_else(|| {
            Fault::input(format_args!(
                "no source {source:?} with [source.program] is free; each has one feeder"
            ))
        })?;
        Ok(Feeder { feeder: Mutex::new(Some(Arc::new(feeder))) })
    }

    /// Waits for the end of the run, at most `timeout` seconds; returns run.json, or None.
    #[pyo3(signature = (timeout))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<String>> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            match py.detach(|| self.look()) {
                Look::Ended(document) => return Ok(Some(document)),
                Look::Failed(error) => return Err(Fault::new(Class::Run, error).into()),
                Look::NotYet if until.is_some_and(|until| Instant::now() >= until) => {
                    return Ok(None);
                }
                Look::NotYet => py.detach(|| thread::sleep(LOOK_EVERY)),
            }
            py.check_signals()?;
        }
    }
}

/// The events of a run as they come.
#[pyclass(frozen, module = "fluxline._fluxline")]
pub struct EventStream {
    subscription: Mutex<Subscription>,
    decoding: Arc<Decoding>,
}

impl EventStream {
    fn events_of(&self, closed: ClosedBatch) -> Result<ClosedEvents, Fault> {
        let subscription = self.subscription.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = subscription.sources();
        sources.iter().for_each(|source| self.decoding.add_source(source));
        let events = ClosedEvents::of(&closed.batch, closed.fate, &self.decoding);
        subscription.give_back(closed.batch);
        events
    }
}

#[pymethods]
impl EventStream {
    /// Waits for the next batch, at most `timeout` seconds. Returns None when the time is over;
    /// raises StopIteration at the end of the run.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<ClosedEvents>> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let received = py.detach(|| {
                let subscription = self.subscription.lock();
                let subscription = subscription.unwrap_or_else(PoisonError::into_inner);
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                subscription.receive(LOOK_EVERY.min(left.unwrap_or(LOOK_EVERY)))
            });
            match received {
                Received::Batch(closed) => {
                    return Ok(Some(py.detach(|| self.events_of(closed))?));
                }
                Received::Ended => return Err(pyo3::exceptions::PyStopIteration::new_err(())),
                Received::TimedOut if until.is_some_and(|until| Instant::now() >= until) => {
                    return Ok(None);
                }
                Received::TimedOut => py.check_signals()?,
            }
        }
    }

    /// The number of events that were dropped for this reader because it was slow.
    #[getter]
    fn dropped_events(&self) -> u64 {
        self.subscription.lock().unwrap_or_else(PoisonError::into_inner).dropped_events()
    }
}

/// Pushes packets into a run, as one of its sources.
#[pyclass(frozen, module = "fluxline")]
pub struct Feeder {
    feeder: Mutex<Option<Arc<fluxline_run::Feeder>>>,
}

impl Feeder {
    fn open(&self) -> Result<Arc<fluxline_run::Feeder>, Fault> {
        let feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        feeder.ok_or_else(|| Fault::new(Class::Gone, "this source was closed"))
    }
}

#[pymethods]
impl Feeder {
    /// Pushes a packet, or each row of a two-dimensional array as a packet. Waits for room, unless
    /// the source drops when its ring is full; returns the number of packets that were dropped.
    fn push(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let input = Input::of("data", data)?;
        let feeder = self.open()?;
        let row_bytes = input.row_bytes();
        let pushed = py.detach(|| {
            let bytes = input.bytes();
            let mut dropped = 0;
            for packet in bytes.chunks(row_bytes.unwrap_or(bytes.len()).max(1)) {
                match feeder.push(packet) {
                    Ok(()) => {}
                    Err(FeedError::Dropped(_)) => dropped += 1,
                    Err(error @ FeedError::TooLong { .. }) => return Err(Fault::input(error)),
                    Err(error) => return Err(Fault::new(Class::Gone, error)),
                }
            }
            Ok(dropped)
        });
        Ok(pushed?)
    }

    /// Ends the source; packets pushed before are still recorded.
    fn close(&self) {
        let feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(feeder) = feeder {
            feeder.close();
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }
}
