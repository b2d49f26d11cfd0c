//! What a run leaves behind: run.json, and the table for people.

use std::fmt::Write;

use fluxline::kernel::KernelSnapshot;
use fluxline::landing::RingKeeper;
use fluxline_core::Moment;
use fluxline_daq::acquisition::Acquisition;
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::ledger::{HostCounters, InputEntry, Ledger, Outcome, Truth};
use fluxline_daq::record::{Recorder, RunFolder};
use indicatif::HumanBytes;
use serde_json::{Value, json};

use super::end::InputEnd;
use super::input::OpenInput;
use super::record::Recorded;
use super::silence::{Silence, SilentSource};
use super::verdict::Evidence;
use crate::experiment::Experiment;
use crate::failure::{self, Failure, FailureKind};
use crate::host;
use crate::inform;

/// Tables of sources and rejects, stacks of threads, and what the allocator keeps \[byte\].
const REST_BYTES: u64 = 24 << 20;
/// A capture that is read: its buffer, and IP datagrams whose fragments wait \[byte\].
const CAPTURE_BYTES: u64 = 20 << 20;

/// Memory that a run's configuration bounds \[byte\].
pub struct Memory {
    /// Push rings.
    pub rings: u64,
    /// Events under construction.
    pub events: u64,
    /// Batches between readout and disk.
    pub batches: u64,
    /// Files that are read, tables, the threads' stacks.
    pub rest: u64,
    /// What the program had in memory before the run.
    before: u64,
}

impl Memory {
    /// What this configuration allows.
    pub fn of(
        experiment: &Experiment,
        inputs: &[OpenInput],
        builder: &BuilderConfig,
        before: u64,
    ) -> Memory {
        let files = experiment.sources.iter().filter(|source| source.pcap.is_some()).count();
        Memory {
            rings: inputs.iter().map(|input| input.ring_bytes).sum(),
            events: builder.memory_bytes_max(),
            batches: super::batch_bounds(experiment).memory_bytes_max(),
            rest: REST_BYTES + files as u64 * CAPTURE_BYTES,
            before,
        }
    }

    fn total(&self) -> u64 {
        self.rings + self.events + self.batches + self.rest
    }

    /// What the run added to the program's memory at its fullest.
    fn most(&self) -> u64 {
        host::resident_most().saturating_sub(self.before)
    }
}

/// Prints what is about to run.
pub fn announce(
    experiment: &Experiment,
    inputs: &[OpenInput],
    recorder: Option<&Recorder>,
    memory: &Memory,
) {
    inform!("run      {}", experiment.name);
    for input in inputs {
        let on = if input.listens.is_empty() { "" } else { " on " };
        inform!("source   {}{on}{}", input.name, input.listens.join(", "));
        if let Some(key) = input.drawn_key {
            inform!("key      {key}, drawn for this run: give it to the producer");
        }
    }
    match recorder {
        Some(recorder) => inform!("folder   {}", recorder.folder().path().display()),
        None => inform!("folder   none: events are counted, not recorded"),
    }
    inform!(
        "memory   at most {}: rings {}, events {}, batches {}, the rest {}",
        HumanBytes(memory.total()),
        HumanBytes(memory.rings),
        HumanBytes(memory.events),
        HumanBytes(memory.batches),
        HumanBytes(memory.rest)
    );
}

/// What run.json says while the run goes on; after a crash it still says so.
pub fn beginning(experiment: &Experiment) -> Value {
    json!({
        "state": "running",
        "fluxline": env!("CARGO_PKG_VERSION"),
        "began_ns": fluxline::clock::now().as_ns(),
        "host": host::describe(),
        "experiment": experiment,
    })
}

/// All that is known when the threads have ended.
pub struct Ended {
    pub(super) began: Moment,
    pub(super) ended: Moment,
    pub(super) inputs: Vec<InputEnd>,
    pub(super) acquisition: Acquisition,
    pub(super) recorded: Recorded,
    pub(super) host: KernelSnapshot,
    pub(super) notes: Vec<String>,
    pub(super) faults: Vec<String>,
}

/// A run that has ended.
pub struct RunReport {
    /// Its ledger.
    pub ledger: Ledger,
    /// All of it, as in run.json.
    pub document: Value,
    /// How it ended, if not well.
    pub failure: Option<Failure>,
    silence: Silence,
    notes: Vec<String>,
    folder: Option<RunFolder>,
}

impl RunReport {
    /// Closes the ledger and writes run.json; where that fails, the report says so.
    pub fn close(
        experiment: &Experiment,
        folder: Option<RunFolder>,
        memory: &Memory,
        ended: Ended,
    ) -> RunReport {
        let ledger = ledger_of(experiment, &ended);
        let silence = Silence::of(&ledger, |input| is_live(experiment, input));
        let mut failure = failure_of(experiment, &ledger, &ended, &silence);
        let mut document = beginning(experiment);
        let state = match (&ended.recorded.fault, &folder) {
            (Some(_), _) => "recording-stopped",
            (None, Some(_)) => "finished",
            (None, None) => "not-recorded",
        };
        document["state"] = state.into();
        document["began_ns"] = ended.began.as_ns().into();
        document["ended_ns"] = ended.ended.as_ns().into();
        document["folder"] =
            folder.as_ref().map(|folder| folder.path().display().to_string()).into();
        say_in(&mut document, failure.as_ref());
        document["headline"] = ledger.headline().into();
        document["received"] = ledger.received().into();
        document["outcomes"] = ledger.outcomes().iter().map(outcome_document).collect();
        document["silent_sources"] = silence.sources.iter().map(SilentSource::words).collect();
        document["closes"] = ledger.closes().into();
        document["laws"] = json!(ledger.check());
        document["lost_places"] = json!(ledger.lost_places());
        document["totals"] = totals(&ledger);
        document["ledger"] = json!(ledger);
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
        document["memory_bytes_max"] = memory.total().into();
        document["memory_bytes_most"] = memory.most().into();
        document["inputs"] = ended.inputs.iter().map(input_document).collect();
        document["notes"] = ended.notes.clone().into();
        if let Some(error) = folder.as_ref().and_then(|of| of.write_run(&document).err()) {
            // The ledger is then only in what is printed: so print it.
            document["state"] = "recording-stopped".into();
            let message = format!("{error}.");
            if failure.as_ref().is_none_or(|failure| failure.kind == FailureKind::Look) {
                failure = Some(Failure { kind: FailureKind::Recording, message });
            }
            say_in(&mut document, failure.as_ref());
        }
        RunReport { ledger, document, failure, silence, notes: ended.notes, folder }
    }

    /// The table for people.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.ledger.headline());
        for source in &self.silence.sources {
            let _ = writeln!(out, "{}, while others went on", source.words());
        }
        let _ = write!(out, "\n{}{}", self.ledger.table(), self.ledger.closing());
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        if let Some(folder) = &self.folder {
            let path = folder.path().display();
            let _ = writeln!(out, "Next: fluxline inspect {path}");
        }
        out
    }
}

/// Puts status and sentence into the document.
fn say_in(document: &mut Value, failure: Option<&Failure>) {
    document["status"] = failure::status_of(failure).into();
    document["sentence"] = failure.map(|failure| failure.message.clone()).into();
}

fn outcome_document(outcome: &Outcome) -> Value {
    json!({
        "counter": outcome.row.counter, "words": outcome.row.words,
        "fate": outcome.row.fate, "count": outcome.count,
    })
}

/// Whether an input's packets carry the time of the wall clock.
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
    })
}

fn ledger_of(experiment: &Experiment, ended: &Ended) -> Ledger {
    let acquisition = &ended.acquisition;
    let mut ledger = ended.recorded.ledger.with(acquisition.readout(), acquisition.builder());
    for (number, (source, end)) in experiment.sources.iter().zip(&ended.inputs).enumerate() {
        let taken = acquisition.taken(number as u16);
        let mut counters = end.counters.clone();
        counters.rejected = taken.rejected;
        counters.sources_refused = taken.refused;
        counters.truncated += taken.truncated;
        let mut remote = end.remote.clone();
        let of_peers = source.roce.as_ref().is_some_and(|roce| roce.push.is_some());
        if source.shm.is_some() || of_peers || source.is_replayed() {
            // No thread of this program filled its ring, or it read ahead of what was due: what was
            // taken is what came.
            (counters.datagrams, counters.bytes) = (taken.datagrams, taken.bytes);
        }
        if source.roce.is_some() {
            remote.records_taken = taken.datagrams;
            remote.records += end.keeper.as_ref().map_or(0, RingKeeper::records);
        }
        remote.producers_gone += end.fate.producers_died();
        remote.rings_broken += end.fate.broken();
        ledger.inputs.push(InputEntry { name: source.name.clone(), counters, remote });
    }
    for (entry, row) in ledger.rejects.iter_mut().zip(acquisition.readout().rejects()) {
        let rule = acquisition.rule_name(row.format, row.reject);
        entry.reason = format!("{}: {rule}", entry.reason);
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
            dropped_elsewhere: truths.iter().map(|truth| truth.not_sent).sum(),
        });
    }
    ledger
}

fn failure_of(
    experiment: &Experiment,
    ledger: &Ledger,
    ended: &Ended,
    silence: &Silence,
) -> Option<Failure> {
    if let Some(law) = ledger.check().into_iter().find(|law| !law.holds()) {
        return Some(Failure {
            kind: FailureKind::Ledger,
            message: format!(
                "the ledger does not close: \"{}\" is {} = {}; this is a defect of the program, \
                 please report it with run.json.",
                law.name, law.left, law.right
            ),
        });
    }
    if let Some(fault) = &ended.recorded.fault {
        return Some(Failure { kind: FailureKind::Recording, message: format!("{fault}.") });
    }
    let evidence = Evidence {
        ledger,
        accept: &experiment.accept,
        faults: &ended.faults,
        silence,
        require: &experiment.events.require,
    };
    let message = evidence.look()?;
    Some(Failure { kind: FailureKind::Look, message })
}
