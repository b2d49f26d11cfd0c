//! The edge from one start of a readout node to a partition: its packets, counted on both sides.
//!
//! The head of each record says how many packets the node had put into records before. So the
//! builder knows the number of packets in missing records, even when the node is dead.

use serde::{Deserialize, Serialize};

use crate::entry::RecordHead;

/// Most edges of a readout node or of a partition.
pub const ENTRIES_MAX: usize = 1 << 16;

/// The packets that a readout node has handed over to one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delivery {
    /// The partition.
    pub partition: u32,
    /// Records that the log took.
    pub records: u64,
    /// Packets in them.
    pub packets: u64,
    /// Packets in records that the log has not taken yet.
    pub waiting: u64,
}

/// The packets that a partition has from one readout node and start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    /// Number of the readout node.
    pub node: u16,
    /// Number of its starts before.
    pub start: u32,
    /// Records up to the last one that came: the number of the record that comes next.
    pub records: u64,
    /// Packets that the node had put into these records, as the last one says.
    pub packets: u64,
    /// Packets that came, and wait for packets of other nodes.
    pub held: u64,
    /// Packets taken.
    pub taken: u64,
    /// Packets in missing records.
    pub missing: u64,
    /// Packets of entries that could not be read.
    pub torn: u64,
    /// Packets that came after a later start of the node; they are in no event.
    pub outdated: u64,
    /// Packets that came after the end of the run; they are in no event.
    pub after_end: u64,
    /// The last record of the node came.
    pub ended: bool,
}

impl Taken {
    /// Notes a record of this node and start; returns the number of missing records before it.
    ///
    /// `None`: the record came before.
    pub(crate) fn advance(&mut self, head: &RecordHead) -> Option<u64> {
        let missing = head.sequence.checked_sub(self.records)?;
        let packets = head.packets_before.saturating_sub(self.packets);
        self.missing = self.missing.saturating_add(packets);
        self.records = head.sequence.saturating_add(1);
        self.packets = head.packets_before.saturating_add(u64::from(head.packets));
        self.ended |= head.is_end;
        Some(missing)
    }

    /// Notes that `count` packets of a record were taken.
    pub(crate) fn take(&mut self, count: u64) {
        self.taken += count;
        self.held = self.held.saturating_sub(count);
    }

    /// Notes that a record of which `taken` packets were taken has no more.
    pub(crate) fn complete(&mut self, head: &RecordHead, taken: u64) {
        let torn = u64::from(head.packets).saturating_sub(taken);
        self.torn += torn;
        self.held = self.held.saturating_sub(torn);
    }
}
