//! The builder process: partitions of the log in, batches of events out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxline_daq::experiment::ClusterOutput;
use fluxline_run::{builder_config, check_memory, source_lines};

use super::block::{BuilderBlock, NodeBlock, NodeState, PartitionBlock};
use super::control::RunRecord;
use super::group::Group;
use super::ledger::ClusterLedger;
use super::partition_thread::{DeadReadouts, Ended, FailedSaves, PartitionThread, Task};
use super::record::ControlRecord;
use super::session::{NodeError, NodeSetup, Session};
use super::sink_task::SinkTask;
use super::watch::{LedgerError, LedgerReader};
use crate::build::{LogError, RunPlan, WorkError};

/// Time between two looks at the control topic and the group.
const LOOK: Duration = Duration::from_millis(50);
/// Wait before a partition is claimed again.
const CLAIM_AGAIN: Duration = Duration::from_secs(2);
/// Time for the last counts of all nodes.
const LEDGER_WITHIN: Duration = Duration::from_secs(30);

/// The end of a builder's part in a run.
#[derive(Clone, Debug)]
pub struct BuilderReport {
    /// The builder's last block of counts.
    pub block: NodeBlock,
    /// The folder below which it wrote run folders; `None`: it wrote none.
    pub folder: Option<PathBuf>,
    /// The run was over; otherwise the user stopped the builder before.
    pub is_over: bool,
    /// The ledger over all nodes, once the run is over.
    pub ledger: Option<Result<ClusterLedger, LedgerError>>,
}

/// Runs a builder through one run. `None`: the user stopped it before a run began.
///
/// Errors: [`NodeError`].
pub fn build(setup: NodeSetup) -> Result<Option<BuilderReport>, NodeError> {
    let mut session = Session::join(setup)?;
    let Some(run) = session.wait_for_run()? else { return Ok(None) };
    let folder = folder_of(&session, &run)?;
    let task = task_of(&session, &run, folder.clone())?;
    let group = Group::join(&session.settings, &session.cluster.name)?;
    session.say(&format!("run {} goes on: builder `{}` builds", run.number(), session.join.id));
    if let Some(folder) = &folder {
        session.say(&format!("folder {}", folder.display()));
    }
    let run = run.number();
    let mut part = Part { run, task, group, threads: BTreeMap::new(), done: BTreeMap::new() };
    let result = part.work(&mut session);
    let is_over = session.state().run(run).is_some_and(RunRecord::is_over);
    part.stop_all();
    let mut block = part.block(&session, result.as_ref().err());
    let last = session.publish_last(&mut block);
    result.and(last)?;
    let ledger = is_over.then(|| ledger_of(&session, run));
    Ok(Some(BuilderReport { block, folder, is_over, ledger }))
}

/// Reads the ledger of a run that is over.
fn ledger_of(session: &Session, run: u64) -> Result<ClusterLedger, LedgerError> {
    let (settings, cluster) = (&session.settings, &session.cluster.name);
    let mut reader = LedgerReader::open(settings, cluster, Some(run), LEDGER_WITHIN)?;
    Ok(reader.at_end(LEDGER_WITHIN)?)
}

/// A builder's part in a run.
struct Part {
    run: u64,
    task: Task,
    group: Group,
    threads: BTreeMap<u32, PartitionThread>,
    /// Partitions whose thread has ended: the last counts, and the time of the next claim.
    done: BTreeMap<u32, Done>,
}

struct Done {
    block: PartitionBlock,
    /// The partition is built; otherwise it may be claimed again at a time.
    is_built: bool,
    again: Instant,
}

impl Part {
    /// Builds until the run is over or the user stops the builder.
    fn work(&mut self, session: &mut Session) -> Result<(), NodeError> {
        loop {
            session.poll(LOOK)?;
            session.check_run(self.run)?;
            let is_over = session.state().run(self.run).is_some_and(RunRecord::is_over);
            if is_over || session.stop.is_over() {
                return Ok(());
            }
            self.follow_group();
            self.task.dead.set(session.dead_readouts());
            self.say_notes(session);
            self.collect(session)?;
            let (run, counts) = (self.run, self.counts());
            session.publish(|block| {
                block.run = run;
                block.builder = Some(counts);
            });
        }
    }

    /// Starts threads for new partitions, and ends those of partitions that others have now.
    fn follow_group(&mut self) {
        let mine = self.group.partitions(Duration::ZERO).clone();
        for (partition, thread) in &self.threads {
            if !mine.contains(partition) {
                thread.stop();
            }
        }
        for partition in mine {
            let waits = self
                .done
                .get(&partition)
                .is_some_and(|done| done.is_built || Instant::now() < done.again);
            if !waits && !self.threads.contains_key(&partition) {
                let thread = PartitionThread::start(self.task.clone(), partition);
                self.threads.insert(partition, thread);
            }
        }
    }

    /// Tells the user why checkpoints were not used or not saved, and why the filter failed.
    fn say_notes(&self, session: &mut Session) {
        let notes = self.threads.values().flat_map(PartitionThread::take_notes);
        notes.for_each(|note| session.say(&note));
        let mut reports = self.threads.values().map(PartitionThread::take_reports);
        // Every partition follows all sources, so one speaks for all. The others are emptied.
        let first = reports.next().unwrap_or_default();
        reports.for_each(drop);
        first.iter().for_each(|report| session.say(&format!("note: {report}")));
    }

    /// Takes the results of threads that have ended.
    fn collect(&mut self, session: &mut Session) -> Result<(), NodeError> {
        let ended: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.is_finished())
            .map(|(partition, _)| *partition)
            .collect();
        for partition in ended {
            // Its last sentences.
            self.say_notes(session);
            let Some(thread) = self.threads.remove(&partition) else { continue };
            let (block, again) = (thread.block(), Instant::now() + CLAIM_AGAIN);
            let result = thread.join();
            let is_built = matches!(result, Some(Ended::Built(_)));
            self.done.insert(partition, Done { block, is_built, again });
            match result {
                Some(Ended::Built(amended)) => {
                    let run = self.run;
                    session.control.append(&ControlRecord::Built { run, partition, amended })?;
                }
                Some(Ended::Left) => {
                    self.done.entry(partition).and_modify(|done| done.again = Instant::now());
                }
                Some(Ended::Again(reason)) => {
                    session.say(&format!("partition {partition}: {reason}; it is tried again"));
                }
                Some(Ended::Failed(error)) => return Err(NodeError::Build(error)),
                Some(Ended::Topic(error)) => return Err(error.into()),
                None => {
                    let reason = "its thread ended by a defect of the program".to_owned();
                    return Err(NodeError::Build(WorkError::Log(LogError::Away(reason))));
                }
            }
        }
        Ok(())
    }

    /// Ends all threads, each after the record at hand.
    fn stop_all(&mut self) {
        self.threads.values().for_each(PartitionThread::stop);
        while let Some((partition, thread)) = self.threads.pop_first() {
            while !thread.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let (block, again) = (thread.block(), Instant::now());
            drop(thread.join());
            self.done.insert(partition, Done { block, is_built: false, again });
        }
    }

    fn counts(&self) -> BuilderBlock {
        let mut partitions: BTreeMap<u32, PartitionBlock> =
            self.done.iter().map(|(partition, done)| (*partition, done.block.clone())).collect();
        for (partition, thread) in &self.threads {
            partitions.insert(*partition, thread.block());
        }
        BuilderBlock { partitions: partitions.into_values().collect() }
    }

    fn block(&self, session: &Session, error: Option<&NodeError>) -> NodeBlock {
        let state = if error.is_some() { NodeState::Failed } else { NodeState::Ended };
        let mut block = session.empty_block(state);
        block.run = self.run;
        block.builder = Some(self.counts());
        block.sentence = error.map(ToString::to_string).unwrap_or_default();
        block
    }
}

/// Makes the folder of this builder's run folders: `RUNS/CLUSTER-RUN-BUILDER`.
fn folder_of(session: &Session, run: &RunRecord) -> Result<Option<PathBuf>, NodeError> {
    if session.cluster.output == ClusterOutput::Topic {
        return Ok(None);
    }
    let name = format!("{}-{:04}-{}", session.cluster.name, run.number(), session.join.id);
    let folder = session.experiment.runs.join(name);
    match std::fs::create_dir_all(&folder) {
        Ok(()) => Ok(Some(folder)),
        Err(error) => {
            let folder = folder.display();
            let sentence = format!("the folder {folder} cannot be made ({error}).");
            Err(NodeError::Run(fluxline_run::Error::Failed(sentence)))
        }
    }
}

fn task_of(session: &Session, run: &RunRecord, folder: Option<PathBuf>) -> Result<Task, NodeError> {
    let experiment = &session.experiment;
    check_memory(experiment)?;
    let plan = RunPlan {
        run: run.number(),
        name: experiment.name.clone(),
        nodes: run.begin.readouts.len(),
        partitions: run.partitions(),
        builder: builder_config(experiment, &session.loaded)?,
    };
    let nodes = (0..).zip(&run.begin.readouts);
    let inputs = nodes.flat_map(|(node, name)| {
        let sources = experiment.sources_of(name).into_iter();
        let files = sources.filter(|at| experiment.sources[*at].is_file());
        files.map(move |at| (node, at as u16)).collect::<Vec<_>>()
    });
    let lines = source_lines(experiment, &session.loaded);
    let sink = SinkTask::of(experiment, &session.loaded, &lines, run).map(Arc::new);
    let formats = session.loaded.iter();
    let formats = formats.map(|of| (of.description.name().to_owned(), of.text.clone()));
    Ok(Task {
        settings: session.settings.clone(),
        cluster: session.cluster.name.clone(),
        plan,
        filter: session.filter.clone(),
        begins: (run.begin.fragments.clone(), run.begin.commits.clone()),
        files: inputs.collect(),
        builder: session.join.id.clone(),
        folder,
        has_topic: session.cluster.output != ClusterOutput::Files,
        formats: formats.collect(),
        inputs: lines,
        sink,
        experiment: serde_json::to_value(experiment).unwrap_or_default(),
        dead: DeadReadouts::default(),
        failed_saves: FailedSaves::default(),
    })
}
