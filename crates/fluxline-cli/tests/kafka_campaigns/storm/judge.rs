//! The judge of a storm: each packet is in exactly one event or in a named row.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::RunReader;
use serde_json::Value;

use super::lab::{PARTITIONS, StormLab};

/// Board and packet counter.
pub type Name = (u16, u32);

/// An event as an exported run has it, with the late fragments of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Status of each row of the key.
    pub rows: Vec<String>,
    pub packets: BTreeSet<Name>,
}

/// The events of a run, by their key.
pub type Events = BTreeMap<u64, Event>;

/// Returns the events of a run folder.
///
/// # Panics
/// Panics when a packet comes twice.
pub fn events_of(lab: &StormLab, run: &str) -> Events {
    let to = format!("{run}-rows");
    let columns = "key,status,event_key,source_id,packet_number";
    lab.done(&["export", run, "--to", "csv", "--columns", columns, "--into", &to]);
    let table = |name: &str| std::fs::read_to_string(lab.path(&to).join(name)).expect("a table");
    let mut events = Events::new();
    for row in table("events.csv").lines().skip(1) {
        let (key, status) = row.split_once(',').expect("two cells");
        let event = events.entry(key.parse().expect(row)).or_default();
        event.rows.push(status.to_owned());
    }
    let mut all = BTreeSet::new();
    for row in table("counter-data.csv").lines().skip(1) {
        let cells: Vec<u64> = row.split(',').map(|cell| cell.parse().expect(row)).collect();
        let name = (cells[1] as u16, cells[2] as u32);
        assert!(all.insert(name), "packet {name:?} is in two events of {run}");
        events.get_mut(&cells[0]).expect("its event").packets.insert(name);
    }
    events
}

/// Returns all packets of the events.
pub fn packets_of(events: &Events) -> BTreeSet<Name> {
    events.values().flat_map(|event| event.packets.iter().copied()).collect()
}

/// Gathers the run from the topic of events and from the run folders of all builders; the two must
/// have the same packets in each event.
pub fn gather(lab: &StormLab) -> Events {
    let address = lab.address();
    lab.done(&["gather", &address, "--into", "of-topic"]);
    let folders = std::fs::read_dir(lab.path("runs")).expect("run folders").flatten();
    let folders: Vec<String> =
        folders.map(|of| format!("runs/{}", of.file_name().display())).collect();
    let mut arguments = vec!["gather"];
    arguments.extend(folders.iter().map(String::as_str));
    arguments.extend(["--from", &address, "--into", "of-files"]);
    lab.done(&arguments);
    let (of_topic, of_files) = (events_of(lab, "of-topic"), events_of(lab, "of-files"));
    assert!(of_topic == of_files, "the events of the topic differ from those of the files");
    of_topic
}

/// Returns the number of events that the consumer of the topic has.
pub fn consumed(lab: &StormLab) -> u64 {
    consumed_keys(lab).values().sum()
}

/// Returns how often the consumer of the topic has each key.
fn consumed_keys(lab: &StormLab) -> BTreeMap<u64, u64> {
    let text = std::fs::read_to_string(lab.path("consumed")).unwrap_or_default();
    let mut keys = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_suffix(" event")) {
        let (_, key) = line.split_once(' ').expect("the key of the record, and that of the event");
        *keys.entry(key.parse().expect("a number")).or_default() += 1;
    }
    keys
}

/// Returns how often the gathered run has each key: its event, and late fragments.
fn gathered_keys(lab: &StormLab) -> BTreeMap<u64, u64> {
    let mut reader = RunReader::open(&lab.path("of-topic")).expect("a run");
    let (mut batch, mut keys) = (EventBatch::default(), BTreeMap::new());
    while let Some(recorded) = reader.next_batch().expect("readable") {
        batch.clear();
        recorded.append_to(&mut batch).expect("rows");
        for event in &batch.events {
            *keys.entry(event.key.expect("built by key")).or_default() += 1;
        }
    }
    keys
}

/// Asserts that the consumer has each event and each late fragment of the gathered run once.
pub fn assert_consumed_once(lab: &StormLab) {
    let (consumed, gathered) = (consumed_keys(lab), gathered_keys(lab));
    let count = |of: &BTreeMap<u64, u64>, key| of.get(key).copied().unwrap_or(0);
    let keys: BTreeSet<&u64> = gathered.keys().chain(consumed.keys()).collect();
    let wrong = keys.into_iter().filter(|key| count(&consumed, key) != count(&gathered, key));
    let wrong: Vec<String> = wrong
        .map(|key| format!("{key}: {} of {}", count(&consumed, key), count(&gathered, key)))
        .collect();
    let first = &wrong[..wrong.len().min(20)];
    assert!(
        wrong.is_empty(),
        "the consumer has {} keys too often or too rarely: {first:?}",
        wrong.len()
    );
}

/// Returns true for the end of a builder with its run: status 0, or 7 with the reason when a
/// readout died in the run.
pub fn ended_with_its_run(status: Option<i32>, said: &str) -> bool {
    let names_reason = ["died", "has ended, but"].iter().any(|words| said.contains(words));
    status == Some(0) || (status == Some(7) && names_reason)
}

/// Checks the laws of the ledger, and that it names the loss of dead readouts and nothing else.
/// Returns the number of events and late fragments in committed batches.
pub fn assert_ledger(lab: &StormLab, built: u64, sent: u64) -> u64 {
    let (status, ledger) = lab.ledger();
    let number = |value: &Value| value.as_u64().expect("a number");
    assert_eq!(ledger["laws_open"].as_array().map(Vec::len), Some(0), "{ledger:#}");
    assert_eq!((&ledger["state"], number(&ledger["in_flight"])), (&"ended".into(), 0));
    assert_eq!(ledger["partitions"].as_array().map(Vec::len), Some(PARTITIONS as usize));
    assert_eq!(number(&ledger["committed"]["packets"]), built, "{ledger:#}");
    let places = ledger["places"].as_object().expect("places");
    let all: u64 = places.values().map(number).sum();
    assert_eq!(number(&ledger["received"]), all, "{ledger:#}");
    assert!(built <= all && all <= sent, "{built} built, {all} received, {sent} sent");
    let allowed = ["in_batches", "dead_readout", "not_in_log", "outdated", "socket_dropped"];
    let others = places
        .iter()
        .filter(|(name, count)| number(count) > 0 && !allowed.contains(&name.as_str()));
    let others: Vec<_> = others.collect();
    assert!(others.is_empty(), "{others:?} of {ledger:#}");
    let died = ledger["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|node| node["counters"].is_object() && node["state"] != "ended");
    let expected = if died || all > built { 7 } else { 0 };
    assert_eq!(status, Some(expected), "{ledger:#}");
    number(&ledger["committed"]["events"])
}
