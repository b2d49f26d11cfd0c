//! A thread that builds one partition for as long as this process has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use fluxline_daq::record::SourceLine;
use fluxline_run::filter::FilterPlan;
use serde_json::Value;

use super::block::PartitionBlock;
use super::sink_task::{Marks, SinkTask};
use crate::build::kafka::KafkaLog;
use crate::build::{
    EventFilter, LogError, Outputs, Rounds, RunFolders, RunPlan, Step, TopicConfig, TopicOutput,
    WorkError, Worker,
};
use crate::client::TopicError;
use crate::settings::Settings;
use fluxline_cluster::AmendedSource;

/// Everything that the builders of all partitions share.
#[derive(Clone)]
pub struct Task {
    /// The connection.
    pub settings: Settings,
    /// The cluster's name.
    pub cluster: String,
    /// The run.
    pub plan: RunPlan,
    /// The filter of events.
    pub filter: FilterPlan,
    /// The offsets at which the run begins, for each partition of fragments and of commits.
    pub begins: (Vec<u64>, Vec<u64>),
    /// The inputs that read files: node and number there.
    pub files: Vec<(u16, u16)>,
    /// The builder's name.
    pub builder: String,
    /// The folder of run folders; `None`: no files.
    pub folder: Option<PathBuf>,
    /// Events go to their topic.
    pub has_topic: bool,
    /// Names and texts of the packet descriptions.
    pub formats: Vec<(String, String)>,
    /// For each input of the experiment, the part of its sources' lines that is the same.
    pub inputs: Vec<SourceLine>,
    /// The topic of `[sink.kafka]`.
    pub sink: Option<Arc<SinkTask>>,
    /// The experiment, without secrets.
    pub experiment: Value,
    /// The readout nodes that have died.
    pub dead: DeadReadouts,
    /// The partitions whose checkpoints could not be saved.
    pub failed_saves: FailedSaves,
}

/// Numbers of checkpoints that could not be saved one after the other, by partition; clones share
/// them. A partition that is claimed again must not try the same save at the same place.
#[derive(Clone, Debug, Default)]
pub struct FailedSaves(Arc<Mutex<BTreeMap<u32, u32>>>);

impl FailedSaves {
    fn set(&self, partition: u32, failed: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, failed);
    }

    fn get(&self, partition: u32) -> u32 {
        let of = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        of.get(&partition).copied().unwrap_or(0)
    }
}

/// The readout nodes that have died, by number; clones share them.
#[derive(Clone, Debug, Default)]
pub struct DeadReadouts(Arc<Mutex<BTreeSet<u16>>>);

impl DeadReadouts {
    /// Replaces the numbers.
    pub fn set(&self, dead: BTreeSet<u16>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = dead;
    }

    /// Returns the numbers.
    fn get(&self) -> BTreeSet<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Largest record of events \[byte\].
const EVENT_RECORD_BYTES: usize = 512 << 10;

impl Task {
    fn open_outputs(&self, log: &mut KafkaLog) -> Result<Outputs, TopicError> {
        let RunPlan { run, name, .. } = &self.plan;
        let (formats, experiment) = (self.formats.clone(), self.experiment.clone());
        let files = self.folder.as_ref().map(|folder| {
            RunFolders::new(folder, &self.builder, *run, formats.clone())
                .with_inputs(self.inputs.clone())
                .of_experiment(name, experiment.clone())
        });
        let topic = match self.has_topic {
            true => {
                let record_bytes = log.open_events(&self.cluster, EVENT_RECORD_BYTES)?;
                let (run, name) = (*run, name.clone());
                let inputs = self.inputs.clone();
                let config = TopicConfig { run, name, formats, inputs, experiment, record_bytes };
                Some(TopicOutput::new(config))
            }
            false => None,
        };
        let sink = self.sink.as_ref().map(|sink| sink.open(log, &self.plan, &self.inputs));
        Ok(Outputs { files, topic, sink: sink.transpose()? })
    }
}

/// The reason why a thread ended.
#[derive(Debug)]
pub enum Ended {
    /// All batches of the partition are committed; its amendments.
    Built(Vec<AmendedSource>),
    /// It was asked to stop.
    Left,
    /// Another builder has the partition, or the brokers were away: claim it again later.
    Again(String),
    /// The partition cannot be built by this process.
    Failed(WorkError),
    /// The log cannot be opened.
    Topic(TopicError),
}

/// A thread that builds a partition.
pub struct PartitionThread {
    stop: Arc<AtomicBool>,
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<Ended>,
}

/// The results of a thread that others read.
struct Shared {
    block: PartitionBlock,
    /// All notes of the worker.
    notes: Vec<String>,
    /// Number of notes that were taken.
    taken: usize,
    /// Sentences about sources that were not taken yet.
    reports: Vec<String>,
}

impl Shared {
    fn update(&mut self, partition: u32, worker: &mut Worker) {
        self.block = PartitionBlock::of(partition, worker.partition());
        self.notes.extend_from_slice(&worker.notes()[self.notes.len()..]);
        self.reports.extend(worker.take_reports());
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartitionThread {
    /// Claims a partition and builds it.
    pub fn start(task: Task, partition: u32) -> PartitionThread {
        let stop = Arc::new(AtomicBool::new(false));
        let first = PartitionBlock { partition, ..PartitionBlock::default() };
        let first = Shared { block: first, notes: Vec::new(), taken: 0, reports: Vec::new() };
        let shared = Arc::new(Mutex::new(first));
        let (flag, of_thread) = (Arc::clone(&stop), Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            build(&task, partition, &flag, &of_thread).unwrap_or_else(|error| match error {
                WorkError::Log(error @ (LogError::Fenced { .. } | LogError::Away(_))) => {
                    Ended::Again(error.to_string())
                }
                error => Ended::Failed(error),
            })
        });
        PartitionThread { stop, shared, thread }
    }

    /// Asks the thread to end after the record at hand.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns true when the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the newest counts.
    pub fn block(&self) -> PartitionBlock {
        lock(&self.shared).block.clone()
    }

    /// Returns the notes on checkpoints and the filter since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        let mut shared = lock(&self.shared);
        let notes = shared.notes[shared.taken..].to_vec();
        shared.taken = shared.notes.len();
        notes
    }

    /// Returns the sentences about sources since the last call.
    pub fn take_reports(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared).reports)
    }

    /// Waits for the end; `None`: the thread panicked.
    pub fn join(self) -> Option<Ended> {
        self.thread.join().ok()
    }
}

fn build(
    task: &Task,
    partition: u32,
    stop: &AtomicBool,
    shared: &Mutex<Shared>,
) -> Result<Ended, WorkError> {
    let log = match KafkaLog::open(&task.settings, &task.cluster, task.plan.run) {
        Ok(log) => log,
        Err(TopicError::NoBroker { reason, .. }) => return Ok(Ended::Again(reason)),
        Err(error) => return Ok(Ended::Topic(error)),
    };
    let (fragments, commits) = task.begins.clone();
    let mut log = log.begin_at(fragments, commits);
    let output = match task.open_outputs(&mut log) {
        Ok(output) => output,
        Err(TopicError::NoBroker { reason, .. }) => return Ok(Ended::Again(reason)),
        Err(error) => return Ok(Ended::Topic(error)),
    };
    let mut worker = Worker::claim(&mut log, &task.plan, partition, &task.builder)?
        .with_filter(EventFilter::of(&task.filter))
        .after_failed_saves(task.failed_saves.get(partition));
    worker.read_on_demand(&task.files);
    let (settings, cluster) = (&task.settings, &task.cluster);
    let open = |sink: &Arc<SinkTask>| Marks::open(sink, settings, cluster, partition);
    let marks = match task.sink.as_ref().map(open) {
        None => None,
        Some(Ok(marks)) => marks,
        Some(Err(TopicError::NoBroker { reason, .. })) => return Ok(Ended::Again(reason)),
        Some(Err(error)) => return Ok(Ended::Topic(error)),
    };
    let mut work = Work { partition, worker, log, output, marks, stop, shared };
    let ended = work.run(task);
    work.publish();
    task.failed_saves.set(partition, work.worker.failed_saves());
    ended
}

/// The work on a claimed partition.
struct Work<'a> {
    partition: u32,
    worker: Worker,
    log: KafkaLog,
    output: Outputs,
    /// The marks of the run in the topic of `[sink.kafka]`.
    marks: Option<Marks>,
    stop: &'a AtomicBool,
    shared: &'a Mutex<Shared>,
}

impl Work<'_> {
    /// Builds until the run is over or the thread is asked to stop.
    fn run(&mut self, task: &Task) -> Result<Ended, WorkError> {
        if let Some(marks) = &mut self.marks {
            marks.send_start(&mut self.log)?;
        }
        let (worker, mut rounds) = (&mut self.worker, Rounds::default());
        while !self.stop.load(Ordering::Relaxed) {
            let dead = || task.dead.get();
            let round = rounds.step(worker, &mut self.log, &mut self.output, dead)?;
            if round.step == Step::Over {
                lock(self.shared).update(self.partition, worker);
                let is_done = match &mut self.marks {
                    Some(marks) => marks.send_stop(&mut self.log, self.stop)?,
                    None => true,
                };
                let amended = worker.partition().amended();
                return Ok(if is_done { Ended::Built(amended) } else { Ended::Left });
            }
            if round.is_look {
                lock(self.shared).update(self.partition, worker);
            }
        }
        match worker.commit(&mut self.log, &mut self.output) {
            // Another builder has the partition already: it makes these batches.
            Ok(()) | Err(WorkError::Log(LogError::Fenced { .. })) => Ok(Ended::Left),
            Err(error) => Err(error),
        }
    }

    /// Shows the counts and notes of the worker to the other threads.
    fn publish(&mut self) {
        lock(self.shared).update(self.partition, &mut self.worker);
    }
}
