//! The commits of a cluster's run, which decide what counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use serde_json::{Value, json};

use super::{GatherError, RunCommits};
use crate::build::LogError;
use crate::build::commits::{CommitList, read_commit};
use crate::client::{TopicError, check_topic, config, text_of, wrong_settings};
use crate::cluster::control::{ControlState, RunRecord};
use crate::cluster::control_log::ControlLog;
use crate::cluster::record::{Begin, ControlRecord};
use crate::cluster::{ClusterLedger, ClusterVerdict, LedgerReader, PartitionCounters};
use crate::identity::cluster_run_id;
use crate::reading::PartitionReader;
use crate::settings::Settings;
use fluxline_cluster::AmendedSource;

/// Time for the newest blocks of a run's nodes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for nodes that died to count as dead.
const LAST_COUNTS: Duration = Duration::from_secs(5);

/// The commits of a run, and the time of each partition's first one.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// The commits.
    pub commits: RunCommits,
    /// Time of the first commit by partition \[ms since 1970\].
    pub began_ms: BTreeMap<u32, i64>,
    /// Records that are not commits of a builder.
    pub foreign: u64,
}

pub(super) fn broker(error: &dyn std::fmt::Display) -> GatherError {
    GatherError::Broker(error.to_string())
}

/// Reads the commits of run `run` of a cluster; without a number, those of the newest run.
///
/// Errors: no broker, no topic, no such run, a run that goes on, contradicting commits.
pub fn committed(
    settings: &Settings,
    cluster: &str,
    run: Option<u64>,
) -> Result<Committed, GatherError> {
    let control = ControlLog::open_of(settings, cluster).map_err(|error| broker(&error))?;
    let begin = ended_run(control.state(), cluster, run)?;
    let mut committed = committed_from(settings, cluster, begin.run, &begin.commits)?;
    let commits = &mut committed.commits;
    // A run that is old may have lost its counts; its events are there.
    let reader = LedgerReader::open(settings, cluster, Some(begin.run), PATIENCE).ok();
    let ledger = reader.and_then(|mut reader| reader.at_end(LAST_COUNTS).ok());
    commits.look = ledger.as_ref().and_then(look);
    commits.look_of_folders = ledger.clone().and_then(|mut ledger| {
        ledger.committed.refused = 0;
        look(&ledger)
    });
    let totals = ledger.map(|ledger| ledger.partition_totals());
    if let Some(run) = control.state().run(begin.run) {
        commits.about = about(run, totals.as_ref());
        commits.abandoned = run.abandoned;
        commits.run_id = cluster_run_id(cluster, begin.run, run.begin.at_ns);
    }
    commits.amended = amended(settings, cluster, begin.run)?;
    Ok(committed)
}

/// Returns the status and the sentence of a run that needs a look.
fn look(ledger: &ClusterLedger) -> Option<(u8, String)> {
    match ledger.verdict() {
        ClusterVerdict::LedgerOpen(sentence) => Some((4, sentence)),
        ClusterVerdict::LookNeeded(sentence) => Some((7, sentence)),
        ClusterVerdict::Complete | ClusterVerdict::Running(_) => None,
    }
}

/// Reads the amendments of all partitions, which their builders have stated at the end.
fn amended(
    settings: &Settings,
    cluster: &str,
    run: u64,
) -> Result<Vec<AmendedSource>, GatherError> {
    let topic = format!("{cluster}.control");
    let (mut built, mut amended) = (BTreeSet::new(), BTreeSet::new());
    let reader = PartitionReader::open(settings, &topic, 0);
    let read = reader.and_then(|reader| {
        reader.read(0, |record| match ControlRecord::read(&record.value) {
            // The first record of a partition is valid.
            Some(ControlRecord::Built { run: its, partition, amended: of_partition })
                if its == run && built.insert(partition) =>
            {
                amended.extend(of_partition);
            }
            _ => {}
        })
    });
    read.map_err(|error| unreadable(&topic, 0, &error))?;
    Ok(amended.into_iter().collect())
}

/// Returns the parts of run.json that are not in the events: the operators' requests, and the
/// counts of the filter and of pauses.
fn about(run: &RunRecord, totals: Option<&PartitionCounters>) -> Value {
    let paused = |at: usize| if at.is_multiple_of(2) { "paused" } else { "running" };
    let first = (run.begin.at_ns, "running");
    let changes = run.pauses.iter().enumerate().map(|(at, at_ns)| (*at_ns, paused(at)));
    let states = std::iter::once(first).chain(changes);
    let states = states.map(|(at_ns, state)| json!({ "at_ns": at_ns, "state": state }));
    let remarks = run.notes.iter().map(|(at_ns, text)| json!({ "at_ns": at_ns, "text": text }));
    json!({
        "control": {
            "shot": run.shot, "states": states.collect::<Vec<_>>(),
            "remarks": remarks.collect::<Vec<_>>(),
        },
        "left_out": totals.map(|totals| json!({
            "filtered": totals.filtered, "not_recorded": totals.not_recorded,
            "filter": {
                "events_kept": totals.events_kept, "events_filtered": totals.events_filtered,
                "events_undecided": totals.events_undecided,
                "events_marked": totals.events_marked, "late_filtered": totals.late_filtered,
            },
        })),
    })
}

/// Reads the commits of a run that begin at these offsets, one for each partition.
///
/// Errors: as [`committed`].
pub fn committed_from(
    settings: &Settings,
    cluster: &str,
    run: u64,
    begins: &[u64],
) -> Result<Committed, GatherError> {
    let topic = format!("{cluster}.commits");
    let found = partitions_of(settings, &topic).map_err(|error| broker(&error))?;
    // Partitions that somebody added later are those of later runs.
    if (found as usize) < begins.len() {
        return Err(GatherError::Broker(format!(
            "topic `{topic}` has {found} partitions, and run {run} had {}: somebody made the topic \
             anew, so the commits of the run are gone",
            begins.len()
        )));
    }
    let commits = RunCommits { run, ..RunCommits::default() };
    let mut committed = Committed { commits, ..Committed::default() };
    for (partition, begin) in (0..).zip(begins) {
        let mut list = CommitList::new(run, partition);
        let (mut wrong, mut began) = (Ok(()), None);
        let open = PartitionReader::open(settings, &topic, partition);
        let reader = open.map_err(|error| unreadable(&topic, partition, &error))?;
        if reader.first > *begin {
            let (topic, first) = (topic.clone(), reader.first);
            return Err(broker(&LogError::CommitsGone { topic, partition, first }));
        }
        let read = reader.read(*begin, |record| {
            let is_its = read_commit(partition, &record.key, &record.value)
                .is_some_and(|commit| commit.0 == run);
            began = began.or(is_its.then_some(record.time_ms));
            if wrong.is_ok() {
                wrong = list.take(&record.key, &record.value);
            }
        });
        read.map_err(|error| unreadable(&topic, partition, &error))?;
        wrong.map_err(|error| broker(&error))?;
        committed.foreign += list.foreign();
        let commits = list.into_commits();
        if !commits.is_empty() {
            committed.began_ms.extend(began.map(|began| (partition, began)));
            committed.commits.partitions.insert(partition, commits);
        }
    }
    Ok(committed)
}

/// Returns the beginning of a run that has ended.
fn ended_run(state: &ControlState, cluster: &str, run: Option<u64>) -> Result<Begin, GatherError> {
    let wanted = match run {
        Some(number) => state.run(number),
        None => state.runs().last(),
    };
    let known = || {
        let numbers: Vec<String> =
            state.runs().iter().rev().take(8).map(|run| run.number().to_string()).collect();
        if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
    };
    let unknown = || {
        let run = run.map_or("a run".to_owned(), |run| format!("run {run}"));
        GatherError::Broker(format!(
            "cluster {cluster} does not have {run}; its newest runs: {}",
            known()
        ))
    };
    let wanted = wanted.ok_or_else(unknown)?;
    match wanted.is_over() {
        true => Ok(wanted.begin.clone()),
        false => Err(GatherError::Broker(format!(
            "run {} of cluster {cluster} goes on: {} of {} partitions are built; gather it when it \
             has ended (`fluxline inspect kafka://…/{cluster}` shows it)",
            wanted.number(),
            wanted.built.len(),
            wanted.partitions()
        ))),
    }
}

pub(super) fn unreadable(topic: &str, partition: u32, error: &KafkaError) -> GatherError {
    GatherError::Broker(format!(
        "partition {partition} of topic `{topic}` cannot be read ({})",
        text_of(error)
    ))
}

pub(super) fn partitions_of(settings: &Settings, topic: &str) -> Result<u32, TopicError> {
    let consumer: BaseConsumer =
        config(settings).create().map_err(|error| wrong_settings(&error))?;
    Ok(check_topic(consumer.client(), settings, topic)? as u32)
}
