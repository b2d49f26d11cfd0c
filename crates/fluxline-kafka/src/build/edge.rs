//! Counts the packets that a partition has from one readout node and start.
//!
//! The head of each record says how many packets the node had put into records before. So the
//! builder knows the number of packets in missing records, even when the node is dead.

use super::entry::RecordHead;
use crate::cluster::block::Taken;

impl Taken {
    /// Notes a record of this node and start; returns the number of missing records before it.
    ///
    /// `None`: the record came before.
    pub(super) fn advance(&mut self, head: &RecordHead) -> Option<u64> {
        let missing = head.sequence.checked_sub(self.records)?;
        let packets = head.packets_before.saturating_sub(self.packets);
        self.missing = self.missing.saturating_add(packets);
        self.records = head.sequence.saturating_add(1);
        self.packets = head.packets_before.saturating_add(u64::from(head.packets));
        self.ended |= head.is_end;
        Some(missing)
    }

    /// Notes that `count` packets were read from a record.
    pub(super) fn read(&mut self, head: &RecordHead, count: u64) {
        self.taken += count;
        let torn = u64::from(head.packets).saturating_sub(count);
        self.torn = self.torn.saturating_add(torn);
    }
}
