//! Fills the blocks of nodes from their parts.

use fluxline_daq::builder::Expectation;
use fluxline_daq::ledger::{InputCounters, RemoteWriteCounters, SourceCounters};
use fluxline_daq::readout::Source;

use super::block::{
    GIVEN_UP_MAX, LABEL_BYTES_MAX, PartitionBlock, PartitionCounters, ReadoutBlock,
    ReadoutCounters, SOURCES_LISTED_MAX, SourceBlock,
};
use fluxline_cluster::{PartitionBuilder, ReadoutNode};

impl ReadoutBlock {
    /// Returns the counts of a readout node that gets its datagrams directly. Nodes with rings
    /// before them add [`ReadoutBlock::set_inputs`]. The sources that the experiment requires are
    /// listed first.
    #[must_use]
    pub fn of(node: &ReadoutNode, require: &Expectation) -> ReadoutBlock {
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
            listed: listed(node.readout().sources(), require),
            ..ReadoutBlock::default()
        }
    }

    /// Sets the counters of the links and rings before the node.
    pub fn set_inputs(&mut self, inputs: &InputCounters, remote: RemoteWriteCounters) {
        let counters = &mut self.counters;
        counters.received = inputs.datagrams;
        counters.bytes = inputs.bytes;
        counters.ring_full = inputs.ring_full;
        counters.truncated = inputs.truncated;
        counters.socket_dropped = inputs.socket_dropped;
        counters.frames_unusable = inputs.frames_unusable;
        counters.check_sum_wrong = inputs.check_sum_wrong;
        self.remote = remote;
    }
}

/// Lists sources, required ones first.
fn listed(sources: &[Source], require: &Expectation) -> Vec<SourceBlock> {
    let is_required = |source: &&Source| match require {
        Expectation::Sources(labels) => labels.contains(&source.label),
        Expectation::Count(_) | Expectation::Joined => false,
    };
    let short = || sources.iter().filter(|source| source.label.len() <= LABEL_BYTES_MAX);
    let first = short().filter(is_required);
    let others = short().filter(|source| !is_required(source));
    let row = |source: &Source| SourceBlock {
        label: source.label.clone(),
        input: source.format,
        packets: source.counters().parsed,
        lost: source.counters().lost,
        first_ns: source.first_time.as_ns(),
        last_ns: source.last_time.as_ns(),
    };
    first.chain(others).take(SOURCES_LISTED_MAX).map(row).collect()
}

impl PartitionBlock {
    /// Returns the counts of the builder of a partition.
    #[must_use]
    pub fn of(partition: u32, builder: &PartitionBuilder) -> PartitionBlock {
        let (counts, batches) = (builder.counts(), builder.in_batches());
        let events = builder.builder().counters();
        let filter = &builder.filtered().counters;
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
                filtered: builder.filtered().packets,
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
            given_up: builder.builder().given_up().take(GIVEN_UP_MAX).map(str::to_owned).collect(),
        }
    }
}
