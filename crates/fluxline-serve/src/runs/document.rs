//! The state of a run folder as JSON, of the same shape as a snapshot of a live run.

use std::path::Path;

use fluxline_daq::ledger::Ledger;
use fluxline_daq::record::{Marks, RunEnd, RunFolder};
use fluxline_run::{RaisedAlarm, read_alarms};
use serde_json::{Value, json};

use super::described::Descriptions;
use super::index::Index;
use super::reading::State;
use crate::snapshot;

/// The file in which a served run has its address.
const ADDRESS_FILE: &str = "serve.url";

/// Returns the word for the end of a run.
pub fn word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Running => "running",
        RunEnd::Killed => "killed",
        RunEnd::Finished => "finished",
        RunEnd::RecordingStopped => "recording stopped",
        RunEnd::Recovered => "recovered",
        RunEnd::Unknown => "unknown",
    }
}

/// Returns a run as a line of the list: from run.json and the marks alone, so that long lists are
/// quick.
pub fn line(path: &Path, id: &str, end: RunEnd) -> Value {
    let Ok(folder) = RunFolder::open(path) else { return Value::Null };
    let (run, fault) = match folder.read_run() {
        Ok(run) => (run, Value::Null),
        Err(error) => (Value::Null, error.to_string().into()),
    };
    let totals = &run["totals"];
    let marks = Marks::read(folder.directory());
    json!({
        "id": id,
        "name": run["experiment"]["name"],
        "state": word(end),
        "began_ns": run["began_ns"],
        "seconds": seconds(&run),
        "recorded": totals["recorded"],
        "lost": lost(&run),
        "bytes": event_bytes(&folder),
        "status": run["status"],
        "sentence": run["sentence"],
        "shot": run["control"]["shot"],
        "tags": marks.tags,
        "comment": marks.comment_text(),
        "page": if end == RunEnd::Running { page(&folder) } else { None },
        "fault": fault,
    })
}

/// Returns the missing packets of the time in which the run recorded.
fn lost(run: &Value) -> Option<u64> {
    let paused = run["ledger"]["paused"]["lost"].as_u64().unwrap_or(0);
    Some(run["totals"]["lost"].as_u64()?.saturating_sub(paused))
}

/// Returns the size of the event files \[byte\].
fn event_bytes(folder: &RunFolder) -> u64 {
    folder.event_sizes().unwrap_or_default().iter().map(|(_, bytes)| bytes).sum()
}

fn seconds(run: &Value) -> Option<f64> {
    let (began, ended) = (run["began_ns"].as_u64()?, run["ended_ns"].as_u64()?);
    Some(ended.saturating_sub(began) as f64 * 1e-9)
}

/// Returns the address of the live page of a run, without its token.
fn page(folder: &RunFolder) -> Option<String> {
    let url = folder.directory().read(Path::new(ADDRESS_FILE)).ok()?;
    let url = String::from_utf8(url).ok()?;
    let address = url.split('#').next()?.trim();
    address.starts_with("http://").then(|| address.to_owned())
}

/// Returns the state of a run that is read.
pub fn state(folder: &RunFolder, id: &str, read: &State<Index>) -> Value {
    let run = folder.read_run().unwrap_or(Value::Null);
    let ledger = serde_json::from_value::<Ledger>(run["ledger"].clone()).ok();
    let ledger = ledger.filter(|ledger| !ledger.inputs.is_empty());
    let index = &read.visitor;
    let incomplete = index.by_status.iter().filter(|(status, _)| **status != "complete");
    let marks = Marks::read(folder.directory());
    let remarks = run["control"]["remarks"].as_array().cloned().unwrap_or_default();
    json!({
        "recorded_run": true,
        "run": run["experiment"]["name"].as_str().unwrap_or(id),
        "folder": folder.path(),
        "state": word(read.end),
        "seconds": seconds(&run),
        "began_ns": run["began_ns"],
        "shot": run["control"]["shot"],
        "sentence": run["sentence"],
        "remarks": remarks,
        "health": health(folder),
        "tags": marks.tags,
        "comment": marks.comment_text(),
        "notes": run["notes"].as_array().cloned().unwrap_or_default(),
        "faults": read.faults,
        "page": if read.end == RunEnd::Running { page(folder) } else { None },
        "commands": [],
        "flow": ledger.as_ref().map(|ledger| snapshot::flow(ledger, 0)),
        "inputs": ledger.as_ref().map(snapshot::inputs),
        "reading": {
            "complete": read.is_complete, "batches": read.report.batches,
            "events": read.report.events, "packets": read.report.packets,
            "bytes": read.report.bytes,
        },
        "events": {
            "built": index.events, "incomplete": incomplete.map(|(_, count)| count).sum::<u64>(),
            "by_status": index.by_status, "delay_counts": index.delay_counts(),
        },
        "recorded_bytes": read.report.bytes,
        "sources": sources(folder, ledger.as_ref(), index),
    })
}

/// Returns the alarms that a run had, each with its times.
fn health(folder: &RunFolder) -> Value {
    let changes = match read_alarms(folder) {
        Ok(changes) => changes,
        Err(error) => return json!({ "alarms": [], "fault": error.to_string() }),
    };
    let alarms = RaisedAlarm::of(&changes);
    json!({ "alarms": alarms.iter().map(RaisedAlarm::document).collect::<Vec<_>>() })
}

/// Returns the sources: from the ledger, or from the files of a run without one.
fn sources(folder: &RunFolder, ledger: Option<&Ledger>, index: &Index) -> Vec<Value> {
    if let Some(ledger) = ledger {
        let entries = ledger.sources.iter().enumerate();
        return entries
            .map(|(number, entry)| {
                let lasted = entry.last_time_ns.saturating_sub(entry.first_time_ns);
                let seconds = lasted as f64 * 1e-9;
                let packets = entry.counters.parsed as f64;
                snapshot::source(number, entry, if seconds > 0.0 { packets / seconds } else { 0.0 })
            })
            .collect();
    }
    let descriptions = Descriptions::of(folder);
    let sums = index.sources.iter();
    let source = |(number, sum): (&u32, &super::index::SourceSum)| {
        json!({
            "number": number, "label": descriptions.label(*number), "packets": sum.packets,
            "bytes": sum.bytes, "rate": 0, "lost": 0, "restarts": 0, "missing": 0,
            "input": 0, "state": "of the files", "silent_ms": 0,
        })
    };
    sums.map(source).collect()
}
