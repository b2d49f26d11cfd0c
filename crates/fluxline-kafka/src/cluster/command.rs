//! Requests of an operator to a cluster: begin, stop, annotate a run, end a node that died.

use std::time::Duration;

use fluxline_core::Moment;

use super::control::RunRecord;
use super::control_log::ControlLog;
use super::record::ControlRecord;
use super::session::begin_of;
use super::topics;
use crate::ClusterAddress;
use crate::build::kafka::KafkaLog;
use crate::build::{Log, LogError};
use crate::client::TopicError;
use crate::settings::Settings;
use fluxline_cluster::RecordHead;
use fluxline_cluster::entry::RecordWriter;

/// Time for the brokers to take the end records of a node.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCommand {
    /// Begins a run.
    Start,
    /// Asks the readout nodes to finish; the run ends when builders have built everything.
    Stop,
    /// Interrupts recording: events are built and counted.
    Pause,
    /// Goes on recording.
    Resume,
    /// Sets the shot number of the run.
    Shot(u64),
    /// Adds a note to the run.
    Note(String),
    /// Ends a readout node that will not come back.
    End(String),
    /// Ends a run that cannot be built to its end.
    Abandon(u64),
}

/// The reason why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A topic cannot be used.
    #[error("{0}")]
    Topic(#[from] TopicError),
    /// The brokers are away.
    #[error("{0}")]
    Away(#[from] LogError),
    /// The cluster's state does not allow it.
    #[error("{0}")]
    Refused(String),
}

/// Carries a request out; returns a sentence with the result.
///
/// Errors: [`CommandError`].
pub fn command(
    settings: &Settings,
    address: &ClusterAddress,
    command: &ClusterCommand,
) -> Result<String, CommandError> {
    let mut control = ControlLog::open_of(settings, &address.cluster)?;
    if *command == ClusterCommand::Start {
        return start(settings, address, &mut control);
    }
    let cluster = &address.cluster;
    let Some(run) = control.state().open_run().cloned() else {
        let sentence = format!(
            "cluster {cluster} has no run that goes on; `fluxline ctl kafka://{}/{cluster} status` \
             shows its state",
            address.brokers
        );
        return Err(CommandError::Refused(sentence));
    };
    let number = run.number();
    match command {
        ClusterCommand::Start => Ok(String::new()),
        ClusterCommand::Stop => {
            control.append(&ControlRecord::Stop { run: number })?;
            Ok(format!("run {number}: its readout nodes finish now, then the builders"))
        }
        ClusterCommand::Pause => pause(&mut control, &run, true),
        ClusterCommand::Resume => pause(&mut control, &run, false),
        ClusterCommand::Shot(shot) => {
            control.append(&ControlRecord::Shot { run: number, shot: *shot })?;
            Ok(format!("run {number} has shot number {shot}"))
        }
        ClusterCommand::Note(text) => note(&mut control, number, text),
        ClusterCommand::Abandon(wanted) if *wanted != number => {
            let sentence = format!("run {wanted} does not go on: run {number} does");
            Err(CommandError::Refused(sentence))
        }
        ClusterCommand::Abandon(_) => {
            control.append(&ControlRecord::Abandon { run: number })?;
            Ok(format!(
                "run {number} is abandoned: all its nodes end; `fluxline inspect \
                 kafka://{}/{cluster} --run {number}` shows the packets that are in no event",
                address.brokers
            ))
        }
        ClusterCommand::End(node) => end_node(settings, address, &mut control, &run, node),
    }
}

fn start(
    settings: &Settings,
    address: &ClusterAddress,
    control: &mut ControlLog,
) -> Result<String, CommandError> {
    let refused = |sentence: String| Err(CommandError::Refused(sentence));
    if let Some(run) = control.state().open_run() {
        return refused(format!("run {} goes on already; stop it first", run.number()));
    }
    if let Err(missing) = control.state().next_run() {
        return refused(format!(
            "a run needs every readout node; missing: {}; start them with `fluxline run \
             EXPERIMENT --node NODE`",
            missing.join(", ")
        ));
    }
    let partitions = topics::partitions_of(settings, &format!("{}.fragments", address.cluster))?;
    if let Some(record) = begin_of(settings, &address.cluster, control.state(), partitions)? {
        control.append(&record)?;
    }
    match control.state().open_run() {
        Some(run) => Ok(format!("run {} has begun", run.number())),
        None => {
            refused("the nodes changed meanwhile; look at the status, and try again".to_owned())
        }
    }
}

/// Pauses or resumes a run. A request whose state is there already changes nothing, so that two
/// operators can give the same one.
fn pause(control: &mut ControlLog, run: &RunRecord, pauses: bool) -> Result<String, CommandError> {
    let (number, at_ns) = (run.number(), fluxline::clock::now().as_ns());
    let (word, record) = match pauses {
        true => ("pause", ControlRecord::Pause { run: number, at_ns }),
        false => ("resume", ControlRecord::Resume { run: number, at_ns }),
    };
    if !run.stopped && run.is_paused() != pauses {
        control.append(&record)?;
    }
    let is_done = |run: &RunRecord| !run.stopped && run.is_paused() == pauses;
    match control.state().run(number) {
        Some(run) if is_done(run) => Ok(match pauses {
            true => format!("run {number} is paused: events are counted, and not recorded"),
            false => format!("run {number} goes on: events are recorded"),
        }),
        run => {
            let state = run.map_or("ended", RunRecord::state);
            let sentence = format!("run {number} is {state}, so `{word}` is refused");
            Err(CommandError::Refused(sentence))
        }
    }
}

fn note(control: &mut ControlLog, run: u64, text: &str) -> Result<String, CommandError> {
    const NOTE_BYTES_MAX: usize = 4096;
    let text = text.trim().to_owned();
    if text.is_empty() || text.len() > NOTE_BYTES_MAX {
        let sentence =
            format!("the note has {} bytes; write 1 to {NOTE_BYTES_MAX} bytes of text", text.len());
        return Err(CommandError::Refused(sentence));
    }
    let at_ns = fluxline::clock::now().as_ns();
    control.append(&ControlRecord::Note { run, text, at_ns })?;
    Ok(format!("run {run} has the note"))
}

/// Ends a node, and writes its end records to every partition. It may be repeated: builders take
/// the records of each start once.
fn end_node(
    settings: &Settings,
    address: &ClusterAddress,
    control: &mut ControlLog,
    run: &RunRecord,
    node: &str,
) -> Result<String, CommandError> {
    let number = run.number();
    let Some(place) = run.number_of(node) else {
        let names = run.begin.readouts.join(", ");
        let sentence = format!("run {number} has no readout node `{node}`; it has {names}");
        return Err(CommandError::Refused(sentence));
    };
    let start = Some(run.readouts.get(node).map_or(0, |its| its.start) + 1);
    control.append(&ControlRecord::EndNode { run: number, node: node.to_owned(), start })?;
    let run = control.state().open_run().filter(|run| run.number() == number);
    let readout = run.and_then(|run| run.readouts.get(node)).filter(|its| its.ended);
    let (Some(run), Some(readout)) = (run, readout) else {
        return Err(CommandError::Refused(format!("run {number} has ended meanwhile")));
    };
    let start = readout.start;
    let mut log = KafkaLog::open(settings, &address.cluster, number)?;
    for partition in 0..log.partitions() {
        let head = RecordHead {
            run: number,
            node: place,
            start,
            sequence: 0,
            packets_before: 0,
            packets: 0,
            mark: Moment::default(),
            changes: run.pauses.len() as u32,
            is_end: true,
            is_absence: false,
        };
        log.append(partition, &RecordWriter::default().finish(&head))?;
    }
    log.flush(TAKEN_WITHIN)?;
    Ok(format!("node `{node}` has ended in run {number}; builders go on without it"))
}
