//! `fluxline inspect`: the contents of a run, from its ledger and from its files; or the ledger of
//! a cluster.

use std::collections::BTreeMap;

use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::experiment::Severity;
use fluxline_daq::ledger::Ledger;
use fluxline_daq::plots::SavedPlots;
use fluxline_daq::record::{Integrity, Join, JoinReport, JoinedReader, Marks, ReadReport};
use fluxline_run::{RaisedAlarm, read_alarms};
use serde_json::{Value, json};

use super::{integrity, runs};
use crate::arguments::InspectArguments;
use crate::failure::{self, Ending, Failure};
use crate::output::escaped_line;
use crate::{local_time, say};

/// Most notes of operators that are shown.
const NOTES_MAX: usize = 20;

/// The contents of the event files.
#[derive(Default)]
struct Found {
    by_status: BTreeMap<&'static str, u64>,
    incomplete: Vec<String>,
    report: ReadReport,
    integrity: Integrity,
    joined: JoinReport,
    /// Tags and comment, which are beside the event files.
    marks: Marks,
    /// The alarms of the run, or the reason why they cannot be read.
    alarms: Vec<RaisedAlarm>,
    alarms_fault: Option<String>,
    /// The plots over the whole run, if there are some, or the reason why they cannot be read.
    plots: Option<SavedPlots>,
    plots_fault: Option<String>,
}

/// Prints state, ledger, events by status, the first incomplete ones, and any damage; fails when
/// the files do not hold what was recorded.
pub fn inspect(arguments: &InspectArguments, json: bool) -> Result<Ending, Failure> {
    if let Some(address) = arguments.run.to_str().filter(|run| run.starts_with("kafka://")) {
        return inspect_cluster(address, arguments, json);
    }
    if arguments.watch || arguments.number.is_some() || arguments.settings_file.is_some() {
        return Err(Failure::input(format_args!(
            "--watch, --run and --settings-file belong to a cluster, and {} is a folder; write \
             kafka://HOST:PORT/CLUSTER, or leave them out.",
            arguments.run.display()
        )));
    }
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format_args!("{error}."));
    let join = if arguments.no_join { Join::Nothing } else { Join::Late };
    let mut reader = JoinedReader::open(&arguments.run, join).map_err(|error| wrong(&error))?;
    let document = reader.folder().read_run().unwrap_or(Value::Null);
    let found = read(&mut reader, arguments.incomplete).map_err(|error| wrong(&error))?;
    let failure = integrity::failure(&arguments.run, &found.integrity)
        .or_else(|| Failure::of_run(&arguments.run, &document));
    let print = || match json {
        true => print_json(document, &found, failure.as_ref()),
        false => print(arguments, &document, &found),
    };
    Ok(failure::report(failure.as_ref(), json, print))
}

/// Prints the ledger of a cluster.
#[cfg(feature = "kafka")]
fn inspect_cluster(
    address: &str,
    arguments: &InspectArguments,
    json: bool,
) -> Result<Ending, Failure> {
    let address = fluxline_kafka::ClusterAddress::parse(address).map_err(Failure::input)?;
    super::cluster_ledger::inspect(&address, arguments, json)
}

/// Refuses: this program was built without Kafka.
#[cfg(not(feature = "kafka"))]
fn inspect_cluster(address: &str, _: &InspectArguments, _json: bool) -> Result<Ending, Failure> {
    Err(Failure::failed(format_args!(
        "{address} was not read: this program was built without Kafka; build it with `cargo build \
         --release --features kafka`."
    )))
}

fn print_json(document: Value, found: &Found, failure: Option<&Failure>) {
    super::print_json(&json!({
        "status": failure::status_of(failure),
        "sentence": failure.map(|failure| &failure.message),
        "integrity": integrity::document(&found.integrity),
        "run": document,
        "events_by_status": found.by_status,
        "incomplete": found.incomplete,
        "joined": super::joined_document(found.joined),
        "marks": runs::marks_document(&found.marks),
        "alarms": found.alarms.iter().map(RaisedAlarm::document).collect::<Vec<_>>(),
        "alarms_fault": found.alarms_fault,
        "plots": found.plots.as_ref().map_or_else(Vec::new, SavedPlots::summary),
        "plots_fault": found.plots_fault,
        "readable": {
            "batches": found.report.batches, "events": found.report.events,
            "packets": found.report.packets, "bytes": found.report.bytes,
        },
        "torn_bytes": found.report.tails.iter().map(|tail| tail.torn_bytes).sum::<u64>(),
        "damages": found.report.damages.len(),
    }));
}

fn read(
    reader: &mut JoinedReader,
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
            let shown = !matches!(event.status, EventStatus::Complete | EventStatus::Late);
            if shown && found.incomplete.len() < incomplete_max {
                let key = event.key.map_or("-".to_string(), |key| key.to_string());
                found.incomplete.push(format!("{key}: {}: {of_event}", event.status.as_str()));
            }
        }
    }
    found.report = reader.report().clone();
    found.joined = reader.joined();
    found.marks = Marks::read(reader.folder().directory());
    match read_alarms(reader.folder()) {
        Ok(changes) => found.alarms = RaisedAlarm::of(&changes),
        Err(error) => found.alarms_fault = Some(error.to_string()),
    }
    match SavedPlots::read(reader.folder().directory()) {
        Ok(plots) => found.plots = plots,
        Err(error) => found.plots_fault = Some(error),
    }
    found.integrity = Integrity::of(reader.folder(), &found.report);
    Ok(found)
}

fn print(arguments: &InspectArguments, document: &Value, found: &Found) {
    let name = document["experiment"]["name"].as_str().unwrap_or("unknown");
    say!("run      {} ({name})", arguments.run.display());
    say!("state    {}", integrity::explain(found.integrity.end));
    print_times(document);
    print_operators(document);
    runs::print_marks(&found.marks);
    print_alarms(found);
    print_plots(found);
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
    super::print_joined(found.joined);
    integrity::print_faults(&found.integrity);
    print_ledger(document, &found.integrity);
    print_requirements(document);
    if !found.incomplete.is_empty() {
        say!("incomplete events (the first {}):", found.incomplete.len());
        found.incomplete.iter().for_each(|line| say!("  {line}"));
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

/// Prints start, end and length, as far as run.json has them.
fn print_times(document: &Value) {
    let (began, ended) = (document["began_ns"].as_u64(), document["ended_ns"].as_u64());
    if let Some(began) = began {
        say!("began    {}", local_time::iso(began));
    }
    if let Some(ended) = ended {
        say!("ended    {}", local_time::iso(ended));
    }
    if let (Some(began), Some(ended)) = (began, ended) {
        say!("lasted   {:.3} s", ended.saturating_sub(began) as f64 * 1e-9);
    }
}

/// Prints the shot number and the operators' notes.
fn print_operators(document: &Value) {
    let control = &document["control"];
    if let Some(shot) = control["shot"].as_u64() {
        say!("shot     {shot}");
    }
    let notes = control["remarks"].as_array().map_or(&[][..], Vec::as_slice);
    for note in notes.iter().take(NOTES_MAX) {
        let at = note["at_ns"].as_u64().map_or("-".to_owned(), local_time::iso);
        say!("note     {at} {}", escaped_line(note["text"].as_str().unwrap_or_default()));
    }
    if notes.len() > NOTES_MAX {
        say!("         and {} more notes in run.json", notes.len() - NOTES_MAX);
    }
}

/// Prints the alarms of the run with their times, and the number of its warnings.
fn print_alarms(found: &Found) {
    let is_alarm = |alarm: &&RaisedAlarm| alarm.raised.severity == Severity::Alarm;
    for alarm in found.alarms.iter().filter(is_alarm).take(NOTES_MAX) {
        let (since, raised) = (local_time::iso(alarm.since_ns), &alarm.raised.sentence);
        let until = alarm.cleared_ns.map_or("the end".to_owned(), local_time::iso);
        say!("alarm    {since} to {until}: {}", escaped_line(raised));
    }
    let alarms = found.alarms.iter().filter(is_alarm).count();
    let warnings = found.alarms.len() - alarms;
    if alarms > NOTES_MAX || warnings > 0 {
        let more = alarms.saturating_sub(NOTES_MAX);
        say!("         {more} more alarms and {warnings} warnings are in alarms.jsonl");
    }
    if let Some(fault) = &found.alarms_fault {
        say!("alarms   cannot be read: {}", escaped_line(fault));
    }
}

/// Prints the plots over the whole run: entries, mean, and what is missing.
fn print_plots(found: &Found) {
    let lines = found.plots.as_ref().map_or_else(Vec::new, SavedPlots::lines);
    for (number, line) in lines.iter().enumerate() {
        say!("{:<8} {}", if number == 0 { "plots" } else { "" }, escaped_line(line));
    }
    if let Some(fault) = &found.plots_fault {
        say!("plots    cannot be read: {}", escaped_line(fault));
    }
}

/// Prints the requirements of the experiment, as the run checked them.
fn print_requirements(document: &Value) {
    let checked = document["requirements"].as_array();
    for checked in checked.into_iter().flatten().filter_map(|of| of["line"].as_str()) {
        say!("{}", crate::output::escaped_line(checked));
    }
}

/// Prints the ledger of the run's end, and compares the files with it.
fn print_ledger(document: &Value, integrity: &Integrity) {
    let ledger = match serde_json::from_value::<Ledger>(document["ledger"].clone()) {
        Ok(ledger) if !ledger.inputs.is_empty() => ledger,
        _ if document["gathered"].is_object() => return print_gathered(document),
        _ => return say!("\nno ledger: the run did not end by itself\n"),
    };
    say!("\n{}", ledger.headline());
    if let Some(sentence) = document["sentence"].as_str() {
        say!("status {}: {sentence}", document["status"]);
    }
    fluxline_run::feedback::lines(&document["loop"]).iter().for_each(|line| say!("{line}"));
    say!("\n{}", ledger.table());
    match integrity.is_sound() {
        true => say!("{}", ledger.closing()),
        false => say!("the ledger is of the run's end: the files no longer hold all of it\n"),
    }
}

/// Prints the origin of a run that `fluxline gather` made.
fn print_gathered(document: &Value) {
    let gathered = &document["gathered"];
    let partitions = gathered["partitions"].as_array().map_or(0, Vec::len);
    say!(
        "\ngathered from {}: run {}, {partitions} partitions; the ledger of all nodes: fluxline \
         inspect kafka://BROKER:PORT/CLUSTER --run {}\n",
        gathered["from"].as_str().unwrap_or("an unknown place"),
        gathered["run"],
        gathered["run"]
    );
    if let Some(sentence) = document["sentence"].as_str() {
        say!("status {}: {sentence}\n", document["status"]);
    }
}
