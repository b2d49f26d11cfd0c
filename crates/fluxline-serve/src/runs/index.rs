//! The index of a run: the place of every event, and the sums by source and status.

use std::collections::BTreeMap;

use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::record::BatchMark;
use serde_json::{Value, json};

use super::reading::{VisitedBatch, Visitor};

/// Classes of delays: each is twice as long as the one before, the first ends at 1 us.
const DELAY_CLASSES: usize = 32;

/// The contents of a run.
#[derive(Default)]
pub struct Index {
    /// The batches, in order.
    pub batches: Vec<IndexedBatch>,
    /// Number of events.
    pub events: u64,
    /// Number of events by status.
    pub by_status: BTreeMap<&'static str, u64>,
    /// The packets of each source.
    pub sources: BTreeMap<u32, SourceSum>,
    /// Number of events by the time from the last packet to the end of building.
    pub delays: [u64; DELAY_CLASSES],
}

/// A batch and its events.
#[derive(Clone, Copy, Debug)]
pub struct IndexedBatch {
    /// The mark by which it is read again.
    pub mark: BatchMark,
    /// The number of its first event in the run.
    pub first_event: u64,
    /// True when all its events are complete.
    pub is_whole: bool,
}

/// The packets of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceSum {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Visitor for Index {
    fn visit(&mut self, batch: &VisitedBatch<'_>) {
        let whole = |rows: &EventBatch| {
            rows.events.iter().all(|event| event.status == EventStatus::Complete)
        };
        self.batches.push(IndexedBatch {
            mark: batch.mark,
            first_event: self.events,
            is_whole: whole(batch.rows),
        });
        self.events += batch.rows.events.len() as u64;
        for event in &batch.rows.events {
            *self.by_status.entry(event.status.as_str()).or_default() += 1;
            let us = event.built.since(event.last).as_ns() / 1_000;
            let class = (u64::BITS - us.leading_zeros()) as usize;
            self.delays[class.min(DELAY_CLASSES - 1)] += 1;
        }
        for packet in &batch.rows.packets {
            let sum = self.sources.entry(packet.source).or_default();
            sum.packets += 1;
            sum.bytes += u64::from(packet.bytes);
        }
    }
}

impl Index {
    /// Returns the batches that may have events from number `from` on.
    pub fn batches_from(&self, from: u64) -> &[IndexedBatch] {
        let before = self.batches.partition_point(|batch| batch.first_event <= from);
        &self.batches[before.saturating_sub(1)..]
    }

    /// Returns the delays as JSON: the upper limits of classes with their counts.
    pub fn delay_counts(&self) -> Value {
        let filled = self.delays.iter().enumerate().filter(|(_, count)| **count > 0);
        let classes =
            filled.map(|(class, count)| json!({ "up_to_ns": 1_000u64 << class, "events": count }));
        classes.collect()
    }
}
