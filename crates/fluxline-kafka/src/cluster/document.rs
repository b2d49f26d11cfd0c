//! The ledger of a run over several machines, as JSON for programs.

use fluxline_daq::ledger::LawResult;
use fluxline_run::SilentSource;
use serde_json::{Map, Value, json};

use super::block::Role;
use super::built::PartitionRow;
use super::edges::Edge;
use super::ledger::{ClusterLedger, NodeRow};
use super::places::Fate;
use super::sources::SourceRow;

impl ClusterLedger {
    /// Returns the ledger as JSON, without the verdict.
    #[must_use]
    pub fn document(&self) -> Value {
        let places: Map<String, Value> = self
            .places()
            .into_iter()
            .map(|place| (place.name.into(), place.count.into()))
            .collect();
        let laws = self.check();
        let open: Vec<&LawResult> = laws.iter().filter(|law| !law.holds()).collect();
        let totals = self.partition_totals();
        let edges = self.edges.iter().map(|((number, start, partition), edge)| {
            let mut row = edge_row(edge);
            row["number"] = (*number).into();
            row["start"] = (*start).into();
            row["partition"] = (*partition).into();
            row
        });
        json!({
            "cluster": self.cluster,
            "run": self.run,
            "state": self.state(),
            "received": self.received(),
            "in_flight": self.sum_of(Fate::InFlight),
            "lost": self.sum_of(Fate::Lost),
            "places": places,
            "events": {
                "complete": totals.events_complete, "incomplete": totals.events_incomplete,
                "stopped": totals.events_stopped, "open": totals.events_open,
            },
            "filter": {
                "kept": totals.events_kept, "filtered": totals.events_filtered,
                "undecided": totals.events_undecided, "marked": totals.events_marked,
                "late_filtered": totals.late_filtered,
            },
            "committed": {
                "batches": self.committed.batches, "events": self.committed.events,
                "packets": self.committed.packets, "events_refused": self.committed.refused,
            },
            "sink": self.committed.sink,
            "nodes": self.nodes.iter().map(node_row).collect::<Vec<_>>(),
            "without_block": self.silent,
            "edges": edges.collect::<Vec<_>>(),
            "sources": self.sources.rows.iter().map(source_row).collect::<Vec<_>>(),
            "sources_not_listed": self.sources.not_listed,
            "silent_sources": self.sources.silence().sources.iter().map(SilentSource::words)
                .collect::<Vec<_>>(),
            "partitions": self.built.values().map(partition_row).collect::<Vec<_>>(),
            "foreign_records": self.foreign,
            "laws": laws.len(),
            "laws_open": open,
        })
    }
}

fn node_row(row: &NodeRow) -> Value {
    let block = &row.seen.block;
    let mut document = json!({
        "node": block.node, "id": block.id, "start": block.start, "incarnation": block.incarnation,
        "state": row.life.as_str().to_lowercase(), "host": block.host, "pid": block.pid,
        "block": block.sequence, "quiet_s": row.seen.quiet.as_secs_f64(),
        "sentence": block.sentence,
    });
    if block.role == Role::Readout {
        document["counters"] = json!(block.readout.as_ref().map(|readout| &readout.counters));
    }
    document
}

fn source_row(row: &SourceRow) -> Value {
    json!({
        "label": row.times.label, "node": row.node, "packets": row.times.packets,
        "lost": row.lost, "first_ns": row.times.first_ns, "last_ns": row.times.last_ns,
    })
}

fn edge_row(edge: &Edge) -> Value {
    let taken = &edge.taken;
    json!({
        "node": edge.node, "handed_over": edge.put(), "arrived": taken.packets,
        "taken": taken.taken, "missing": taken.missing, "torn": taken.torn,
        "outdated": taken.outdated, "after_end": taken.after_end,
        "in_flight": edge.in_flight(), "lost": edge.lost(), "since_block": edge.since_block(),
    })
}

fn partition_row(row: &PartitionRow) -> Value {
    json!({
        "partition": row.block.partition, "builder": row.builder, "ended": row.is_over(),
        "next_offset": row.block.next_offset, "committed_batches": row.batches,
        "counters": row.block.counters,
    })
}
