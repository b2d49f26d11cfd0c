//! The readout process: packets of its sources in, records for the builders out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fluxline_core::Span;
use fluxline_daq::ledger::{InputCounters, RemoteWriteCounters};
use fluxline_run::{EndedInputs, Inputs, builder_config, start_inputs, try_links};

use super::block::{NodeBlock, NodeState, ReadoutBlock};
use super::control::RunRecord;
use super::drift::ClockNotes;
use super::record::ControlRecord;
use super::session::{NodeError, NodeSetup, Session};
use super::taker::{NodeTaker, SharedState, TakerState};
use crate::build::deliveries::Refusal;
use crate::build::kafka::KafkaLog;
use crate::build::{Log, LogError};
use crate::changed::PartitionsChanged;
use fluxline_cluster::{NodeConfig, ReadoutNode};

/// Size at which a record is sent \[byte\].
const RECORD_BYTES: usize = 512 << 10;
/// Age at which records are sent, with the low-water mark.
const RECORD_AGE: Span = Span::from_ms(50);
/// Time between two looks at the control topic.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two sentences about brokers that are away.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// The end of a readout node's part in a run.
#[derive(Clone, Debug)]
pub struct ReadoutReport {
    /// The node's last block of counts.
    pub block: NodeBlock,
    /// Inputs that ended before the run did, a sentence each.
    pub faults: Vec<String>,
}

/// Runs a readout node through one run. `None`: the user stopped it before a run began.
///
/// Errors: [`NodeError`].
pub fn read_out(setup: NodeSetup) -> Result<Option<ReadoutReport>, NodeError> {
    let mut session = Session::join(setup)?;
    let sources = session.experiment.sources_of(&session.join.node);
    try_links(&session.experiment, &session.loaded, &sources)?;
    let Some(run) = session.wait_for_run()? else { return Ok(None) };
    let mut part = Part::begin(&mut session, &run, &sources)?;
    part.work(&mut session)?;
    part.end(&mut session).map(Some)
}

/// A readout node's part in a run.
struct Part {
    run: u64,
    start: u32,
    inputs: Inputs<NodeTaker>,
    taker: SharedState,
    /// A refusal of the brokers was reported.
    said_refusal: bool,
    /// Number of pauses and resumptions of the run, for the readout's thread.
    changes: Arc<AtomicU32>,
}

impl Part {
    fn begin(session: &mut Session, run: &RunRecord, sources: &[usize]) -> Result<Part, NodeError> {
        let name = session.join.node.clone();
        let number = run.number();
        let log = KafkaLog::open(&session.settings, &session.cluster.name, number)?;
        let (expected, found) = (run.partitions(), log.partitions());
        if expected != found {
            let changed = PartitionsChanged { run: number, expected, found };
            return Err(LogError::from(changed).into());
        }
        session.begin_clock();
        let start = run.readouts.get(&name).map_or(0, |readout| readout.start);
        let config = NodeConfig {
            run: number,
            node: run.number_of(&name).unwrap_or_default(),
            start,
            mode: builder_config(&session.experiment, &session.loaded)?.mode,
            record_bytes: RECORD_BYTES,
            record_age: RECORD_AGE,
            memory_bytes: session.cluster.memory_bytes as usize,
        };
        // All inputs of the experiment, so that labels and keys are those of one machine.
        let pairs = session.experiment.sources.iter().zip(&session.loaded);
        let inputs = pairs.map(|(source, of)| (source.name.clone(), of.description.clone()));
        let node = ReadoutNode::new(config, inputs.collect(), found);
        let taker = NodeTaker::new(node, log, &session.experiment, session.join.reads_files);
        let (state, changes) = (taker.state(), taker.changes());
        changes.store(run.pauses.len() as u32, Ordering::Relaxed);
        // A node that dies from here on has a block, so the ledger names its death.
        publish(session, number, start, state.get().block);
        let (experiment, loaded) = (&session.experiment, &session.loaded);
        let inputs = start_inputs(experiment, loaded, sources, taker, &session.stop)?;
        let again = match start {
            0 => String::new(),
            start => format!(", start {start} of this node"),
        };
        session.say(&format!("run {number} goes on: node `{name}` reads out{again}"));
        for input in inputs.plan() {
            let on = if input.listens.is_empty() { "" } else { " on " };
            session.say(&format!("source {}{on}{}", input.name, input.listens.join(", ")));
            if let Some(key) = input.drawn_key {
                session.say(&format!("key {key}, drawn for this run: give it to the producer"));
            }
        }
        Ok(Part { run: number, start, inputs, taker: state, said_refusal: false, changes })
    }

    /// Reads out until the inputs end, the run is stopped, or the user stops the node.
    fn work(&mut self, session: &mut Session) -> Result<(), NodeError> {
        let (mut noted, mut clock) = (0, ClockNotes::default());
        while !self.inputs.is_finished() {
            let looked = session.poll(LOOK).and_then(|()| self.check(session));
            let counts = match looked.and_then(|()| self.counts(session)) {
                Ok(counts) => counts,
                Err(error) => {
                    self.inputs.stop();
                    return Err(error);
                }
            };
            let notes = self.inputs.notes(noted);
            noted += notes.len();
            notes.iter().for_each(|note| session.say(&format!("note: {note}")));
            clock.look(&counts).iter().for_each(|note| session.say(&format!("note: {note}")));
            publish(session, self.run, self.start, counts);
        }
        Ok(())
    }

    /// Follows the run's state.
    fn check(&self, session: &Session) -> Result<(), NodeError> {
        session.check_run(self.run)?;
        let Some(run) = session.state().run(self.run) else { return Ok(()) };
        self.changes.store(run.pauses.len() as u32, Ordering::Relaxed);
        if run.stopped {
            self.inputs.stop();
        }
        let readout = run.readouts.get(&session.join.node);
        if run.is_over() || readout.is_some_and(|its| its.ended) {
            let (node, run) = (session.join.node.clone(), self.run);
            return Err(NodeError::EndedByOperator { node, run });
        }
        Ok(())
    }

    /// Returns the counts of now, and reports records that the brokers refused.
    ///
    /// Errors: the log takes nothing any more.
    fn counts(&mut self, session: &mut Session) -> Result<ReadoutBlock, NodeError> {
        let TakerState { mut block, refusal, fatal } = self.taker.get();
        if let Some(Refusal { reason, remedy }) = refusal.filter(|_| !self.said_refusal) {
            self.said_refusal = true;
            let topic = session.cluster.topic("fragments");
            session.say(&format!(
                "note: the brokers refuse records of packets ({reason}), which are lost; topic \
                 `{topic}`: {remedy}"
            ));
        }
        match fatal {
            Some(reason) => return Err(NodeError::GaveUp(reason)),
            None if session.join.reads_files => {}
            None => block.clock_ahead_ms = session.clock_ahead_ms(),
        }
        Ok(block)
    }

    /// Waits until the brokers have all records, then leaves the run.
    fn end(self, session: &mut Session) -> Result<ReadoutReport, NodeError> {
        let Part { run, start, inputs, taker: state, .. } = self;
        let EndedInputs { mut taker, inputs, faults } = inputs.wait()?;
        hand_over_all(&mut taker, session, run, start)?;
        let (mut total, mut remote) = (InputCounters::default(), RemoteWriteCounters::default());
        for input in inputs {
            remote.merge(&input.remote);
            let mut counters = input.counters;
            if input.filled_elsewhere {
                (counters.datagrams, counters.bytes) = taker.taken(input.number);
            }
            total.merge(&counters);
        }
        taker.publish();
        let deliveries = taker.log().deliveries();
        let mut block = session.empty_block(NodeState::Ended);
        let mut readout = state.get().block;
        if !session.join.reads_files {
            readout.clock_ahead_ms = session.clock_ahead_ms();
        }
        total.truncated += readout.counters.truncated;
        readout.set_inputs(&total, remote);
        readout.add_faults(&faults);
        (block.run, block.start, block.readout) = (run, start, Some(readout));
        let error = deliveries.refusal().map(|refusal| NodeError::RecordsRefused {
            records: deliveries.refused(),
            topic: session.cluster.topic("fragments"),
            reason: refusal.reason,
            remedy: refusal.remedy,
        });
        if let Some(error) = &error {
            (block.state, block.sentence) = (NodeState::Failed, error.to_string());
        }
        let (node, incarnation) = (session.join.node.clone(), session.join.incarnation);
        session.control.append(&ControlRecord::Finished { run, node, incarnation })?;
        session.publish_last(&mut block)?;
        error.map_or(Ok(ReadoutReport { block, faults }), Err)
    }
}

/// Waits until the brokers have all records. Meanwhile the node publishes its counts: without them
/// it would count as dead, and events would go on without its backlog.
fn hand_over_all(
    taker: &mut NodeTaker,
    session: &mut Session,
    run: u64,
    start: u32,
) -> Result<(), NodeError> {
    let mut said = Instant::now();
    while !(taker.hand_over() && taker.log().flush(Duration::from_millis(200)).is_ok()) {
        session.poll(Duration::ZERO)?;
        session.check_run(run)?;
        taker.publish();
        let TakerState { block: counts, fatal, .. } = taker.state().get();
        if let Some(reason) = fatal {
            return Err(NodeError::GaveUp(reason));
        }
        publish(session, run, start, counts);
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            session.say(
                "the brokers have not taken the last records yet; a second Ctrl-C gives the \
                 records up",
            );
        }
    }
    Ok(())
}

/// Publishes counts of a readout node if they are due.
fn publish(session: &mut Session, run: u64, start: u32, counts: ReadoutBlock) {
    session.publish(|block| {
        (block.run, block.start, block.readout) = (run, start, Some(counts));
    });
}
