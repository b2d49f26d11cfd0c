//! The edges of a run: the way of packets from each start of a readout node to each partition.
//!
//! The readout counts the packets that it handed over; the builder counts those that arrived. A
//! readout that died had handed over more than its last block says. So the builder's count of the
//! arrived packets is the true one, and the difference has a name.

use std::collections::BTreeMap;

use super::block::{Delivery, Taken};
use super::built::PartitionRow;
use super::life::{Life, life_of};
use super::observed::Observed;

/// The way of packets from one start of a readout node to one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// The readout's name.
    pub node: String,
    /// The counts of the readout's last block.
    pub delivery: Delivery,
    /// The counts of the most advanced builder.
    pub taken: Taken,
    /// The readout will hand over nothing more: it ended, failed, died or was replaced.
    pub is_sent: bool,
    /// The readout ended well: its counts are final and acknowledged.
    pub is_final: bool,
    /// The partition has ended: nothing more is taken.
    pub is_built: bool,
}

impl Edge {
    /// Returns the packets that the readout put into records, by its last block.
    #[must_use]
    pub fn put(&self) -> u64 {
        self.delivery.packets.saturating_add(self.delivery.waiting)
    }

    /// Returns the packets that arrived although the readout's last block does not have them.
    #[must_use]
    pub fn since_block(&self) -> u64 {
        self.taken.packets.saturating_sub(self.put())
    }

    /// Returns the packets that the readout put into records and that did not arrive.
    fn not_arrived(&self) -> u64 {
        self.put().saturating_sub(self.taken.packets)
    }

    /// Returns the packets that can still arrive.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        if self.is_lost() { 0 } else { self.not_arrived() }
    }

    /// Returns the packets that will not arrive: the readout or the log lost them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        if self.is_lost() { self.not_arrived() } else { 0 }
    }

    fn is_lost(&self) -> bool {
        self.is_sent && self.is_built
    }

    /// Returns the packets that arrived and are in a place of their own before the builder.
    #[must_use]
    pub fn set_aside(&self) -> u64 {
        let Taken { missing, torn, outdated, after_end, .. } = self.taken;
        [missing, torn, outdated, after_end].into_iter().fold(0, u64::saturating_add)
    }
}

/// Returns all edges, by number of the node, start and partition.
pub(super) fn edges_of(
    observed: &Observed,
    builders: &BTreeMap<u32, PartitionRow>,
) -> BTreeMap<(u16, u32, u32), Edge> {
    let mut edges: BTreeMap<(u16, u32, u32), Edge> = BTreeMap::new();
    let mut of_block: BTreeMap<(u16, u32), (u64, u64)> = BTreeMap::new();
    for seen in &observed.blocks {
        let block = &seen.block;
        let Some(readout) = &block.readout else { continue };
        let place = (readout.number, block.start);
        let age = (block.incarnation, block.sequence);
        if of_block.get(&place).is_some_and(|newest| *newest > age) {
            continue;
        }
        of_block.insert(place, age);
        let life = life_of(seen, &observed.blocks);
        for delivery in &readout.deliveries {
            let edge = edges.entry((place.0, place.1, delivery.partition)).or_default();
            edge.node.clone_from(&block.node);
            edge.delivery = *delivery;
            edge.is_sent = life != Life::Alive;
            edge.is_final = life == Life::Ended;
        }
    }
    let mut names: BTreeMap<u16, String> = (0..).zip(observed.readouts.iter().cloned()).collect();
    edges.iter().for_each(|(place, edge)| drop(names.insert(place.0, edge.node.clone())));
    for row in builders.values() {
        for taken in &row.block.taken {
            let place = (taken.node, taken.start, row.block.partition);
            let edge = edges.entry(place).or_insert_with(|| Edge {
                // No block: the process died before its first one.
                is_sent: true,
                ..Edge::default()
            });
            if edge.node.is_empty() {
                let name = names.get(&taken.node).cloned();
                edge.node = name.unwrap_or_else(|| format!("readout number {}", taken.node));
            }
            edge.taken = *taken;
        }
    }
    for ((_, _, partition), edge) in &mut edges {
        edge.is_built = builders.get(partition).is_some_and(|row| row.is_over());
    }
    edges
}
