//! The laws of a run over several machines: sums that must be equal, at every moment of the run.
//!
//! A law that does not hold means that packets were counted twice or left out: a defect of the
//! program, or somebody changed a block. Loss is allowed; a packet without a place is not.

use fluxline_core::counters::Row;
use fluxline_daq::ledger::LawResult;

use super::block::{PartitionCounters, ReadoutCounters, SourceBlock};
use super::built::PartitionRow;
use super::edges::Edge;
use super::ledger::{ClusterLedger, NodeRow};
use super::life::Life;
use super::places::Fate;
use crate::build::SinkSums;

/// Two sums of counters that must be equal.
struct Law {
    name: &'static str,
    left: &'static [&'static str],
    right: &'static [&'static str],
}

const READOUT: &[Law] = &[
    Law {
        name: "taken = rejected + refused + no memory + parsed",
        left: &["taken"],
        right: &["rejected", "sources_refused", "memory_full", "parsed"],
    },
    Law {
        name: "parsed = duplicate + late + held + put into records",
        left: &["parsed"],
        right: &["duplicate", "late", "held", "routed"],
    },
    Law {
        name: "put into records = handed over + waiting for the log",
        left: &["routed"],
        right: &["handed", "waiting"],
    },
];

/// The law of a readout whose rings are empty.
const READOUT_AT_END: Law = Law {
    name: "received = dropped at the ring + truncated + taken",
    left: &["received"],
    right: &["ring_full", "truncated", "taken"],
};

const PARTITION: &[Law] = &[
    Law {
        name: "taken = in events + late + refused + duplicate + inconsistent + in open events",
        left: &["taken"],
        right: &[
            "in_complete",
            "in_incomplete",
            "in_late",
            "late_dropped",
            "builder_full",
            "event_duplicate",
            "inconsistent",
            "in_open",
        ],
    },
    Law {
        name: "in events + late = in batches + closed + filtered + counted only",
        left: &["in_complete", "in_incomplete", "in_late"],
        right: &["in_batches", "in_closed", "filtered", "not_recorded"],
    },
];

/// The law of a partition that has ended and has a filter.
const FILTER_AT_END: Law = Law {
    name: "closed events = kept by the filter + filtered + undecided",
    left: &["events_complete", "events_incomplete", "events_stopped"],
    right: &["events_kept", "events_filtered", "events_undecided"],
};

fn sum<'a>(rows: impl Iterator<Item = (&'static Row, u64)> + 'a, names: &[&str]) -> u64 {
    let of = rows.filter(|(row, _)| names.contains(&row.name)).map(|(_, value)| value);
    of.fold(0, u64::saturating_add)
}

impl Law {
    fn of_readout(&self, node: &str, counters: &ReadoutCounters) -> LawResult {
        let (left, right) = (sum(counters.rows(), self.left), sum(counters.rows(), self.right));
        LawResult { name: format!("{node}: {}", self.name), left, right }
    }

    fn of_partition(&self, partition: u32, counters: &PartitionCounters) -> LawResult {
        let (left, right) = (sum(counters.rows(), self.left), sum(counters.rows(), self.right));
        LawResult { name: format!("partition {partition}: {}", self.name), left, right }
    }
}

impl ClusterLedger {
    /// Checks every law: of each node, of each edge, of each partition, and of all together.
    #[must_use]
    pub fn check(&self) -> Vec<LawResult> {
        let mut laws = Vec::new();
        self.readouts().for_each(|row| laws.extend(readout_laws(row)));
        laws.extend(self.one_process_each());
        for ((_, start, partition), edge) in &self.edges {
            let name = format!("{} (start {start}) to partition {partition}", edge.node);
            laws.extend(edge_laws(&name, edge));
        }
        self.built.values().for_each(|row| laws.extend(partition_laws(row)));
        laws.push(self.total_law());
        if self.is_over() {
            let name = "after the end: in flight = 0".to_owned();
            laws.push(LawResult { name, left: self.sum_of(Fate::InFlight), right: 0 });
        }
        laws
    }

    /// Returns true when every law holds.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.check().iter().all(LawResult::holds)
    }

    /// Compares the received data with the sum of all places.
    fn total_law(&self) -> LawResult {
        let places = self.places().into_iter().map(|place| place.count);
        LawResult {
            name: "received = in events + in flight + each named place".to_owned(),
            left: self.received(),
            right: places.fold(0, u64::saturating_add),
        }
    }

    /// Compares the number of processes with the number of starts of each readout.
    fn one_process_each(&self) -> Vec<LawResult> {
        let mut found = std::collections::BTreeMap::new();
        for row in self.readouts() {
            let block = &row.seen.block;
            let number = block.readout.as_ref().map_or(0, |readout| readout.number);
            let count = found.entry((number, block.start)).or_insert((&block.node, 0));
            count.1 += 1;
        }
        let result = |((_, start), (node, count)): ((u16, u32), (&String, u64))| LawResult {
            name: format!("{node}: processes of start {start}"),
            left: count,
            right: 1,
        };
        found.into_iter().map(result).filter(|result| !result.holds()).collect()
    }
}

fn readout_laws(row: &NodeRow) -> Vec<LawResult> {
    let block = &row.seen.block;
    let Some(readout) = &block.readout else { return Vec::new() };
    let name = format!("{} (start {})", block.node, block.start);
    let counters = &readout.counters;
    let mut laws: Vec<LawResult> =
        READOUT.iter().map(|law| law.of_readout(&name, counters)).collect();
    if row.life == Life::Ended {
        laws.push(READOUT_AT_END.of_readout(&name, counters));
    }
    let over = |of: fn(&super::Delivery) -> u64| {
        readout.deliveries.iter().map(of).fold(0, u64::saturating_add)
    };
    if readout.listed.len() as u64 == readout.sources {
        let over = |of: fn(&SourceBlock) -> u64| {
            readout.listed.iter().map(of).fold(0, u64::saturating_add)
        };
        laws.push(LawResult {
            name: format!("{name}: parsed = sum over the sources"),
            left: counters.parsed,
            right: over(|source| source.packets),
        });
        laws.push(LawResult {
            name: format!("{name}: lost before = sum over the sources"),
            left: counters.lost,
            right: over(|source| source.lost),
        });
    }
    laws.push(LawResult {
        name: format!("{name}: handed over = sum over the partitions"),
        left: counters.handed,
        right: over(|delivery| delivery.packets),
    });
    laws.push(LawResult {
        name: format!("{name}: waiting = sum over the partitions"),
        left: counters.waiting,
        right: over(|delivery| delivery.waiting),
    });
    laws
}

fn edge_laws(name: &str, edge: &Edge) -> Vec<LawResult> {
    let mut laws = vec![LawResult {
        name: format!(
            "{name}: arrived = taken + waiting + missing + torn + outdated + after the end"
        ),
        left: edge.taken.packets,
        right: edge.taken.taken.saturating_add(edge.taken.held).saturating_add(edge.set_aside()),
    }];
    if edge.is_final {
        laws.push(LawResult {
            name: format!("{name}: handed over = arrived + in flight + lost"),
            left: edge.put(),
            right: edge.taken.packets.saturating_add(edge.in_flight()).saturating_add(edge.lost()),
        });
    }
    laws
}

fn partition_laws(row: &PartitionRow) -> Vec<LawResult> {
    let (partition, counters) = (row.block.partition, &row.block.counters);
    let mut laws: Vec<LawResult> =
        PARTITION.iter().map(|law| law.of_partition(partition, counters)).collect();
    let taken = row.block.taken.iter().map(|taken| taken.taken);
    laws.push(LawResult {
        name: format!("partition {partition}: taken = sum over the readouts"),
        left: counters.taken,
        right: taken.fold(0, u64::saturating_add),
    });
    if row.block.ended && sum(counters.rows(), FILTER_AT_END.right) > 0 {
        laws.push(FILTER_AT_END.of_partition(partition, counters));
    }
    if let Some(committed) = row.committed.filter(|of| of.sink != SinkSums::default()) {
        let SinkSums { sent, refused, unmapped, .. } = committed.sink;
        laws.push(LawResult {
            name: format!(
                "partition {partition}: committed events = sent to the sink + refused + unmapped"
            ),
            left: committed.events,
            right: sent.saturating_add(refused).saturating_add(unmapped),
        });
    }
    if let Some(committed) = row.committed {
        // The builder's sums are over more batches while its last ones are not committed.
        let is_all = committed.batches == counters.batches;
        let more = counters.in_batches.saturating_sub(committed.packets);
        laws.push(LawResult {
            name: format!("partition {partition}: packets in batches = in committed ones"),
            left: counters.in_batches,
            right: committed.packets.saturating_add(if is_all { 0 } else { more }),
        });
        let more = counters.events.saturating_sub(committed.events);
        laws.push(LawResult {
            name: format!("partition {partition}: events in batches = in committed ones"),
            left: counters.events,
            right: committed.events.saturating_add(if is_all { 0 } else { more }),
        });
    }
    if row.is_over() {
        laws.push(LawResult {
            name: format!("partition {partition}: batches = committed batches"),
            left: counters.batches,
            right: row.batches,
        });
    }
    if let Some((builder, taken)) = &row.other {
        let name =
            format!("partition {partition}: {} and {builder} count differently, by", row.builder);
        laws.push(LawResult { name, left: counters.taken.abs_diff(*taken).max(1), right: 0 });
    }
    laws
}
