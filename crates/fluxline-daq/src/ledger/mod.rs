//! The ledger: where every packet went, by source, by input and by host; kept in run.json.
//!
//! Stages count for themselves (`counters.rs`); the ledger gathers their counts at the end of a
//! run, or for a live view, checks that they close (`laws.rs`), says what became of the data that
//! was received (`outcome.rs`) and shows it (`table.rs`).

mod counters;
mod laws;
mod outcome;
mod page;
mod places;
mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::builder::{Amendment, SourceSummary};
use crate::event::EventBatch;
use crate::readout::sequence::MissingRange;

pub use counters::{
    BuilderCounters, HostCounters, InputCounters, RemoteWriteCounters, SourceCounters,
};
pub use laws::{LAWS, Law, LawResult, Needs};
pub use outcome::{Counted, Fate, OUTCOMES, Outcome, OutcomeRow, listed};
pub use page::counters_page;
pub use places::LostPlaces;

/// Where every packet of a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// One entry per input.
    pub inputs: Vec<InputEntry>,
    /// One entry per source, by source number.
    pub sources: Vec<SourceEntry>,
    /// What the host dropped while the run lasted.
    pub host: HostCounters,
    /// What the event builder did.
    pub builder: BuilderCounters,
    /// Why packets were rejected.
    pub rejects: Vec<RejectEntry>,
    /// What an emulator knows that it sent.
    pub truth: Option<Truth>,
    /// Where sources were silent, and proved later that they had sent nothing.
    pub amendments: Vec<Amendment>,
}

/// One input of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputEntry {
    /// What people call it: an address and port, a file.
    pub name: String,
    /// What it counted.
    pub counters: InputCounters,
    /// What became of the frames that peers write into memory; zeros for other links.
    pub remote: RemoteWriteCounters,
}

/// One source of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceEntry {
    /// What people call it.
    pub label: String,
    /// Number of its format.
    pub format: u16,
    /// When its first packet arrived \[ns since 1970\].
    pub first_time_ns: u64,
    /// When its last packet arrived \[ns since 1970\].
    pub last_time_ns: u64,
    /// The first number that came, unwrapped.
    pub first_sequence: Option<u64>,
    /// The number that came last, unwrapped.
    pub last_sequence: Option<u64>,
    /// Where its packets went.
    pub counters: SourceCounters,
    /// What events saw of it, and its state at the end.
    pub events: SourceSummary,
    /// The missing numbers.
    pub missing: Vec<MissingRange>,
    /// How many missing packets `missing` does not name.
    pub missing_not_listed: u64,
}

/// Packets rejected for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectEntry {
    /// Number of the format that rejected them.
    pub format: u16,
    /// Why, in words.
    pub reason: String,
    /// Number of the packet type whose rule they broke.
    pub packet: u8,
    /// Number of the rule's field; 65535 for none.
    pub field: u16,
    /// How many; of kinds beyond the table all together, without a first one.
    pub packets: u64,
    /// Who sent the first of them.
    pub first_sender: String,
    /// When the first of them arrived \[ns since 1970\].
    pub first_time_ns: u64,
    /// Its size \[byte\].
    pub first_bytes: u64,
    /// Its first bytes in hex (at most [`REJECT_HEX_BYTES_MAX`]).
    pub first_hex: String,
}

/// How many bytes of a rejected packet the ledger shows.
pub const REJECT_HEX_BYTES_MAX: usize = 64;

/// What an emulator knows that it sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Truth {
    /// Datagrams that it handed to the link, duplicates included.
    pub sent: u64,
    /// Packet numbers that it used up, of packets withheld on purpose too.
    pub numbered: u64,
    /// Datagrams that places outside the inputs' counters dropped (network card, softnet, ...), as
    /// far as they are known to be of this run.
    pub dropped_elsewhere: u64,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFate {
    /// It is written.
    Recorded,
    /// It could not be written.
    Failed,
    /// It was not to be written.
    NotRecorded,
}

impl Ledger {
    /// Notes what became of a batch that was given to the recorder. Cost: one pass over its rows.
    pub fn note_batch(&mut self, batch: &EventBatch, fate: BatchFate) {
        for row in &batch.packets {
            let counters = &mut self.source(row.source).counters;
            match fate {
                BatchFate::Recorded => {
                    counters.recorded += 1;
                    counters.bytes_recorded += u64::from(row.bytes);
                }
                BatchFate::Failed => counters.write_failed += 1,
                BatchFate::NotRecorded => counters.not_recorded += 1,
            }
        }
    }

    /// The counters of all inputs together.
    #[must_use]
    pub fn input_totals(&self) -> InputCounters {
        let mut totals = InputCounters::default();
        self.inputs.iter().for_each(|entry| totals.merge(&entry.counters));
        totals
    }

    /// The counters of all inputs that peers write into memory, together.
    #[must_use]
    pub fn remote_totals(&self) -> RemoteWriteCounters {
        let mut totals = RemoteWriteCounters::default();
        self.inputs.iter().for_each(|entry| totals.merge(&entry.remote));
        totals
    }

    /// The counters of all sources together.
    #[must_use]
    pub fn source_totals(&self) -> SourceCounters {
        let mut totals = SourceCounters::default();
        self.sources.iter().for_each(|entry| totals.merge(&entry.counters));
        totals
    }

    /// The entry of a source; made when it is new.
    pub(crate) fn source(&mut self, number: u32) -> &mut SourceEntry {
        let place = number as usize;
        if self.sources.len() <= place {
            self.sources.resize_with(place + 1, SourceEntry::default);
        }
        &mut self.sources[place]
    }
}
