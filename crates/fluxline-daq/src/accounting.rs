//! Collects the counts of the stages in the ledger.
//!
//! Stages keep their own counts and do not depend on the ledger. The ledger has counters and laws
//! and does not depend on stages. This file joins them.

use fluxline_core::Moment;

use crate::builder::Builder;
use crate::ledger::{Ledger, REJECT_HEX_BYTES_MAX, RejectEntry};
use crate::readout::Readout;

impl Ledger {
    /// Returns this ledger, which noted batches, inputs and host, with the counts of readout and
    /// builder. Call it once for each snapshot; the ledger itself does not change.
    #[must_use]
    pub fn with(&self, readout: &Readout, builder: &Builder) -> Ledger {
        let mut ledger = self.with_counts(readout, builder);
        for (number, source) in readout.sources().iter().enumerate() {
            let entry = ledger.source(number as u32);
            for (_, tracker) in source.trackers() {
                entry.missing.extend(tracker.missing());
                entry.missing_not_listed += tracker.missing_not_listed();
            }
        }
        ledger.amendments.extend_from_slice(builder.amendments());
        ledger
    }

    /// Does the same as [`Self::with`] without the lists of missing numbers and silent ranges,
    /// which grow during a run: for a live view.
    #[must_use]
    pub fn with_counts(&self, readout: &Readout, builder: &Builder) -> Ledger {
        let mut ledger = self.clone();
        for (number, source) in readout.sources().iter().enumerate() {
            let entry = ledger.source(number as u32);
            entry.label.clone_from(&source.label);
            entry.format = source.format;
            entry.first_time_ns = source.first_time.as_ns();
            entry.last_time_ns = source.last_time.as_ns();
            entry.first_sequence = source.first_sequence;
            entry.last_sequence = source.last_sequence;
            entry.counters.merge(&source.counters());
        }
        for (number, counters) in builder.source_counters().iter().enumerate() {
            ledger.source(number as u32).counters.merge(counters);
        }
        for (number, summary) in builder.summary().into_iter().enumerate() {
            ledger.source(number as u32).events = summary;
        }
        ledger.builder.merge(&builder.counters());
        ledger.note_rejects(readout);
        ledger
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
