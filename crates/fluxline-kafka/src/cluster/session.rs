//! A node's part in its cluster: it joins, waits for a run, sees others die, and is seen by them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fluxline_daq::experiment::{BUILDER, Cluster, ClusterStart, Experiment};
use fluxline_daq::formats::{self, LoadedFormat};
use fluxline_run::Stop;
use fluxline_run::filter::FilterPlan;

use super::block::{BLOCK_VERSION, NodeBlock, NodeState, Role};
use super::control::{ControlState, JoinRefusal, RunRecord};
use super::control_log::{ControlLog, name_run};
use super::digest::digest_of;
use super::peers::Peers;
use super::publish::LedgerWriter;
use super::record::{ControlRecord, Join};
use super::{sink_task, topics};
use crate::build::{LogError, WorkError};
use crate::client::TopicError;
use crate::settings::Settings;

/// Time between two blocks.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// Tries of a join that is refused because of the clock: a record that waited for the brokers looks
/// like a wrong clock.
const CLOCK_TRIES: u32 = 3;
/// Time for the last block.
const LAST_BLOCK_WITHIN: Duration = Duration::from_secs(30);

/// The reason why a node stopped.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The experiment, a description or a link is wrong.
    #[error("{0}")]
    Run(#[from] fluxline_run::Error),
    /// A topic cannot be used.
    #[error("{0}")]
    Topic(#[from] TopicError),
    /// The brokers are away.
    #[error("{0}")]
    Away(#[from] LogError),
    /// Another process has the same name.
    #[error(
        "two nodes have the same name: `{}` was started again as process {} on {}; this one stops",
        .0.member(), .0.pid, .0.host
    )]
    Replaced(Box<Join>),
    /// The node may not take part.
    #[error("{0}")]
    Refused(JoinRefusal),
    /// An operator ended the node.
    #[error("`fluxline ctl … end {node}` ended this node in run {run}; this process stops")]
    EndedByOperator {
        /// The node.
        node: String,
        /// The run.
        run: u64,
    },
    /// An operator abandoned the run.
    #[error(
        "`fluxline ctl … abandon {run}` ended run {run} before all its events were built; this \
        process stops"
    )]
    Abandoned {
        /// The run.
        run: u64,
    },
    /// A partition cannot be built.
    #[error("{}{}", .0, remedy_of(.0))]
    Build(WorkError),
    /// The brokers refused records of packets.
    #[error(
        "the brokers refused {records} records of packets ({reason}): their packets are lost; \
        topic `{topic}`: {remedy}"
    )]
    RecordsRefused {
        /// Number of records.
        records: u64,
        /// The topic.
        topic: String,
        /// The brokers' first message.
        reason: String,
        /// The user's remedy.
        remedy: &'static str,
    },
    /// The client sends nothing any more.
    #[error(
        "the Kafka client of this node has given up for good ({0}), and the packets in its memory \
        are lost; start the node again, and look for brokers that lost records (power, disks)"
    )]
    GaveUp(String),
}

/// Returns the way out of a run that lacks records.
fn remedy_of(error: &WorkError) -> &'static str {
    match error {
        WorkError::Log(LogError::Hole { .. } | LogError::CommitsGone { .. }) => {
            "; the partition cannot be built: `fluxline ctl … abandon RUN` ends the run"
        }
        _ => "",
    }
}

/// Takes the sentences of a node for its user.
pub type Say = Box<dyn FnMut(&str)>;

/// Adds a function of the program to the filters of the experiment ([`FilterPlan::with_function`]).
pub type NodeFilter = Box<dyn Fn(FilterPlan) -> FilterPlan>;

/// The start of a node.
pub struct NodeSetup {
    /// The experiment, checked for nodes.
    pub experiment: Experiment,
    /// The node's name: a readout node of the experiment, or `builder`.
    pub node: String,
    /// The process's name among those of the same node; `None`: host and process id.
    pub id: Option<String>,
    /// A function of the program that chooses events, beside the experiment's expressions; a
    /// builder needs it, and every node its version.
    pub function: Option<NodeFilter>,
    /// The end, on request of the user.
    pub stop: Stop,
    /// Takes the sentences for the user.
    pub say: Say,
}

/// A node that has joined.
pub struct Session {
    /// The experiment.
    pub(super) experiment: Experiment,
    /// The descriptions of its sources.
    pub(super) loaded: Vec<LoadedFormat>,
    /// The filter of events.
    pub(super) filter: FilterPlan,
    /// The cluster.
    pub(super) cluster: Cluster,
    /// The connection.
    pub(super) settings: Settings,
    /// The control topic.
    pub(super) control: ControlLog,
    /// This process.
    pub(super) join: Join,
    /// The end, on request of the user.
    pub(super) stop: Stop,
    partitions: u32,
    ledger: LedgerWriter,
    peers: Option<Peers>,
    say: Say,
    published: Instant,
    sequence: u64,
}

impl Session {
    /// Prepares the topics, reads the control topic, and joins.
    ///
    /// Errors: [`NodeError`]; nothing was joined then.
    pub fn join(setup: NodeSetup) -> Result<Session, NodeError> {
        let NodeSetup { experiment, node, id, function, stop, mut say } = setup;
        let Some(cluster) = experiment.cluster.clone() else {
            return Err(TopicError::Settings("the experiment has no [cluster]".to_owned()).into());
        };
        let loaded: Vec<LoadedFormat> = experiment
            .sources
            .iter()
            .map(|source| formats::load(&source.format, &source.parameters))
            .collect::<Result<_, _>>()
            .map_err(fluxline_run::Error::from)?;
        let filter = FilterPlan::of(&experiment, &loaded)?;
        let filter = function.iter().fold(filter, |filter, function| function(filter));
        let settings = settings_of(&cluster)?;
        let prepared = topics::prepare(&settings, &cluster);
        let (partitions, made) =
            prepared.map_err(|error| name_run(&settings, &cluster.name, error))?;
        if !made.is_empty() {
            say(&format!("made the topics {} with {partitions} partitions", made.join(", ")));
        }
        if node == BUILDER {
            sink_task::check(&settings, &experiment, &loaded)?;
        }
        let control = ControlLog::open(&settings, &cluster.name)?;
        let ledger = LedgerWriter::open(&settings, &cluster.name)?;
        let digest = digest_of(&experiment, &loaded, filter.function_version());
        let join = join_of(&experiment, digest, node, id);
        let mut session = Session {
            experiment,
            loaded,
            filter,
            cluster,
            settings,
            control,
            join,
            stop,
            partitions,
            ledger,
            peers: None,
            say,
            published: Instant::now(),
            sequence: 0,
        };
        session.enter()?;
        Ok(session)
    }

    /// Appends the record of joining until the cluster has this process.
    fn enter(&mut self) -> Result<(), NodeError> {
        let incarnation = self.join.incarnation;
        for attempt in 1.. {
            self.join.at_ns = fluxline::clock::now().as_ns();
            self.control.append(&ControlRecord::Join(self.join.clone()))?;
            let state = self.control.state();
            if state.has_joined(incarnation) {
                break;
            }
            match state.refusal(incarnation) {
                Some(JoinRefusal::Clock { .. }) if attempt < CLOCK_TRIES => {}
                Some(refusal) => return Err(NodeError::Refused(refusal.clone())),
                None => self.check_place()?,
            }
        }
        Ok(())
    }

    /// Says something to the user.
    pub fn say(&mut self, sentence: &str) {
        (self.say)(sentence);
    }

    /// Returns the state of the cluster.
    #[must_use]
    pub fn state(&self) -> &ControlState {
        self.control.state()
    }

    /// Reads new control records, for at most `within`, and says what became of other nodes.
    ///
    /// Errors: [`NodeError::Replaced`].
    pub fn poll(&mut self, within: Duration) -> Result<(), NodeError> {
        self.control.read(within);
        self.check_place()?;
        if let Some(peers) = &mut self.peers {
            let ctl = |request: &str| ctl_command(&self.cluster, request);
            for sentence in peers.news(self.control.state(), self.join.incarnation, ctl) {
                (self.say)(&sentence);
            }
        }
        Ok(())
    }

    /// Returns the numbers of the readout nodes that have died.
    #[must_use]
    pub fn dead_readouts(&self) -> BTreeSet<u16> {
        self.peers.as_ref().map_or(BTreeSet::new(), |peers| peers.dead_readouts(self.state()))
    }

    /// Checks that nobody abandoned a run.
    ///
    /// Errors: [`NodeError::Abandoned`].
    pub fn check_run(&self, run: u64) -> Result<(), NodeError> {
        match self.state().run(run).is_some_and(|of| of.abandoned) {
            true => Err(NodeError::Abandoned { run }),
            false => Ok(()),
        }
    }

    fn check_place(&self) -> Result<(), NodeError> {
        match self.control.state().replaced_by(self.join.incarnation) {
            Some(other) => Err(NodeError::Replaced(Box::new(other.clone()))),
            None => Ok(()),
        }
    }

    /// Waits for a run that this node has a part in, and begins one when all readout nodes have
    /// joined. `None`: the user stopped the node first.
    ///
    /// Errors: [`NodeError`].
    pub fn wait_for_run(&mut self) -> Result<Option<RunRecord>, NodeError> {
        let mut said = String::new();
        loop {
            if self.stop.is_over() {
                let incarnation = self.join.incarnation;
                self.control.append(&ControlRecord::Leave { incarnation })?;
                return Ok(None);
            }
            let state = self.control.state();
            if let Some(refusal) = state.refusal(self.join.incarnation) {
                return Err(NodeError::Refused(refusal.clone()));
            }
            if !state.has_joined(self.join.incarnation) {
                // A whole run has passed since the last look.
                self.enter()?;
                continue;
            }
            if let Some(run) = self.state().open_run() {
                let run = run.clone();
                self.peers = Some(Peers::watch(&self.settings, &self.cluster.name, &run));
                return Ok(Some(run));
            }
            let sentence = match (self.state().next_run(), self.cluster.start) {
                (Ok(_), ClusterStart::All) => {
                    self.begin_run()?;
                    continue;
                }
                (Ok(_), ClusterStart::Ctl) => format!(
                    "all readout nodes have joined; `{}` begins the run",
                    ctl_command(&self.cluster, "start")
                ),
                (Err(missing), _) => format!("waiting for {}", missing.join(", ")),
            };
            if sentence != said {
                self.say(&sentence);
                said = sentence;
            }
            self.poll(Duration::from_millis(200))?;
        }
    }

    fn begin_run(&mut self) -> Result<(), NodeError> {
        let begin = begin_of(&self.settings, &self.cluster.name, self.state(), self.partitions)?;
        if let Some(record) = begin {
            self.control.append(&record)?;
        }
        Ok(())
    }

    /// Publishes a block if one is due. Never waits.
    pub fn publish(&mut self, make: impl FnOnce(&mut NodeBlock)) {
        if self.published.elapsed() < PUBLISH_EVERY && self.sequence > 0 {
            return;
        }
        let mut block = self.empty_block(NodeState::Running);
        make(&mut block);
        self.published = Instant::now();
        self.sequence += 1;
        self.ledger.publish(&block);
    }

    /// Begins to compare the steady time of this machine with the brokers' time.
    pub fn begin_clock(&self) {
        self.ledger.begin_clock();
    }

    /// Returns the largest difference so far \[ms\]; 0 when the clocks may have agreed.
    #[must_use]
    pub fn clock_ahead_ms(&self) -> i64 {
        self.ledger.clock_ahead_ms()
    }

    /// Publishes the last block, and waits until the brokers have it.
    ///
    /// Errors: [`NodeError::Away`].
    pub fn publish_last(&mut self, block: &mut NodeBlock) -> Result<(), NodeError> {
        block.sequence = self.sequence;
        block.sent_at_ns = fluxline::clock::now().as_ns();
        Ok(self.ledger.finish(block, LAST_BLOCK_WITHIN)?)
    }

    /// Returns a block of this process without counts.
    #[must_use]
    pub fn empty_block(&self, state: NodeState) -> NodeBlock {
        NodeBlock {
            version: BLOCK_VERSION,
            cluster: self.cluster.name.clone(),
            node: self.join.node.clone(),
            id: self.join.id.clone(),
            incarnation: self.join.incarnation,
            role: self.join.role,
            host: self.join.host.clone(),
            pid: self.join.pid,
            state,
            sequence: self.sequence,
            sent_at_ns: fluxline::clock::now().as_ns(),
            accept: self.experiment.accept.clone(),
            require: Some(self.experiment.events.require.clone()),
            ..NodeBlock::default()
        }
    }
}

/// Returns the command that sends a request to the cluster.
fn ctl_command(cluster: &Cluster, request: &str) -> String {
    let file = cluster.settings_file.as_ref();
    let file = file.map_or(String::new(), |file| format!(" --settings-file {}", file.display()));
    format!("fluxline ctl kafka://{}/{} {request}{file}", cluster.brokers, cluster.name)
}

/// Reads the settings of a cluster's connection.
///
/// Errors: [`TopicError::Settings`].
pub fn settings_of(cluster: &Cluster) -> Result<Settings, TopicError> {
    let file = cluster.settings_file.as_deref();
    Settings::read(&cluster.brokers, &cluster.settings, file)
        .map_err(|sentence| TopicError::Settings(sentence.trim_end_matches('.').to_owned()))
}

/// Returns the record that begins the next run; `None` when one is open or a node is missing.
///
/// Errors: [`TopicError::NoBroker`].
pub fn begin_of(
    settings: &Settings,
    cluster: &str,
    state: &ControlState,
    partitions: u32,
) -> Result<Option<ControlRecord>, TopicError> {
    let Ok(mut begin) = state.next_run() else { return Ok(None) };
    begin.fragments = topics::ends(settings, &format!("{cluster}.fragments"), partitions)?;
    begin.commits = topics::ends(settings, &format!("{cluster}.commits"), partitions)?;
    begin.at_ns = fluxline::clock::now().as_ns();
    Ok(Some(ControlRecord::Begin(begin)))
}

fn join_of(experiment: &Experiment, digest: String, node: String, id: Option<String>) -> Join {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_owned();
    let pid = std::process::id();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let own = format!("{}-{pid}", host.chars().map(allowed).take(40).collect::<String>());
    let role = if node == BUILDER { Role::Builder } else { Role::Readout };
    let sources = experiment.sources_of(&node);
    Join {
        id: id.unwrap_or(own),
        role,
        host,
        pid,
        // Also unique among processes that begin in the same moment on different machines.
        incarnation: fluxline::clock::now().as_ns() & !0xF_FFFF | (u64::from(pid) & 0xF_FFFF),
        digest,
        readouts: experiment.nodes.keys().cloned().collect(),
        reads_files: sources.iter().any(|at| experiment.sources[*at].is_file()),
        at_ns: 0,
        node,
    }
}
