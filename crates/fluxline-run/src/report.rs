//! The report of a run: its ledger, its verdict, and run.json.

use std::path::PathBuf;

use fluxline::kernel::KernelSnapshot;
use fluxline_core::Moment;
use fluxline_daq::experiment::Experiment;
use fluxline_daq::ledger::{HostCounters, InputEntry, Ledger, Outcome, Truth};
use fluxline_daq::record::{EndReserve, FolderError, RunFolder};
use serde_json::{Value, json};

use crate::built::Built;
use crate::control::Control;
use crate::health::Kept;
use crate::host;
use crate::journey::Journeys;
use crate::judged;
use crate::plan::{Plan, PlannedInput};
use crate::record::Recorded;
use crate::requirements::{self, Checked};
use crate::sample::Delays;
use crate::silence::{Silence, SilentSource};
use crate::source::InputEnd;
use crate::verdict::{Evidence, Verdict};

/// Returns the run.json of a running experiment, which stays after a crash.
pub(crate) fn beginning(experiment: &Experiment, node: Option<&str>) -> Value {
    let mut document = json!({
        "state": "running",
        "fluxline": env!("CARGO_PKG_VERSION"),
        "began_ns": fluxline::clock::now().as_ns(),
        "host": host::describe(),
        "clock": { "began": host::clock() },
        "experiment": experiment,
    });
    // So that the folder of a node that is killed says whose it is.
    if let Some(node) = node {
        document["node"] = node.into();
    }
    document
}

/// The folder of a run, and the space of its last run.json.
#[derive(Debug)]
pub(crate) struct RunEnding {
    pub folder: RunFolder,
    pub reserve: EndReserve,
    /// The only node of this process, where the run has several.
    pub node: Option<String>,
}

/// The results of all threads.
pub(crate) struct Ended {
    pub began: Moment,
    /// The discipline of the clock at the start.
    pub clock: Value,
    pub ended: Moment,
    pub inputs: Vec<InputEnd>,
    pub built: Built,
    pub recorded: Recorded,
    pub host: KernelSnapshot,
    pub notes: Vec<String>,
    pub faults: Vec<String>,
    pub control: Control,
    pub kept: Kept,
    /// Its part of run.json; `None`: the run took no slow control values.
    pub slow: Option<Value>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Report {
    /// The closed ledger.
    pub ledger: Ledger,
    /// The content of run.json.
    pub document: Value,
    /// The verdict on the run.
    pub verdict: Verdict,
    /// Sources that fell silent while others went on.
    pub silent_sources: Vec<SilentSource>,
    /// Problems that a user should see, each once.
    pub notes: Vec<String>,
    /// The sentences of the alarms that the run had, warnings left out.
    pub alarms: Vec<String>,
    /// The delays of all events; `None` where packets come from files, with times of another day.
    pub delays: Option<Delays>,
    /// The requirements of the experiment, each met, missed or undecided.
    pub requirements: Vec<Checked>,
    /// The run folder; `None` when nothing was recorded.
    pub folder: Option<PathBuf>,
}

impl Report {
    /// Closes the ledger and writes run.json; where that fails, the report says so.
    pub(crate) fn close(
        experiment: &Experiment,
        end: Option<RunEnding>,
        plan: &Plan,
        ended: Ended,
    ) -> Report {
        let mut ledger = ledger_of(experiment, &ended);
        let silence = Silence::of_ledger(&ledger, |input| is_live(experiment, input));
        let mut verdict = verdict_of(experiment, &ledger, &ended, &silence, &plan.inputs);
        let node = end.as_ref().and_then(|end| end.node.as_deref());
        let mut document = beginning(experiment, node);
        let path = end.as_ref().map(|end| end.folder.path().to_path_buf());
        let state = match (&ended.recorded.fault, &path) {
            (Some(_), _) => "recording-stopped",
            (None, Some(_)) => "finished",
            (None, None) => "not-recorded",
        };
        document["state"] = state.into();
        document["began_ns"] = ended.began.as_ns().into();
        document["clock"] = json!({ "began": ended.clock, "ended": host::clock() });
        document["ended_ns"] = ended.ended.as_ns().into();
        document["folder"] = path.as_ref().map(|path| path.display().to_string()).into();
        put_verdict(&mut document, &verdict);
        document["silent_sources"] = silence.sources.iter().map(SilentSource::words).collect();
        put_ledger(&mut document, &ledger);
        document["recorded"] = json!({
            "events": ended.recorded.counts.written.events,
            "packets": ended.recorded.counts.written.packets,
            "bytes": ended.recorded.counts.written.bytes,
            "batches": ended.recorded.counts.batches,
            "files": ended.recorded.counts.files,
            "file_bytes": ended.recorded.counts.file_bytes,
            "direct_bytes": ended.recorded.counts.direct_bytes,
            "fault": ended.recorded.fault.as_ref().map(ToString::to_string),
        });
        document["memory_bytes_max"] = plan.memory.total().into();
        document["memory_bytes_most"] = plan.memory.most().into();
        document["inputs"] = ended.inputs.iter().map(input_document).collect();
        document["health"] = ended.kept.document();
        if let Some(slow) = &ended.slow {
            document["slow_control"] = slow.clone();
        }
        document["notes"] = ended.notes.clone().into();
        document["delays"] = json!(ended.built.delays);
        let requirements = requirements::check(
            experiment,
            &ledger,
            ended.built.delays,
            longest_way(&ended.inputs),
        );
        document["requirements"] = requirements.iter().map(Checked::document).collect();
        document["control"] = ended.control.document();
        document["periods"] = ended.built.periods.document();
        if let Some(graph) = &ended.built.graph {
            document["graph"] = graph.document.clone();
            if let Some(feedback) = &graph.feedback {
                document["loop"] = feedback.clone();
            }
            graph.put_times(&mut document);
        }
        let file_bytes = ended.recorded.counts.file_bytes;
        let written =
            end.map_or(Ok(()), |end| write_end(end, &mut document, &mut ledger, file_bytes));
        if let Err(error) = written {
            document["state"] = "recording-stopped".into();
            verdict = without_end(&verdict, &error);
            put_verdict(&mut document, &verdict);
        }
        let (silent_sources, notes, delays) = (silence.sources, ended.notes, ended.built.delays);
        let alarms = ended.kept.alarms;
        Report {
            ledger,
            document,
            verdict,
            silent_sources,
            notes,
            alarms,
            delays,
            requirements,
            folder: path,
        }
    }
}

/// Returns the longest time from a sensor to its readout \[ns\]; `None`: not all were measured.
fn longest_way(inputs: &[InputEnd]) -> Option<u64> {
    let each = inputs.iter().map(|end| end.journeys.as_ref().map(|of| of.delays().max_ns));
    each.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// Puts a ledger into run.json, with everything that follows from it.
pub(crate) fn put_ledger(document: &mut Value, ledger: &Ledger) {
    document["headline"] = ledger.headline().into();
    document["received"] = ledger.received().into();
    document["outcomes"] = ledger.outcomes().iter().map(outcome_document).collect();
    document["closes"] = ledger.closes().into();
    document["laws"] = json!(ledger.check());
    document["lost_places"] = json!(ledger.lost_places());
    document["totals"] = totals(ledger);
    document["ledger"] = json!(ledger);
}

/// Writes run.json; then once more, if the files show another number of incomplete events than the
/// builder counted. The first one has the evidence for that, and stays if the disk is full.
fn write_end(
    end: RunEnding,
    document: &mut Value,
    ledger: &mut Ledger,
    file_bytes: u64,
) -> Result<(), FolderError> {
    let RunEnding { folder, reserve, .. } = end;
    reserve.write(&folder, document)?;
    ledger.incomplete_in_files = judged::incomplete_in_files(&folder, ledger, file_bytes);
    if ledger.incomplete_in_files.is_some() {
        let mut judged = document.clone();
        judged["headline"] = ledger.headline().into();
        judged["ledger"] = json!(ledger);
        if folder.write_run(&judged).is_ok() {
            *document = judged;
        }
    }
    Ok(())
}

/// Returns the verdict on a run whose run.json could not be written: only the printed output has
/// its ledger, so the sentence says so.
fn without_end(verdict: &Verdict, error: &FolderError) -> Verdict {
    let sentence = format!(
        "the run's end is not in its folder, so keep this output: {error}; {}",
        verdict.sentence().unwrap_or("everything that was received is in the events files.")
    );
    match verdict {
        Verdict::LedgerOpen(_) => Verdict::LedgerOpen(sentence),
        _ => Verdict::RecordingStopped(sentence),
    }
}

/// Puts status and sentence into the document.
fn put_verdict(document: &mut Value, verdict: &Verdict) {
    document["status"] = verdict.status().into();
    document["sentence"] = verdict.sentence().into();
}

fn outcome_document(outcome: &Outcome) -> Value {
    json!({
        "counter": outcome.row.counter, "words": outcome.row.words,
        "fate": outcome.row.fate, "count": outcome.count,
    })
}

/// Returns true when an input's packets carry the time of the wall clock.
fn is_live(experiment: &Experiment, input: u16) -> bool {
    let source = experiment.sources.get(usize::from(input));
    source.is_some_and(|source| source.pcap.is_none() && source.raw.is_none())
}

fn totals(ledger: &Ledger) -> Value {
    let sources = ledger.source_totals();
    let inputs = ledger.input_totals();
    let mut totals = serde_json::Map::new();
    let remote = ledger.remote_totals();
    let rows = inputs.rows().chain(remote.rows()).chain(sources.rows());
    for (row, value) in rows.chain(ledger.builder.rows()) {
        totals.insert(row.name.to_string(), value.into());
    }
    Value::Object(totals)
}

fn input_document(end: &InputEnd) -> Value {
    let rows = |rows: &mut dyn Iterator<Item = (&'static str, u64)>| -> Value {
        Value::Object(rows.map(|(name, value)| (name.to_string(), value.into())).collect())
    };
    let truth = end.truth.as_ref().map(|truth| {
        let sources: Vec<Value> = truth
            .sources
            .iter()
            .map(|source| {
                json!({
                    "made": source.made, "sent": source.sent, "dropped": source.dropped,
                    "duplicated": source.duplicated, "reordered": source.reordered,
                    "corrupted": source.corrupted, "restarts": source.restarts,
                    "dropped_sequences": source.dropped_sequences,
                })
            })
            .collect();
        json!({ "seed": truth.seed, "not_sent": truth.not_sent, "sources": sources })
    });
    json!({
        "ring": rows(&mut end.ring.rows().map(|(row, value)| (row.name, value))),
        "receiver": end.receiver.as_ref().map(|counters| {
            rows(&mut counters.rows().map(|(row, value)| (row.name, value)))
        }),
        "capture": end.capture,
        "connections": end.connections,
        "emulated": truth,
        "journeys": end.journeys.as_ref().map(Journeys::delays),
    })
}

fn ledger_of(experiment: &Experiment, ended: &Ended) -> Ledger {
    let mut ledger = ended.recorded.ledger.clone();
    ledger.add(&ended.built.counts, |number| number);
    ledger.paused = ended.built.paused.clone();
    let graph = ended.built.graph.as_ref();
    let is_virtual = graph.is_some_and(|graph| graph.virtual_end.is_some());
    let mut unread = 0;
    for (number, (source, end)) in experiment.sources.iter().zip(&ended.inputs).enumerate() {
        let taken = ended.built.taken.get(number).copied().unwrap_or_default();
        let mut counters = end.counters.clone();
        counters.rejected = taken.rejected;
        counters.sources_refused = taken.refused;
        counters.truncated += taken.truncated;
        let mut remote = end.remote_counters();
        let of_peers = source.roce.as_ref().is_some_and(|roce| roce.push.is_some());
        if source.shm.is_some() || of_peers || source.is_replayed() || is_virtual {
            // No thread of this program filled its ring, or it read ahead of the due packets: the
            // packets taken are the packets that came.
            let pushed = counters.datagrams;
            (counters.datagrams, counters.bytes) = (taken.datagrams, taken.bytes);
            // Sensors had pushed them into a memory that is gone, or over a link that broke.
            let has_crashed = graph.is_some_and(|of| of.crashed.get(number) == Some(&true));
            unread += if has_crashed || end.has_parted {
                pushed.saturating_sub(taken.datagrams)
            } else {
                0
            };
        }
        if source.roce.is_some() {
            remote.records_taken = taken.datagrams;
        }
        ledger.inputs.push(InputEntry { name: source.name.clone(), counters, remote });
    }
    let drops = &ended.host.drops;
    ledger.host = HostCounters {
        // Cards and drivers count one packet under one of these names, as they like.
        nic_dropped: drops.nic_dropped + drops.nic_missed + drops.nic_fifo,
        softnet_dropped: drops.softnet_dropped,
        udp_buffer_errors: drops.udp_buffer_full,
    };
    // Only when everything came from emulators is the whole truth known.
    let truths: Vec<_> = ended.inputs.iter().filter_map(|end| end.truth.as_ref()).collect();
    if truths.len() == ended.inputs.len() {
        let sources = || truths.iter().flat_map(|truth| &truth.sources);
        ledger.truth = Some(Truth {
            sent: sources().map(|source| source.sent).sum(),
            numbered: sources().map(|source| source.made).sum(),
            dropped_elsewhere: truths.iter().map(|truth| truth.not_sent).sum::<u64>() + unread,
        });
    }
    ledger
}

fn verdict_of(
    experiment: &Experiment,
    ledger: &Ledger,
    ended: &Ended,
    silence: &Silence,
    inputs: &[PlannedInput],
) -> Verdict {
    if let Some(law) = ledger.check().into_iter().find(|law| !law.holds()) {
        return Verdict::LedgerOpen(format!(
            "the ledger does not close: \"{}\" is {} = {}; this is a defect of the program, \
             please report it with run.json.",
            law.name, law.left, law.right
        ));
    }
    if let Some(fault) = &ended.recorded.fault {
        return Verdict::RecordingStopped(format!("{fault}."));
    }
    let evidence = Evidence {
        ledger,
        accept: &experiment.accept,
        faults: &ended.faults,
        silence,
        require: &experiment.events.require,
        inputs,
    };
    evidence.look().map_or(Verdict::Complete, Verdict::LookNeeded)
}
