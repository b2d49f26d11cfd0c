//! The ledger: the place of every packet, by source, by input and by host; kept in run.json.
//!
//! Stages count for themselves (`crate::counters`). The ledger collects their counts at the end of
//! a run, or for a live view, and checks that they close (`laws.rs`). It gives the ends of the
//! received data (`outcome.rs`) and shows them (`table.rs`).

mod laws;
mod outcome;
mod page;
mod places;
mod remedies;
mod table;
#[cfg(test)]
mod tests;

use fluxline_core::planted;
use serde::{Deserialize, Serialize};

use crate::builder::{Amendment, SourceSummary};
use crate::event::{EventBatch, EventStatus, PacketRow};
use crate::missing_range::MissingRange;

pub use crate::counters::{
    BuilderCounters, EdgeCounters, FilterCounters, HostCounters, InputCounters, LoopCounters,
    PausedCounters, RemoteWriteCounters, SinkCounters, SourceCounters,
};
pub use laws::{LAWS, Law, LawResult, Needs};
pub use outcome::{Counted, Fate, OUTCOMES, Outcome, OutcomeRow, listed};
pub use page::counters_page;
pub use places::LostPlaces;
pub use table::align;

/// The place of every packet of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// One entry per input.
    pub inputs: Vec<InputEntry>,
    /// One entry per source, by source number.
    pub sources: Vec<SourceEntry>,
    /// Packets that the host dropped during the run.
    pub host: HostCounters,
    /// Counters of the edges between nodes; `None` where all is one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<EdgeCounters>,
    /// Counters of the feedback loop; `None` without one.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub feedback: Option<LoopCounters>,
    /// Counters of the event builder.
    pub builder: BuilderCounters,
    /// The part of the counters above that belongs to armed and paused time; its events are in no
    /// file.
    pub paused: PausedCounters,
    /// Counters of the filter.
    pub filter: FilterCounters,
    /// The reasons why packets were rejected.
    pub rejects: Vec<RejectEntry>,
    /// An emulator's counts of sent packets.
    pub truth: Option<Truth>,
    /// The places of the events that a sink was given; `None` without a sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkCounters>,
    /// Incomplete events of the files, with late fragments joined and by all evidence; `None`:
    /// those of the builder, as they closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete_in_files: Option<u64>,
    /// Findings about sources in events after these were closed.
    pub amendments: Vec<Amendment>,
}

/// One input of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputEntry {
    /// Its name in reports: an address and port, a file.
    pub name: String,
    /// Its counters.
    pub counters: InputCounters,
    /// Counters of the frames that peers write into memory; zeros for other links.
    pub remote: RemoteWriteCounters,
}

/// One source of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceEntry {
    /// Its label in reports.
    pub label: String,
    /// Number of its format.
    pub format: u16,
    /// Time of arrival of its first packet \[ns since 1970\].
    pub first_time_ns: u64,
    /// Time of arrival of its last packet \[ns since 1970\].
    pub last_time_ns: u64,
    /// The first number that came, unwrapped.
    pub first_sequence: Option<u64>,
    /// The number that came last, unwrapped.
    pub last_sequence: Option<u64>,
    /// Counters of its packets.
    pub counters: SourceCounters,
    /// Its summary by the event builder, with its state at the end.
    pub events: SourceSummary,
    /// The missing numbers.
    pub missing: Vec<MissingRange>,
    /// Number of missing packets that `missing` does not name.
    pub missing_not_listed: u64,
}

/// Packets rejected for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectEntry {
    /// Number of the format that rejected them.
    pub format: u16,
    /// The reason in words.
    pub reason: String,
    /// Number of the packet type whose rule they broke.
    pub packet: u8,
    /// Number of the rule's field; 65535 for none.
    pub field: u16,
    /// Number of packets; for kinds beyond the table all together, without a first one.
    pub packets: u64,
    /// The sender of the first one.
    pub first_sender: String,
    /// Time of arrival of the first one \[ns since 1970\].
    pub first_time_ns: u64,
    /// Its size \[byte\].
    pub first_bytes: u64,
    /// Its first bytes in hex (at most [`REJECT_HEX_BYTES_MAX`]).
    pub first_hex: String,
}

/// Most bytes of a rejected packet that the ledger shows.
pub const REJECT_HEX_BYTES_MAX: usize = 64;

/// An emulator's counts of sent packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Truth {
    /// Datagrams that it sent to the link, duplicates included.
    pub sent: u64,
    /// Packet numbers that it used up, of packets withheld on purpose too.
    pub numbered: u64,
    /// Datagrams of this run that were dropped outside the inputs' counters (network card, softnet,
    /// ...), as far as known.
    pub dropped_elsewhere: u64,
}

/// The fate of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFate {
    /// It is written.
    Recorded,
    /// It could not be written.
    Failed,
    /// It was not meant to be written.
    NotRecorded,
    /// The filter rejected it.
    Filtered,
}

impl Ledger {
    /// Adds the fate of a batch that was given to the recorder. Cost: one pass over its rows.
    pub fn note_batch(&mut self, batch: &EventBatch, fate: BatchFate) {
        self.note_packets(&batch.packets, fate);
    }

    /// Adds the fate of some packets of a batch.
    pub fn note_packets(&mut self, packets: &[PacketRow], fate: BatchFate) {
        for row in packets {
            let counters = &mut self.source(row.source).counters;
            match fate {
                BatchFate::Recorded => {
                    counters.recorded += 1;
                    counters.bytes_recorded += u64::from(row.bytes);
                }
                BatchFate::Failed if planted!(20) => counters.recorded += 1,
                BatchFate::Failed => counters.write_failed += 1,
                BatchFate::NotRecorded => counters.not_recorded += 1,
                BatchFate::Filtered => counters.filtered += 1,
            }
        }
    }

    /// Adds the events of a batch that a builder closed and recorded, and their packets.
    ///
    /// For builders that left files and no counts. Cost: one pass over its rows.
    pub fn note_recorded_events(&mut self, batch: &EventBatch) {
        self.note_batch(batch, BatchFate::Recorded);
        let mut packets = batch.packets.iter();
        for event in &batch.events {
            let builder = &mut self.builder;
            match event.status {
                EventStatus::Complete => builder.events_complete += 1,
                EventStatus::Incomplete => builder.events_incomplete += 1,
                EventStatus::Stopped => builder.events_stopped += 1,
                EventStatus::Late => {}
            }
            for row in packets.by_ref().take(event.packets as usize) {
                let counters = &mut self.source(row.source).counters;
                match event.status {
                    EventStatus::Complete => counters.in_complete += 1,
                    EventStatus::Incomplete | EventStatus::Stopped => counters.in_incomplete += 1,
                    EventStatus::Late => counters.in_late += 1,
                }
            }
        }
    }

    /// Returns the counters of all inputs together.
    #[must_use]
    pub fn input_totals(&self) -> InputCounters {
        let mut totals = InputCounters::default();
        self.inputs.iter().for_each(|entry| totals.merge(&entry.counters));
        totals
    }

    /// Returns the counters of all inputs that peers write into memory, together.
    #[must_use]
    pub fn remote_totals(&self) -> RemoteWriteCounters {
        let mut totals = RemoteWriteCounters::default();
        self.inputs.iter().for_each(|entry| totals.merge(&entry.remote));
        totals
    }

    /// Returns the counters of all sources together.
    #[must_use]
    pub fn source_totals(&self) -> SourceCounters {
        let mut totals = SourceCounters::default();
        self.sources.iter().for_each(|entry| totals.merge(&entry.counters));
        totals
    }

    /// Returns the entry of a source; made when it is new.
    pub(crate) fn source(&mut self, number: u32) -> &mut SourceEntry {
        let place = number as usize;
        if self.sources.len() <= place {
            self.sources.resize_with(place + 1, SourceEntry::default);
        }
        &mut self.sources[place]
    }
}
