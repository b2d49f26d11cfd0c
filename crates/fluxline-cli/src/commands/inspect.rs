//! `fluxline inspect`: what a run holds, from its ledger and from its files.

use std::collections::BTreeMap;

use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::ledger::Ledger;
use fluxline_daq::record::{ReadReport, RunReader};
use serde_json::{Value, json};

use crate::arguments::InspectArguments;
use crate::failure::Failure;
use crate::say;

/// What the event files say.
#[derive(Default)]
struct Found {
    by_status: BTreeMap<&'static str, u64>,
    incomplete: Vec<String>,
    report: ReadReport,
}

/// Prints state, ledger, events by status, the first incomplete ones, and any damage.
pub fn inspect(arguments: &InspectArguments, json: bool) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format_args!("{error}."));
    let mut reader = RunReader::open(&arguments.run).map_err(|error| wrong(&error))?;
    let document = reader.folder().read_run().unwrap_or(Value::Null);
    let found = read(&mut reader, arguments.incomplete).map_err(|error| wrong(&error))?;
    if json {
        super::print_json(&json!({
            "run": document,
            "events_by_status": found.by_status,
            "incomplete": found.incomplete,
            "readable": {
                "batches": found.report.batches, "events": found.report.events,
                "packets": found.report.packets, "bytes": found.report.bytes,
            },
            "torn_bytes": found.report.tails.iter().map(|tail| tail.torn_bytes).sum::<u64>(),
            "damages": found.report.damages.len(),
        }));
        return Ok(());
    }
    print(arguments, &document, &found);
    Ok(())
}

fn read(
    reader: &mut RunReader,
    incomplete_max: usize,
) -> Result<Found, fluxline_daq::record::ReadError> {
    let mut found = Found::default();
    let mut batch = EventBatch::default();
    while let Some(recorded) = reader.next_batch()? {
        batch.clear();
        recorded.append_to(&mut batch)?;
        let mut missing = batch.missing.as_str();
        for event in &batch.events {
            *found.by_status.entry(event.status.as_str()).or_default() += 1;
            let split = (event.missing_bytes as usize).min(missing.len());
            let (of_event, rest) = missing.split_at_checked(split).unwrap_or((missing, ""));
            missing = rest;
            if event.status != EventStatus::Complete && found.incomplete.len() < incomplete_max {
                let key = event.key.map_or("-".to_string(), |key| key.to_string());
                found.incomplete.push(format!("{key}: {}: {of_event}", event.status.as_str()));
            }
        }
    }
    found.report = reader.report().clone();
    Ok(found)
}

fn print(arguments: &InspectArguments, document: &Value, found: &Found) {
    let text = |key: &str| document[key].as_str().unwrap_or("unknown").to_string();
    let name = document["experiment"]["name"].as_str().unwrap_or("unknown");
    say!("run      {} ({name})", arguments.run.display());
    say!("state    {}", text("state"));
    if let (Some(began), Some(ended)) =
        (document["began_ns"].as_u64(), document["ended_ns"].as_u64())
    {
        say!("lasted   {:.3} s", ended.saturating_sub(began) as f64 * 1e-9);
    }
    let report = &found.report;
    say!(
        "holds    {} events, {} packets, {} bytes in {} batches",
        report.events,
        report.packets,
        report.bytes,
        report.batches
    );
    for (status, count) in &found.by_status {
        say!("         {count} {status}");
    }
    match serde_json::from_value::<Ledger>(document["ledger"].clone()) {
        Ok(ledger) if !ledger.sources.is_empty() => say!("\n{}", ledger.table()),
        _ => say!("\nno ledger: the run did not end by itself"),
    }
    if !found.incomplete.is_empty() {
        say!("incomplete events (the first {}):", found.incomplete.len());
        found.incomplete.iter().for_each(|line| say!("  {line}"));
    }
    for damage in &report.damages {
        say!(
            "damaged: {} at byte {}: {} bytes: {}",
            damage.file.display(),
            damage.start,
            damage.bytes,
            damage.reason
        );
    }
    for tail in &report.tails {
        say!(
            "torn: {} has {} bytes of an incomplete batch at its end; `fluxline recover {}` cuts \
             them off",
            tail.file.display(),
            tail.torn_bytes,
            arguments.run.display()
        );
    }
    say!("Next: fluxline export {} --to parquet", arguments.run.display());
}
