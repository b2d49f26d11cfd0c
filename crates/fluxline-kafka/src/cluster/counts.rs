//! Fills the blocks of nodes from their parts.

use fluxline_daq::ledger::{InputCounters, SourceCounters};

use super::block::{PartitionBlock, PartitionCounters, ReadoutBlock, ReadoutCounters};
use crate::build::{PartitionBuilder, ReadoutNode};

impl ReadoutBlock {
    /// Returns the counts of a readout node that gets its datagrams directly. Nodes with rings
    /// before them add [`ReadoutCounters::set_inputs`].
    #[must_use]
    pub fn of(node: &ReadoutNode) -> ReadoutBlock {
        let counts = node.counts();
        let mut sources = SourceCounters::default();
        node.readout().sources().iter().for_each(|source| sources.merge(&source.counters()));
        let deliveries = node.deliveries();
        let waiting = deliveries.iter().map(|delivery| delivery.waiting).sum();
        ReadoutBlock {
            number: node.number(),
            sources: node.readout().sources().len() as u64,
            counters: ReadoutCounters {
                received: counts.datagrams,
                taken: counts.datagrams,
                rejected: counts.rejected,
                sources_refused: node.readout().refused(),
                memory_full: counts.dropped,
                parsed: sources.parsed,
                duplicate: sources.duplicate,
                late: sources.late,
                held: sources.held,
                routed: sources.to_builder,
                handed: counts.handed,
                waiting,
                records: counts.records,
                record_bytes: counts.bytes,
                lost: sources.lost,
                ..ReadoutCounters::default()
            },
            deliveries,
            clock_set_ms: 0,
            clock_ahead_ms: 0,
        }
    }
}

impl ReadoutCounters {
    /// Sets the counters of the links and rings before the node.
    pub fn set_inputs(&mut self, inputs: &InputCounters) {
        self.received = inputs.datagrams;
        self.bytes = inputs.bytes;
        self.ring_full = inputs.ring_full;
        self.truncated = inputs.truncated;
        self.socket_dropped = inputs.socket_dropped;
    }
}

impl PartitionBlock {
    /// Returns the counts of the builder of a partition.
    #[must_use]
    pub fn of(partition: u32, builder: &PartitionBuilder) -> PartitionBlock {
        let (counts, batches) = (builder.counts(), builder.in_batches());
        let events = builder.builder().counters();
        let filter = builder.filtered().counters();
        let mut places = SourceCounters::default();
        builder.builder().source_counters().iter().for_each(|source| places.merge(source));
        PartitionBlock {
            partition,
            next_offset: builder.next_offset(),
            covers: batches.covers,
            ended: builder.is_ended(),
            counters: PartitionCounters {
                records: counts.records,
                taken: counts.taken,
                followed: counts.followed,
                records_repeated: counts.repeated,
                records_foreign: counts.foreign,
                records_outdated: counts.outdated,
                records_missing: counts.missing,
                records_torn: counts.torn,
                records_after_end: counts.after_end,
                left_out: counts.left_out,
                in_complete: places.in_complete,
                in_incomplete: places.in_incomplete,
                in_late: places.in_late,
                late_dropped: places.late_dropped,
                builder_full: places.builder_full,
                event_duplicate: places.event_duplicate,
                inconsistent: places.inconsistent,
                in_open: builder.builder().packets_open(),
                in_closed: builder.builder().packets_closed(),
                filtered: builder.filtered().packets(),
                not_recorded: builder.counted_only(),
                in_batches: batches.packets,
                batches: batches.batches,
                events: batches.events,
                events_complete: events.events_complete,
                events_incomplete: events.events_incomplete,
                events_stopped: events.events_stopped,
                events_open: u64::from(builder.builder().events_open()),
                events_kept: filter.events_kept,
                events_filtered: filter.events_filtered,
                events_undecided: filter.events_undecided,
                events_marked: filter.events_marked,
                late_filtered: filter.late_filtered,
            },
            taken: builder.taken().copied().collect(),
        }
    }
}
