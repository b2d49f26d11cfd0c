//! The records of a partition that count: those of the run's nodes, each once. Packets are counted
//! by node and start.

use crate::edge::{ENTRIES_MAX, Taken};
use crate::entry::RecordHead;
use crate::partition::PartitionBuilder;

impl PartitionBuilder {
    /// Returns false for a node and start beyond all that a run has.
    pub(crate) fn knows(&self, head: &RecordHead) -> bool {
        usize::from(head.node) < self.nodes_expected
            && (self.edges.len() < ENTRIES_MAX
                || self.edges.contains_key(&edge_key(head.node, head.start)))
    }

    pub(crate) fn edge(&mut self, head: &RecordHead) -> &mut Taken {
        let RecordHead { node, start, .. } = *head;
        let new = Taken { node, start, ..Taken::default() };
        self.edges.entry(edge_key(node, start)).or_insert(new)
    }

    /// Returns true for the next record of a node; counts others.
    pub(crate) fn is_next(&mut self, head: &RecordHead) -> bool {
        let is_over = self.ended;
        let Some(missing) = self.edge(head).advance(head) else {
            self.counts.repeated += 1;
            return false;
        };
        let packets = u64::from(head.packets);
        if is_over {
            self.counts.after_end += 1;
            self.edge(head).after_end += packets;
            return false;
        }
        let node = self.nodes.entry(head.node).or_default();
        if head.start < node.newest_start {
            self.counts.outdated += 1;
            self.edge(head).outdated += packets;
            return false;
        }
        if head.start > node.newest_start {
            (node.newest_start, node.end_came) = (head.start, false);
        }
        node.has_gaps |= missing > 0;
        self.counts.missing = self.counts.missing.saturating_add(missing);
        true
    }

    /// Returns the records of a node and start, and the packets in them, up to the last one that
    /// came.
    pub(crate) fn arrived_of(&self, node: u16, start: u32) -> (u64, u64) {
        let edge = self.edges.get(&edge_key(node, start));
        edge.map_or((0, 0), |edge| (edge.records, edge.packets))
    }

    /// Returns the number of records of a node and start that have come or are missing.
    pub(crate) fn records_of(&self, node: u16, start: u32) -> u64 {
        self.edges.get(&edge_key(node, start)).map_or(0, |edge| edge.records)
    }
}

/// Returns the number under which the packets of a node and start are counted. It sorts by both.
fn edge_key(node: u16, start: u32) -> u64 {
    (u64::from(node) << 32) | u64::from(start)
}
