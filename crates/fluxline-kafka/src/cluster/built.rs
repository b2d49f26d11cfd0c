//! The builder of each partition that has come furthest: its counts are those of the partition.

use std::collections::BTreeMap;

use super::block::PartitionBlock;
use super::life::{Life, life_of};
use super::observed::{BatchSums, Committed, Observed};

/// The builder of a partition that has come furthest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionRow {
    /// Its counts.
    pub block: PartitionBlock,
    /// Name of the builder.
    pub builder: String,
    /// Its state allows it to go on.
    pub is_alive: bool,
    /// The committed batches, as far as the block has them.
    pub committed: Option<BatchSums>,
    /// Number of all committed batches.
    pub batches: u64,
    /// A builder that has come as far and counts otherwise: its name and its packets taken.
    pub other: Option<(String, u64)>,
}

impl PartitionRow {
    /// Returns true when the partition has ended and all its batches are committed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.block.ended && self.batches >= self.block.counters.batches
    }

    /// Returns the packets in committed batches, as far as the block has them.
    #[must_use]
    pub fn packets_committed(&self) -> u64 {
        self.committed.map_or(self.block.counters.in_batches, |sums| sums.packets)
    }

    /// Returns the packets in batches that are not committed yet.
    #[must_use]
    pub fn not_committed(&self) -> u64 {
        match self.batches >= self.block.counters.batches {
            true => 0,
            false => self.block.counters.in_batches.saturating_sub(self.packets_committed()),
        }
    }
}

/// Returns the builder of each partition that has come furthest.
pub(super) fn built_of(observed: &Observed) -> BTreeMap<u32, PartitionRow> {
    let mut built: BTreeMap<u32, PartitionRow> = BTreeMap::new();
    for seen in &observed.blocks {
        let life = life_of(seen, &observed.blocks);
        let is_alive = life == Life::Alive;
        for block in seen.block.builder.iter().flat_map(|builder| &builder.partitions) {
            let row = PartitionRow {
                block: block.clone(),
                builder: seen.block.id.clone(),
                is_alive,
                ..PartitionRow::default()
            };
            match built.get_mut(&block.partition) {
                None => {
                    built.insert(block.partition, row);
                }
                Some(best) => choose(best, row),
            }
        }
    }
    for (partition, row) in &mut built {
        let none = Committed::default();
        let committed = observed.commits.get(partition).unwrap_or(&none);
        row.batches = committed.total().batches;
        row.committed = committed.first(row.block.counters.batches);
    }
    built
}

/// Keeps the one of two builders of a partition that has come further.
fn choose(best: &mut PartitionRow, row: PartitionRow) {
    // Packets of the last record may not all be taken yet.
    let reached = |row: &PartitionRow| {
        let counters = &row.block.counters;
        (row.block.next_offset, row.block.ended, counters.taken, counters.batches)
    };
    if reached(&row) == reached(best) {
        let (a, b) = (&row.block.counters, &best.block.counters);
        if a.in_batches != b.in_batches || row.block.taken != best.block.taken {
            best.other = Some((row.builder.clone(), row.block.counters.taken));
        }
        if row.is_alive && !best.is_alive {
            (best.builder, best.is_alive) = (row.builder, true);
        }
    } else if reached(&row) > reached(best) {
        *best = row;
    }
}
