//! Sinks: batches of events on their way to another place than the files.
//!
//! A sink sees each batch on the recorder's thread, right after it was written. It copies the batch
//! and never waits, so that a sink which is away stops neither the recorder nor the readout.

use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::Experiment;
use fluxline_daq::ledger::SinkCounters;
use fluxline_daq::record::SourceLine;

use crate::error::Error;
use crate::monitor::Monitor;

/// A place that batches of events go to, besides the files.
pub trait BatchSink: Send {
    /// Notes that the run begins: all links are open.
    fn begin(&mut self) {}

    /// Takes note of a source, before the first batch with its packets.
    fn add_source(&mut self, source: &SourceLine) {
        let _ = source;
    }

    /// Takes a copy of batch `number` of the run, and does not wait.
    fn take(&mut self, number: u64, batch: &EventBatch);

    /// Returns the counters so far.
    fn counters(&self) -> SinkCounters;

    /// Returns the notes for the user since the last call.
    fn notes(&mut self) -> Vec<String>;

    /// Waits until all that was taken has its place. Afterwards nothing is queued.
    fn finish(&mut self);
}

/// Opens the sink of an experiment, or `None` when it has none. It may name the run in the
/// experiment.
pub type OpenSink = fn(&mut Experiment) -> Result<Option<Box<dyn BatchSink>>, Error>;

/// Opens the sink that the experiment wants.
pub(crate) fn open(
    experiment: &mut Experiment,
    open: Option<OpenSink>,
) -> Result<Option<Box<dyn BatchSink>>, Error> {
    match open {
        Some(open) => open(experiment),
        None if experiment.sink.kafka.is_some() => Err(Error::input(
            "the experiment has [sink.kafka], and this program was built without Kafka: build it \
             with `cargo build --release --features kafka`, or remove the table.",
        )),
        None => Ok(None),
    }
}

/// The sink of a run as a stage of the recorder's thread, if the run has one.
pub(crate) struct SinkStage {
    sink: Option<Box<dyn BatchSink>>,
    /// Number of the next batch, where nothing is recorded.
    next: u64,
}

impl SinkStage {
    /// Makes the stage.
    pub fn new(sink: Option<Box<dyn BatchSink>>) -> SinkStage {
        SinkStage { sink, next: 0 }
    }

    /// Notes that the run begins.
    pub fn begin(&mut self, monitor: &Monitor) {
        if let Some(sink) = &mut self.sink {
            sink.begin();
        }
        self.follow(monitor);
    }

    /// Takes note of a source, before the first batch with its packets.
    pub fn add_source(&mut self, source: &SourceLine) {
        if let Some(sink) = &mut self.sink {
            sink.add_source(source);
        }
    }

    /// Takes a batch of a run without files, and numbers it.
    pub fn take(&mut self, batch: &EventBatch, monitor: &Monitor) {
        self.take_numbered(self.next, batch, monitor);
        self.next += 1;
    }

    /// Takes the batch that has this number in the files.
    pub fn take_numbered(&mut self, number: u64, batch: &EventBatch, monitor: &Monitor) {
        if let Some(sink) = &mut self.sink {
            sink.take(number, batch);
        }
        self.follow(monitor);
    }

    /// Waits until all that was taken has its place.
    pub fn finish(&mut self, monitor: &Monitor) {
        if let Some(sink) = &mut self.sink {
            sink.finish();
        }
        self.follow(monitor);
    }

    /// Publishes the sink's counters and notes.
    fn follow(&mut self, monitor: &Monitor) {
        if let Some(sink) = &mut self.sink {
            sink.notes().into_iter().for_each(|note| monitor.note(Some(note)));
            monitor.publish_sink(sink.counters());
        }
    }
}
