//! Reads the ledger's topics: control, blocks and commits.
//!
//! Everything in the topics may come from anybody. A record that does not fit is counted and left
//! alone, and memory is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::message::{BorrowedMessage, Message};

use super::block::NodeBlock;
use super::control::{ControlState, RunRecord};
use super::control_log::name_clusters;
use super::ledger::ClusterLedger;
use super::observed::{Committed, Observed, Seen};
use super::tail::Tail;
use crate::build::LogError;
use crate::build::commits::read_commit;
use crate::client::TopicError;
use crate::settings::Settings;

/// Time for a look; a broker that takes longer counts as away. A client that has lost its brokers
/// gets them back within 5 s, so a look must last longer.
const LOOK_WITHIN: Duration = Duration::from_secs(15);
/// Time between two looks at a run that is over.
const END_LOOK: Duration = Duration::from_millis(200);
/// Most processes of a run.
const PROCESSES_MAX: usize = 4096;

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
    /// `None`: only the nodes are watched.
    commits: Option<Tail>,
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
        let named = |error| name_clusters(settings, cluster, error);
        let ends = Tail::client_of_ends(settings, &format!("{cluster}.ledger"))?;
        let open = |topic: &str| Tail::open(settings, &format!("{cluster}.{topic}"), &ends);
        let blocks = open("ledger").map_err(named)?;
        let mut reader = LedgerReader {
            commits: Some(open("commits")?),
            control: open("control").ok(),
            ..LedgerReader::on(cluster, blocks)
        };
        reader.choose_run(run, limit)?;
        match reader.state.run(reader.run) {
            Some(run) => {
                reader.blocks.begin_at_time(run.began_ms)?;
                if let Some(commits) = &mut reader.commits {
                    commits.begin_at(&run.begin.commits)?;
                }
            }
            None => reader.blocks.rewind()?,
        }
        reader.catch_up(limit)?;
        Ok(reader)
    }

    /// Reads only the counts of the nodes of a run: enough to see who is alive. The time that it
    /// takes does not grow with the number of runs before.
    ///
    /// Errors: [`LedgerError`].
    pub fn open_nodes(
        settings: &Settings,
        cluster: &str,
        run: &RunRecord,
        within: Duration,
    ) -> Result<LedgerReader, LedgerError> {
        let topic = format!("{cluster}.ledger");
        let blocks = Tail::open(settings, &topic, &Tail::client_of_ends(settings, &topic)?)?;
        let mut reader = LedgerReader { run: run.number(), ..LedgerReader::on(cluster, blocks) };
        reader.blocks.begin_at_time(run.began_ms)?;
        reader.catch_up(Instant::now() + within)?;
        Ok(reader)
    }

    fn on(cluster: &str, blocks: Tail) -> LedgerReader {
        LedgerReader {
            cluster: cluster.to_owned(),
            run: 0,
            blocks,
            commits: None,
            control: None,
            state: ControlState::default(),
            processes: BTreeMap::new(),
            committed: BTreeMap::new(),
            foreign: 0,
            away_until: None,
        }
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

    /// Waits at most `within` for the last counts of a run whose partitions are all built. They may
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
        let found = self.commits.as_ref().map(|commits| commits.partitions);
        Observed {
            cluster: self.cluster.clone(),
            run: self.run,
            partitions: run.map_or(found.unwrap_or(0), RunRecord::partitions),
            readouts: run.map_or(Vec::new(), |run| run.begin.readouts.clone()),
            blocks: self.processes.values().map(seen).collect(),
            commits: self.committed.clone(),
            foreign: self.foreign,
            abandoned: run.is_some_and(|run| run.abandoned),
            paused: run.is_some_and(RunRecord::is_paused),
        }
    }

    /// Returns the newest counts of each process.
    pub fn blocks(&self) -> impl Iterator<Item = &NodeBlock> {
        self.processes.values().map(|process| &process.block)
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
        // The control topic has the newest runs. Only for others, all counts are searched.
        let of_control = match wanted {
            Some(run) => runs.get(&run),
            None => runs.last(),
        };
        if let Some(run) = of_control {
            self.run = *run;
            return Ok(());
        }
        self.blocks.read(limit, |message| {
            // Nodes that wait for a run have the number 0.
            if let Some(block) = block_of(message, cluster).filter(|block| block.run > 0) {
                runs.insert(block.run);
                if runs.len() > PROCESSES_MAX {
                    runs.pop_first();
                }
            }
        })?;
        let newest = runs.last().copied();
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
        let Some(commits) = &mut self.commits else { return Ok(()) };
        commits.read(limit, |message| {
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
