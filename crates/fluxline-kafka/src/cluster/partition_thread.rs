//! A thread that builds one partition for as long as this process has it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::block::PartitionBlock;
use crate::build::kafka::KafkaLog;
use crate::build::{LogError, Output, RunPlan, Step, WorkError, Worker};
use crate::client::TopicError;
use crate::settings::Settings;

/// Time between two publications of counts.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// Everything that the builders of all partitions share.
#[derive(Clone)]
pub struct Task {
    /// The connection.
    pub settings: Settings,
    /// The cluster's name.
    pub cluster: String,
    /// The run.
    pub plan: RunPlan,
    /// The offsets at which the run begins, for each partition of fragments and of commits.
    pub begins: (Vec<u64>, Vec<u64>),
    /// The inputs that read files: node and number there.
    pub files: Vec<(u16, u16)>,
    /// The builder's name.
    pub builder: String,
    /// Largest record for the topic of events \[byte\]; `None`: files alone.
    pub record_bytes: Option<usize>,
    /// Opens the place that a partition's batches are written to, for records of this size.
    pub open_output: Arc<OpenOutput>,
}

/// Opens an output with records of at most this size \[byte\]; `None`: files alone.
pub type OpenOutput = dyn Fn(Option<usize>) -> Box<dyn Output + Send> + Send + Sync;

/// The reason why a thread ended.
#[derive(Debug)]
pub enum Ended {
    /// All batches of the partition are committed.
    Built,
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
    block: Arc<Mutex<PartitionBlock>>,
    thread: JoinHandle<Ended>,
}

impl PartitionThread {
    /// Claims a partition and builds it.
    pub fn start(task: Task, partition: u32) -> PartitionThread {
        let stop = Arc::new(AtomicBool::new(false));
        let first = PartitionBlock { partition, ..PartitionBlock::default() };
        let block = Arc::new(Mutex::new(first));
        let (flag, shared) = (Arc::clone(&stop), Arc::clone(&block));
        let thread = std::thread::spawn(move || {
            build(&task, partition, &flag, &shared).unwrap_or_else(|error| match error {
                WorkError::Log(error @ (LogError::Fenced { .. } | LogError::Away(_))) => {
                    Ended::Again(error.to_string())
                }
                error => Ended::Failed(error),
            })
        });
        PartitionThread { stop, block, thread }
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
        self.block.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    shared: &Mutex<PartitionBlock>,
) -> Result<Ended, WorkError> {
    let log = match KafkaLog::open(&task.settings, &task.cluster, task.plan.run) {
        Ok(log) => log,
        Err(TopicError::NoBroker { reason, .. }) => return Ok(Ended::Again(reason)),
        Err(error) => return Ok(Ended::Topic(error)),
    };
    let (fragments, commits) = task.begins.clone();
    let mut log = log.begin_at(fragments, commits);
    let record_bytes = task.record_bytes.map(|bytes| log.open_events(&task.cluster, bytes));
    let record_bytes = match record_bytes.transpose() {
        Ok(bytes) => bytes,
        Err(TopicError::NoBroker { reason, .. }) => return Ok(Ended::Again(reason)),
        Err(error) => return Ok(Ended::Topic(error)),
    };
    let mut output = (task.open_output)(record_bytes);
    let mut worker = Worker::claim(&mut log, &task.plan, partition, &task.builder)?;
    worker.read_on_demand(&task.files);
    let publish = |worker: &Worker| {
        let block = PartitionBlock::of(partition, worker.partition());
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = block;
    };
    let mut published = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let step = worker.step(&mut log, &mut *output).inspect_err(|_| publish(&worker))?;
        if step == Step::Over {
            publish(&worker);
            return Ok(Ended::Built);
        }
        if published.elapsed() >= PUBLISH_EVERY {
            published = Instant::now();
            publish(&worker);
        }
    }
    publish(&worker);
    Ok(Ended::Left)
}
