//! A builder that was killed: it left files and no counts, so they are made from its files and from
//! what the readouts handed to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{BatchFate, Ledger};
use fluxline_daq::record::SourceLine;
use serde_json::{Value, json};

/// The counts of a killed builder, by its own numbers of sources.
#[derive(Debug, Default)]
pub struct KilledBuilder {
    /// The counts of what it recorded.
    pub ledger: Ledger,
    batches: u64,
    /// A successor has the counts of the events.
    is_counted_elsewhere: bool,
}

impl KilledBuilder {
    /// Makes the counts of no batch.
    pub fn new(is_counted_elsewhere: bool) -> KilledBuilder {
        KilledBuilder { is_counted_elsewhere, ..KilledBuilder::default() }
    }

    /// Counts a batch of its files.
    pub fn note(&mut self, batch: &EventBatch) {
        match self.is_counted_elsewhere {
            true => self.ledger.note_batch(batch, BatchFate::Recorded),
            false => self.ledger.note_recorded_events(batch),
        }
        self.batches += 1;
    }

    /// Names the sources, and returns the nodes and edges of run.json as if it had ended: it took
    /// what it recorded. `readout_of` gives the readout of a source's label.
    pub fn close(
        &mut self,
        name: &str,
        sources: &HashMap<u32, SourceLine>,
        readout_of: impl Fn(&str) -> Option<String>,
    ) -> Value {
        let mut taken: BTreeMap<String, u64> = BTreeMap::new();
        let mut packets = 0;
        for (number, entry) in self.ledger.sources.iter_mut().enumerate() {
            let line = sources.get(&(number as u32));
            entry.label = line.map(|line| line.name.clone()).unwrap_or_default();
            packets += entry.counters.recorded;
            let readout = readout_of(&entry.label).filter(|_| !self.is_counted_elsewhere);
            if let Some(readout) = readout {
                *taken.entry(readout).or_default() += entry.counters.recorded;
            }
        }
        let edges = taken
            .into_iter()
            .map(|(from, taken)| json!({ "from": from, "to": name, "taken": taken }));
        let of = &self.ledger.builder;
        json!({
            "readouts": [],
            "builders": [{
                "name": name, "killed": true, "packets": packets, "batches": self.batches,
                "events": of.events_complete + of.events_incomplete + of.events_stopped,
            }],
            "edges": edges.collect::<Vec<_>>(),
        })
    }
}

/// The readouts of sources, by the sources' labels.
#[derive(Debug, Default)]
pub struct Readouts {
    of_label: HashMap<String, String>,
    /// A readout of which no folder was given; unknown sources are its.
    pub absent: Option<String>,
}

impl Readouts {
    /// Adds the sources of a readout.
    pub fn add(&mut self, name: &str, ledger: &Ledger) {
        let labels = ledger.sources.iter().map(|entry| (entry.label.clone(), name.to_owned()));
        self.of_label.extend(labels);
    }

    /// Returns the readout of a source.
    pub fn of(&self, label: &str) -> Option<String> {
        self.of_label.get(label).or(self.absent.as_ref()).cloned()
    }

    /// Returns the first of these sources that no readout has; `None` where one has no folder.
    pub fn stranger<'a>(&self, sources: impl Iterator<Item = &'a SourceLine>) -> Option<&'a str> {
        let known: HashSet<&str> = self.of_label.keys().map(String::as_str).collect();
        let mut names = sources.map(|line| line.name.as_str());
        names.find(|name| self.absent.is_none() && !known.contains(name))
    }
}
