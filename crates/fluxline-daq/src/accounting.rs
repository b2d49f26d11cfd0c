//! Collects the counts of the stages in the ledger.
//!
//! Stages keep their own counts and do not depend on the ledger. The ledger has counters and laws
//! and does not depend on stages. This file joins them: those of one machine, and of several nodes.

use fluxline_core::Moment;

use crate::builder::{Amendment, Builder};
use crate::ledger::{Ledger, REJECT_HEX_BYTES_MAX, RejectEntry, SourceEntry};
use crate::readout::Readout;

impl Ledger {
    /// Adds the counts of another ledger; `number` returns the number of its sources here. Where
    /// both have a source, one is of a readout and the others are of builders.
    pub fn add(&mut self, other: &Ledger, number: impl Fn(u32) -> u32) {
        for (own, entry) in (0..).zip(&other.sources) {
            self.source(number(own)).add(entry);
        }
        self.builder.merge(&other.builder);
        if other.edges.is_some() {
            self.edges.clone_from(&other.edges);
        }
        if other.feedback.is_some() {
            self.feedback.clone_from(&other.feedback);
        }
        self.rejects.extend(other.rejects.iter().cloned());
        for amendment in &other.amendments {
            let amendment = Amendment { source: number(amendment.source), ..amendment.clone() };
            // Several builders find the same.
            if !self.amendments.contains(&amendment) {
                self.amendments.push(amendment);
            }
        }
    }

    /// Returns this ledger, which noted batches, inputs and host, with the counts of readout and
    /// builder. Call it once for each snapshot; the ledger itself does not change.
    #[must_use]
    pub fn with(&self, readout: &Readout, builder: &Builder) -> Ledger {
        let mut ledger = self.with_counts(readout, builder);
        ledger.add_missing(readout);
        ledger.add_amendments(builder);
        ledger
    }

    /// Does the same as [`Self::with`] without the lists of missing numbers and silent ranges,
    /// which grow during a run: for a live view.
    #[must_use]
    pub fn with_counts(&self, readout: &Readout, builder: &Builder) -> Ledger {
        let mut ledger = self.clone();
        ledger.add_readout(readout);
        ledger.add_builder(builder);
        ledger
    }

    /// Adds the counts of a readout.
    pub fn add_readout(&mut self, readout: &Readout) {
        for (number, source) in (0..).zip(readout.sources()) {
            let entry = self.source(number);
            entry.label.clone_from(&source.label);
            entry.format = source.format;
            entry.first_time_ns = source.first_time.as_ns();
            entry.last_time_ns = source.last_time.as_ns();
            entry.first_sequence = source.first_sequence;
            entry.last_sequence = source.last_sequence;
            entry.counters.merge(&source.counters());
        }
        self.note_rejects(readout);
    }

    /// Adds the lists of missing numbers of a readout.
    pub fn add_missing(&mut self, readout: &Readout) {
        for (number, source) in (0..).zip(readout.sources()) {
            let entry = self.source(number);
            for (_, tracker) in source.trackers() {
                entry.missing.extend(tracker.missing());
                entry.missing_not_listed += tracker.missing_not_listed();
            }
        }
    }

    /// Adds the counts of a builder.
    pub fn add_builder(&mut self, builder: &Builder) {
        for (number, counters) in (0..).zip(builder.source_counters()) {
            self.source(number).counters.merge(counters);
        }
        for (number, summary) in (0..).zip(builder.summary()) {
            self.source(number).events = summary;
        }
        self.builder.merge(&builder.counters());
    }

    /// Adds the findings of a builder about sources in events that it had closed.
    pub fn add_amendments(&mut self, builder: &Builder) {
        self.amendments.extend(builder.amendments());
    }

    fn note_rejects(&mut self, readout: &Readout) {
        for row in readout.rejects() {
            let shown = &row.first_bytes[..row.first_bytes.len().min(REJECT_HEX_BYTES_MAX)];
            self.rejects.push(RejectEntry {
                format: row.format,
                reason: row.reject.reason.as_str().to_owned(),
                packet: row.reject.packet,
                field: row.reject.field,
                packets: row.packets,
                first_sender: row.first_sender.to_string(),
                first_time_ns: Moment::as_ns(row.first_time),
                first_bytes: row.first_bytes.len() as u64,
                first_hex: shown.iter().map(|byte| format!("{byte:02x}")).collect(),
            });
        }
        if readout.rejects_other() > 0 {
            self.rejects.push(RejectEntry {
                reason: "other reasons".to_owned(),
                field: u16::MAX,
                packets: readout.rejects_other(),
                ..RejectEntry::default()
            });
        }
    }
}

impl SourceEntry {
    fn add(&mut self, other: &SourceEntry) {
        if self.label.is_empty() {
            self.label.clone_from(&other.label);
        }
        if other.counters.parsed > 0 {
            self.format = other.format;
            self.first_time_ns = other.first_time_ns;
            self.last_time_ns = other.last_time_ns;
            self.first_sequence = other.first_sequence;
            self.last_sequence = other.last_sequence;
        }
        self.counters.merge(&other.counters);
        self.events.merge(other.events.clone());
        self.missing.extend(other.missing.iter().cloned());
        self.missing_not_listed += other.missing_not_listed;
    }
}
