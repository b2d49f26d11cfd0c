//! `fluxline run --node`: this process as one node of a cluster.

use fluxline_daq::experiment::Experiment;

use crate::failure::{Ending, Failure};

/// Runs a node through one run of its cluster.
#[cfg(feature = "kafka")]
pub fn run(
    experiment: Experiment,
    node: String,
    id: Option<String>,
    json: bool,
) -> Result<Ending, Failure> {
    use fluxline_daq::experiment::{BUILDER, check_node_name};
    use fluxline_kafka::cluster::session::NodeSetup;

    experiment.check_for_nodes().map_err(Failure::input)?;
    experiment
        .check_node_choice(&node)
        .map_err(|sentence| Failure::input(format_args!("{sentence}.")))?;
    if let Some(id) = &id {
        check_node_name(id).map_err(|sentence| Failure::input(format_args!("--id: {sentence}")))?;
    }
    let (is_builder, accept) = (node == BUILDER, experiment.accept.clone());
    let setup = NodeSetup {
        experiment,
        node,
        id,
        function: None,
        stop: fluxline_run::Stop::on_signal(crate::output::ended_at_once),
        say: Box::new(|sentence| crate::inform!("{}", crate::output::escaped_line(sentence))),
    };
    match is_builder {
        true => report::builder(setup, &accept, json),
        false => report::readout(setup, &accept, json),
    }
}

/// Refuses: this program was built without Kafka.
#[cfg(not(feature = "kafka"))]
pub fn run(
    experiment: Experiment,
    node: String,
    id: Option<String>,
    _json: bool,
) -> Result<Ending, Failure> {
    let _ = (experiment, id);
    Err(Failure::failed(format_args!(
        "node `{node}` was not started: this program was built without Kafka; build it with `cargo \
         build --release --features kafka`."
    )))
}

#[cfg(feature = "kafka")]
mod report {
    use std::path::Path;

    use fluxline_daq::experiment::{CLOCK_APART, UNDECIDED, accepts};
    use fluxline_kafka::build::{LogError, WorkError};
    use fluxline_kafka::cluster::builder::{BuilderReport, build};
    use fluxline_kafka::cluster::readout::{ReadoutReport, read_out};
    use fluxline_kafka::cluster::session::{NodeError, NodeSetup};
    use fluxline_kafka::cluster::{
        BuilderBlock, LedgerError, PartitionCounters, ReadoutBlock, ReadoutCounters,
    };
    use serde_json::{Value, json};

    use super::super::cluster_ledger;
    use crate::failure::{self, Ending, Failure, status_of};
    use crate::say;

    /// Counters of a readout node whose packets are lost, and do not reach a builder.
    const LOST: [&str; 7] = [
        "ring_full",
        "truncated",
        "socket_dropped",
        "rejected",
        "sources_refused",
        "memory_full",
        "late",
    ];

    /// Reads out, and prints the counts.
    pub fn readout(setup: NodeSetup, accept: &[String], json: bool) -> Result<Ending, Failure> {
        let Some(report) = read_out(setup).map_err(failure)? else { return Ok(not_begun(json)) };
        let ReadoutReport { block, faults } = report;
        let readout = block.readout.unwrap_or_default();
        let counters = &readout.counters;
        let look = look(counters, &faults, accept).or_else(|| wrong_times(&readout, accept));
        let status = status_of(look.as_ref());
        Ok(failure::report(look.as_ref(), json, || {
            if json {
                super::super::print_json(&json!({
                    "run": block.run, "node": block.node, "start": block.start, "status": status,
                    "counters": rows(&mut counters.rows().map(|(row, count)| (row.name, count))),
                    "faults": faults,
                }));
                return;
            }
            say!("run {}, node `{}`: its part has ended", block.run, block.node);
            for (row, count) in counters.rows().filter(|of| of.1 > 0) {
                say!("{count:>15}  {}", row.help);
            }
        }))
    }

    /// Returns the reasons why received packets are not in the log.
    fn look(counters: &ReadoutCounters, faults: &[String], accept: &[String]) -> Option<Failure> {
        let lost = counters.rows().filter(|(row, count)| {
            *count > 0 && LOST.contains(&row.name) && !accepts(accept, row.name)
        });
        let mut reasons: Vec<String> =
            lost.map(|(row, count)| format!("{} {count}", row.name.replace('_', " "))).collect();
        reasons.extend(faults.iter().cloned());
        (!reasons.is_empty()).then(|| {
            Failure::look(format_args!(
                "received datagrams are not in the topic of fragments ({}).",
                reasons.join(", ")
            ))
        })
    }

    /// Returns the reason when the clock of this machine drifted.
    fn wrong_times(readout: &ReadoutBlock, accept: &[String]) -> Option<Failure> {
        let sentence = readout.wrong_times("packets").filter(|_| !accepts(accept, CLOCK_APART))?;
        Some(Failure::look(format_args!("{sentence}.")))
    }

    /// Builds, and prints the counts.
    pub fn builder(setup: NodeSetup, accept: &[String], json: bool) -> Result<Ending, Failure> {
        let Some(report) = build(setup).map_err(failure)? else { return Ok(not_begun(json)) };
        let BuilderReport { block, folder, is_over, ledger } = report;
        let counts = block.builder.unwrap_or_default();
        let total = total_of(&counts);
        let look = match &ledger {
            Some(Ok(ledger)) => cluster_ledger::verdict(ledger),
            Some(Err(error)) => Some(unread(block.run, &block.cluster, error)),
            None => lost_records(&total).or_else(|| undecided(&total, accept)),
        };
        let closing = ledger.and_then(Result::ok).map(|ledger| ledger.closing());
        let status = status_of(look.as_ref());
        Ok(failure::report(look.as_ref(), json, || {
            let folder = folder.as_deref().map(Path::display);
            if json {
                super::super::print_json(&json!({
                    "run": block.run, "builder": block.id, "over": is_over, "status": status,
                    "folder": folder.map(|path| path.to_string()),
                    "partitions": counts.partitions.iter().map(|of| of.partition)
                        .collect::<Vec<_>>(),
                    "counters": rows(&mut total.rows().map(|(row, count)| (row.name, count))),
                }));
                return;
            }
            let state = if is_over { "the run is over" } else { "this builder has left the run" };
            say!("run {}, builder `{}`: {state}", block.run, block.id);
            for (row, count) in total.rows().filter(|of| of.1 > 0) {
                say!("{count:>15}  {}", row.help);
            }
            if let Some(closing) = closing {
                say!("all nodes: {}", closing.trim_end());
            }
            if let Some(folder) = folder {
                say!("Next: fluxline gather {folder} --from kafka://BROKERS/CLUSTER --into FOLDER");
            }
        }))
    }

    /// Returns the sentence about a ledger that could not be read.
    fn unread(run: u64, cluster: &str, error: &LedgerError) -> Failure {
        Failure::look(format_args!(
            "all events of run {run} are committed, but the counts of the other nodes cannot be \
             read ({error}); `fluxline inspect kafka://BROKERS/{cluster} --run {run}` shows them."
        ))
    }

    fn total_of(counts: &BuilderBlock) -> PartitionCounters {
        let mut total = PartitionCounters::default();
        counts.partitions.iter().for_each(|of| total.merge(&of.counters));
        total
    }

    /// Returns the sentence about records that are lost.
    fn lost_records(total: &PartitionCounters) -> Option<Failure> {
        let lost = total.records_missing + total.records_torn;
        (lost > 0).then(|| {
            Failure::look(format_args!(
                "{} records of packets are missing in the topic of fragments and {} are damaged; \
                 `fluxline inspect` names the packets.",
                total.records_missing, total.records_torn
            ))
        })
    }

    /// Returns the sentence about events on which the filter failed.
    fn undecided(total: &PartitionCounters, accept: &[String]) -> Option<Failure> {
        let count = total.events_undecided;
        (count > 0 && !accepts(accept, UNDECIDED)).then(|| {
            Failure::look(format_args!(
                "the filter failed on {count} events; they are recorded, and `missing` says \
                 \"filter: no decision\"."
            ))
        })
    }

    fn rows(rows: &mut dyn Iterator<Item = (&'static str, u64)>) -> Value {
        Value::Object(rows.map(|(name, count)| (name.to_string(), count.into())).collect())
    }

    /// The user stopped the node before a run began.
    fn not_begun(json: bool) -> Ending {
        match json {
            true => super::super::print_json(&json!({ "run": Value::Null, "status": 0 })),
            false => say!("stopped before a run began."),
        }
        Ending::Well
    }

    fn failure(error: NodeError) -> Failure {
        let sentence = format!("{}.", error.to_string().trim_end_matches('.'));
        match error {
            NodeError::Run(error) => error.into(),
            NodeError::Topic(_)
            | NodeError::Away(_)
            | NodeError::Build(WorkError::Log(LogError::Refused(_))) => Failure::link(sentence),
            NodeError::Build(WorkError::Output { .. }) => Failure::recording(sentence),
            NodeError::RecordsRefused { .. }
            | NodeError::GaveUp(_)
            | NodeError::Abandoned { .. }
            | NodeError::Build(WorkError::Log(LogError::Hole { .. })) => Failure::look(sentence),
            _ => Failure::failed(sentence),
        }
    }
}
