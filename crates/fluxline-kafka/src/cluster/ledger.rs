//! The ledger of a run over several machines: the sum of all blocks and commits.
//!
//! It is a pure function of the things that an observer saw. Each partition counts once, by the
//! builder that has come furthest: the counts follow from the records alone, so a builder that took
//! over counts the packets of the one before, too.

use std::collections::BTreeMap;

use super::block::{PartitionCounters, ReadoutCounters, Role};
use super::built::{PartitionRow, built_of};
use super::edges::{Edge, edges_of};
use super::life::{Life, life_of};
use super::observed::{BatchSums, Committed, Observed, Seen};
use super::sources::Sources;

/// The ledger of a run over several machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterLedger {
    /// The cluster's name.
    pub cluster: String,
    /// The run.
    pub run: u64,
    /// Number of partitions.
    pub partitions: u32,
    /// Readout nodes of the run without any block.
    pub silent: Vec<String>,
    /// All processes: readouts by name and start, then builders.
    pub nodes: Vec<NodeRow>,
    /// The edges, by number of the node, start and partition.
    pub edges: BTreeMap<(u16, u32, u32), Edge>,
    /// The partitions with a builder.
    pub built: BTreeMap<u32, PartitionRow>,
    /// The sources.
    pub sources: Sources,
    /// The sums over all committed batches.
    pub committed: BatchSums,
    /// Records of somebody else in the topics of blocks and commits.
    pub foreign: u64,
    /// An operator abandoned the run: it has ended, and was not built to its end.
    pub abandoned: bool,
    /// Builders count events and record none.
    pub paused: bool,
    /// Ends of received data that the experiment accepts.
    pub accept: Vec<String>,
}

/// A process of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// Its newest block.
    pub seen: Seen,
    /// Its state.
    pub life: Life,
}

impl ClusterLedger {
    /// Sums the blocks and commits of a run.
    #[must_use]
    pub fn of(observed: &Observed) -> ClusterLedger {
        let mut nodes: Vec<NodeRow> = observed
            .blocks
            .iter()
            .map(|seen| NodeRow { life: life_of(seen, &observed.blocks), seen: seen.clone() })
            .collect();
        nodes.sort_by(|a, b| place_of(a).cmp(&place_of(b)));
        let built = built_of(observed);
        let mut committed = BatchSums::default();
        for of in observed.commits.values().map(Committed::total) {
            committed.batches += of.batches;
            committed.events = committed.events.saturating_add(of.events);
            committed.refused = committed.refused.saturating_add(of.refused);
            committed.sink.add(&of.sink);
            committed.packets = committed.packets.saturating_add(of.packets);
        }
        let deliveries = observed.blocks.iter().filter_map(|seen| seen.block.readout.as_ref());
        let most = deliveries.map(|readout| readout.deliveries.len() as u32).max().unwrap_or(0);
        let has_block = |name: &&String| nodes.iter().any(|row| row.seen.block.node == **name);
        let silent = observed.readouts.iter().filter(|name| !has_block(name)).cloned().collect();
        let partitions = observed.partitions.max(most);
        let of_run = |partition| built.get(&partition).is_some_and(PartitionRow::is_over);
        let is_built = partitions > 0 && (0..partitions).all(of_run);
        let newest = observed.blocks.iter().max_by_key(|seen| seen.block.incarnation);
        ClusterLedger {
            cluster: observed.cluster.clone(),
            run: observed.run,
            partitions,
            edges: edges_of(observed, &built),
            sources: Sources::of(observed, &built),
            silent,
            nodes,
            built,
            committed,
            foreign: observed.foreign,
            abandoned: observed.abandoned && !is_built,
            paused: observed.paused,
            accept: newest.map_or(Vec::new(), |seen| seen.block.accept.clone()),
        }
    }

    /// Returns true when the run has ended: every partition has seen the end of every readout, and
    /// all batches are committed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.partitions > 0
            && (0..self.partitions)
                .all(|partition| self.built.get(&partition).is_some_and(PartitionRow::is_over))
            && self.readouts().all(|row| row.life != Life::Alive)
    }

    /// Returns the readout nodes.
    pub fn readouts(&self) -> impl Iterator<Item = &NodeRow> {
        self.nodes.iter().filter(|row| row.seen.block.role == Role::Readout)
    }

    /// Returns the counters of all readout nodes together.
    #[must_use]
    pub fn readout_totals(&self) -> ReadoutCounters {
        let mut totals = ReadoutCounters::default();
        let blocks = self.readouts().filter_map(|row| row.seen.block.readout.as_ref());
        blocks.for_each(|readout| totals.merge(&readout.counters));
        totals
    }

    /// Returns the counters of all partitions together.
    #[must_use]
    pub fn partition_totals(&self) -> PartitionCounters {
        let mut totals = PartitionCounters::default();
        self.built.values().for_each(|row| totals.merge(&row.block.counters));
        totals
    }

    /// Returns the sum of a number over all edges.
    pub fn over_edges(&self, of: impl Fn(&Edge) -> u64) -> u64 {
        self.edges.values().map(of).fold(0, u64::saturating_add)
    }
}

fn place_of(row: &NodeRow) -> (bool, &str, &str, u32, u64) {
    let block = &row.seen.block;
    (block.role == Role::Builder, &block.node, &block.id, block.start, block.incarnation)
}
