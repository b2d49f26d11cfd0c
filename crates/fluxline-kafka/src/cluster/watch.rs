//! Reads the ledger's topics: control, blocks and commits.
//!
//! Everything in the topics may come from anybody. A record that does not fit is counted and left
//! alone, and memory is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::block::NodeBlock;
use super::control::{ControlState, RunRecord};
use super::control_log::name_clusters;
use super::ledger::ClusterLedger;
use super::observed::{Committed, Observed, Seen};
use crate::build::LogError;
use crate::build::commits::read_commit;
use crate::client::{TopicError, check_topic, config_or, watermarks, wrong_settings};
use crate::lasting::Lasting;
use crate::settings::Settings;

/// Time for a look; a broker that takes longer counts as away. A client that has lost its brokers
/// gets them back within 5 s, so a look must last longer.
const LOOK_WITHIN: Duration = Duration::from_secs(15);
/// Time without a record after which the place of an end is asked for again. It doubles each time,
/// so that a slow broker can answer.
const QUIET_FIRST: Duration = Duration::from_secs(1);
/// Time between two looks at a run that is over.
const END_LOOK: Duration = Duration::from_millis(200);
/// Most processes of a run.
const PROCESSES_MAX: usize = 4096;
/// Wait for a record.
const RECORD_WITHIN: Duration = Duration::from_millis(50);

/// The reason why a run's ledger cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// A topic cannot be used.
    #[error("{0}")]
    Topic(#[from] TopicError),
    /// The broker went away.
    #[error("{0}")]
    Away(#[from] LogError),
    /// No node has published a block.
    #[error(
        "cluster {cluster} has had no run: no node has published its counts to `{cluster}.ledger`; \
        start one with `fluxline run EXPERIMENT --node NODE`"
    )]
    NoRun {
        /// The cluster.
        cluster: String,
    },
    /// The run is not there.
    #[error(
        "cluster {cluster} has no run {run} (found: {found}); leave out --run for the newest one"
    )]
    Unknown {
        /// The cluster.
        cluster: String,
        /// The run.
        run: u64,
        /// The runs that were found.
        found: String,
    },
}

/// Reads the blocks and commits of one run, from the beginning to the present and on.
pub struct LedgerReader {
    cluster: String,
    run: u64,
    blocks: Tail,
    commits: Tail,
    control: Option<Tail>,
    state: ControlState,
    processes: BTreeMap<String, Process>,
    committed: BTreeMap<u32, Committed>,
    foreign: u64,
    /// The last time at which the broker was away: until then, no block could come.
    away_until: Option<Instant>,
}

/// The newest block of a process, and the time at which it came.
struct Process {
    block: NodeBlock,
    came: Instant,
}

impl LedgerReader {
    /// Reads the ledger of a run of `cluster` up to the present; `None`: of the newest run. The
    /// brokers have `within` to show everything.
    ///
    /// Errors: [`LedgerError`].
    pub fn open(
        settings: &Settings,
        cluster: &str,
        run: Option<u64>,
        within: Duration,
    ) -> Result<LedgerReader, LedgerError> {
        let limit = Instant::now() + within;
        let named = |error| match error {
            LedgerError::Topic(error) => name_clusters(settings, cluster, error).into(),
            error => error,
        };
        let ends = reader_config(settings).create().map_err(|error| wrong_settings(&error))?;
        let ends = Lasting::new(ends, settings, &format!("{cluster}.ledger"));
        let open = |topic: &str| Tail::open(settings, &format!("{cluster}.{topic}"), &ends);
        let mut reader = LedgerReader {
            cluster: cluster.to_owned(),
            run: 0,
            blocks: open("ledger").map_err(named)?,
            commits: open("commits")?,
            control: open("control").ok(),
            state: ControlState::default(),
            processes: BTreeMap::new(),
            committed: BTreeMap::new(),
            foreign: 0,
            away_until: None,
        };
        reader.choose_run(run, limit)?;
        reader.blocks.rewind()?;
        reader.catch_up(limit)?;
        Ok(reader)
    }

    /// Waits for `within`, and reads the records that came since.
    ///
    /// Errors: the broker is away; the counts so far stay, and nobody counts as dead for it.
    pub fn look(&mut self, within: Duration) -> Result<(), LogError> {
        std::thread::sleep(within);
        let looked = self.catch_up(Instant::now() + LOOK_WITHIN);
        if looked.is_err() {
            self.away_until = Some(Instant::now());
        }
        looked
    }

    /// Waits for the last counts of a run whose partitions are all built, at most `within`. They may
    /// come a moment later, and a node that died shows no end: it counts as dead first.
    ///
    /// Errors: as [`Self::look`].
    pub fn at_end(&mut self, within: Duration) -> Result<ClusterLedger, LogError> {
        let limit = Instant::now() + within;
        loop {
            let ledger = self.ledger();
            if ledger.is_over() || ledger.abandoned || Instant::now() >= limit {
                return Ok(ledger);
            }
            self.look(END_LOOK)?;
        }
    }

    /// Returns the run's number.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Returns everything that was seen of the run.
    #[must_use]
    pub fn observed(&self) -> Observed {
        let seen = |process: &Process| Seen {
            block: process.block.clone(),
            quiet: process.came.max(self.away_until.unwrap_or(process.came)).elapsed(),
        };
        let run = self.state.run(self.run);
        Observed {
            cluster: self.cluster.clone(),
            run: self.run,
            partitions: run.map_or(self.commits.partitions, RunRecord::partitions),
            readouts: run.map_or(Vec::new(), |run| run.begin.readouts.clone()),
            blocks: self.processes.values().map(seen).collect(),
            commits: self.committed.clone(),
            foreign: self.foreign,
            abandoned: run.is_some_and(|run| run.abandoned),
            paused: run.is_some_and(RunRecord::is_paused),
        }
    }

    /// Returns the ledger of everything that was seen.
    #[must_use]
    pub fn ledger(&self) -> ClusterLedger {
        ClusterLedger::of(&self.observed())
    }

    /// Finds the run: the wanted one, or the newest.
    fn choose_run(&mut self, wanted: Option<u64>, limit: Instant) -> Result<(), LedgerError> {
        let (state, cluster) = (&mut self.state, &self.cluster);
        if let Some(control) = &mut self.control {
            control.read(limit, |message| {
                let at = message.timestamp().to_millis().unwrap_or_default();
                state.apply(message.payload().unwrap_or_default(), at);
            })?;
        }
        let mut runs: BTreeSet<u64> = state.runs().iter().map(|run| run.number()).collect();
        self.blocks.read(limit, |message| {
            // Nodes that wait for a run have the number 0.
            if let Some(block) = block_of(message, cluster).filter(|block| block.run > 0) {
                runs.insert(block.run);
                if runs.len() > PROCESSES_MAX {
                    runs.pop_first();
                }
            }
        })?;
        // Runs begin by the control topic. A block of a run that it does not have is of somebody
        // else, or of a cluster without that topic.
        let of_control = state.runs().last().map(|run| run.number());
        let newest = of_control.or(runs.last().copied());
        let cluster = cluster.clone();
        match (wanted, newest) {
            (None, None) => return Err(LedgerError::NoRun { cluster }),
            (Some(run), _) if !runs.contains(&run) => {
                let last = runs.iter().rev().take(8).map(u64::to_string);
                let found = match runs.is_empty() {
                    true => "none".to_owned(),
                    false => last.collect::<Vec<_>>().join(", "),
                };
                return Err(LedgerError::Unknown { cluster, run, found });
            }
            (wanted, newest) => self.run = wanted.or(newest).unwrap_or_default(),
        }
        Ok(())
    }

    fn catch_up(&mut self, limit: Instant) -> Result<(), LogError> {
        let LedgerReader { cluster, run, processes, foreign, committed, state, .. } = self;
        if let Some(control) = &mut self.control {
            control.read(limit, |message| {
                let at = message.timestamp().to_millis().unwrap_or_default();
                state.apply(message.payload().unwrap_or_default(), at);
            })?;
        }
        self.blocks.read(limit, |message| match block_of(message, cluster) {
            None => *foreign += 1,
            Some(block) if block.run == *run => *foreign += u64::from(!keep(processes, block)),
            Some(_) => {}
        })?;
        self.commits.read(limit, |message| {
            let partition = message.partition() as u32;
            let (key, value) = (message.key(), message.payload());
            match read_commit(partition, key.unwrap_or_default(), value.unwrap_or_default()) {
                Some((of, commit)) if of == *run => {
                    let fits = committed.entry(partition).or_default().add(&commit);
                    *foreign += u64::from(!fits);
                }
                Some(_) => {}
                None => *foreign += 1,
            }
        })
    }
}

/// Returns the block in a record; `None` for a record of somebody else.
fn block_of(message: &BorrowedMessage<'_>, cluster: &str) -> Option<NodeBlock> {
    let block = NodeBlock::read(message.payload().unwrap_or_default()).ok()?;
    let is_its = message.key() == Some(block.key().as_bytes()) && block.cluster == cluster;
    is_its.then_some(block)
}

/// Keeps the newest block of a process. Returns false when there are too many processes.
fn keep(processes: &mut BTreeMap<String, Process>, block: NodeBlock) -> bool {
    let (key, count) = (block.key(), processes.len());
    let came = Instant::now();
    match processes.get_mut(&key) {
        Some(process) if process.block.sequence > block.sequence => {}
        Some(process) => *process = Process { block, came },
        None if count >= PROCESSES_MAX => return false,
        None => drop(processes.insert(key, Process { block, came })),
    }
    true
}

/// The first record. Where it was deleted, `auto.offset.reset` gives the first one that is there. A
/// question for it from the beginning would wait 500 ms when it comes before the topic's partitions
/// are known.
const FIRST: Offset = Offset::Offset(0);

/// A reader of all partitions of a topic.
struct Tail {
    consumer: Lasting<BaseConsumer>,
    /// The client that is asked for ends. A broker answers the requests of a connection one by one,
    /// so on the reader's own they would wait for records that do not come.
    ends: Lasting<BaseConsumer>,
    topic: String,
    partitions: u32,
    /// Offset behind the last record that was read, by partition.
    next: BTreeMap<i32, i64>,
}

impl Tail {
    fn open(
        settings: &Settings,
        topic: &str,
        ends: &Lasting<BaseConsumer>,
    ) -> Result<Tail, LedgerError> {
        let consumer: BaseConsumer =
            reader_config(settings).create().map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(ends.client(), settings, topic)? as u32;
        let consumer = Lasting::new(consumer, settings, topic);
        let (ends, topic) = (ends.clone(), topic.to_owned());
        let mut tail = Tail { consumer, ends, topic, partitions, next: BTreeMap::new() };
        tail.rewind()?;
        Ok(tail)
    }

    /// Begins again with the first record.
    fn rewind(&mut self) -> Result<(), LogError> {
        self.next.clear();
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions as i32 {
            let added = list.add_partition_offset(&self.topic, partition, FIRST);
            added.map_err(|error| away(&error))?;
        }
        self.consumer.assign(&list).map_err(|error| away(&error))
    }

    /// Makes the client state the ends of partitions again. It states each end once, and the mark
    /// of a transaction may have moved the end between the question for it and that statement.
    fn ask_for_ends(&self, open: &BTreeMap<i32, i64>) {
        for partition in open.keys() {
            let next = self.next.get(partition).map_or(FIRST, |at| Offset::Offset(*at));
            // A failure shows itself at the limit of the look.
            let _ = self.consumer.seek(&self.topic, *partition, next, RECORD_WITHIN);
        }
    }

    /// Reads the records up to the end that every partition has now.
    ///
    /// A topic that somebody writes all the time never shows its end, so the ends are asked first.
    ///
    /// Errors: the broker does not answer, or an end was not reached before `limit`.
    fn read(
        &mut self,
        limit: Instant,
        mut each: impl FnMut(&BorrowedMessage<'_>),
    ) -> Result<(), LogError> {
        let mut open = BTreeMap::new();
        for partition in 0..self.partitions as i32 {
            let marks = watermarks(self.ends.client(), &self.topic, partition);
            let (low, high) = marks.map_err(|error| {
                LogError::Away(format!("topic `{}`, partition {partition}: {error}", self.topic))
            })?;
            if high > low.max(self.next.get(&partition).copied().unwrap_or(0)) {
                open.insert(partition, high);
            }
        }
        let mut failed = None;
        // One more poll than the ends ask for: an old mark of an end may hide a record behind it.
        let mut wait = Duration::ZERO;
        let (mut heard, mut quiet_max) = (Instant::now(), QUIET_FIRST);
        loop {
            let polled = self.consumer.poll(wait);
            if polled.is_none() && open.is_empty() {
                return Ok(());
            }
            if polled.is_some() {
                heard = Instant::now();
            } else if heard.elapsed() >= quiet_max {
                (heard, quiet_max) = (Instant::now(), 2 * quiet_max);
                self.ask_for_ends(&open);
            }
            wait = if open.is_empty() { Duration::ZERO } else { RECORD_WITHIN };
            match polled {
                Some(Ok(message)) => {
                    let (partition, next) = (message.partition(), message.offset() + 1);
                    self.next.insert(partition, next);
                    open.retain(|of, high| *of != partition || *high > next);
                    each(&message);
                }
                // Marks of transactions may follow the last record; they are not records.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    if let Some(high) = open.remove(&partition) {
                        self.next.insert(partition, high);
                    }
                }
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            if Instant::now() >= limit {
                if open.is_empty() {
                    return Ok(());
                }
                let reason = failed.map_or("no answer".to_owned(), |error| error.to_string());
                return Err(LogError::Away(format!("topic `{}`: {reason}", self.topic)));
            }
        }
    }
}

/// Returns the configuration of a reader. An end is stated after a wait for further records, which
/// is 500 ms by default.
fn reader_config(settings: &Settings) -> ClientConfig {
    let mut config = config_or(settings, &[("fetch.wait.max.ms", "100")]);
    config
        .set("group.id", "fluxline-inspect")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("queued.max.messages.kbytes", "16384");
    config
}

fn away(error: &KafkaError) -> LogError {
    LogError::Away(error.to_string())
}
