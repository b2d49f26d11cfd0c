//! Readout nodes that events do not wait for: they died, or are too far behind.

use crate::entry::RecordHead;
use crate::partition::PartitionBuilder;

/// Most records of all nodes that wait for another node. The node that is furthest behind is left
/// out then.
const HELD_RECORDS_MAX: usize = 1 << 20;

impl PartitionBuilder {
    /// Returns the record by which a builder states that a node has died; `None`: the node has
    /// ended, events go on without it already, or must wait for it.
    #[must_use]
    pub fn absence_of(&self, number: u16) -> Option<RecordHead> {
        let node = self.nodes.get(&number)?;
        let (run, start) = (self.run, node.newest_start);
        let sequence = self.records_of(number, start);
        let head = RecordHead {
            run,
            node: number,
            start,
            sequence,
            is_absence: true,
            ..Default::default()
        };
        let waits = !(node.end_came || node.left_out || node.reads_files || self.ended);
        waits.then_some(head)
    }

    /// Leaves a node out that a builder has found dead, unless it has sent a record since.
    pub(crate) fn leave_out_dead(&mut self, head: &RecordHead) {
        if self.absence_of(head.node) == Some(*head) {
            self.leave_out(head.node);
        }
    }

    /// Leaves out the node that is furthest behind, when too many records wait for it.
    pub(crate) fn leave_out_slowest(&mut self) {
        let held: usize = self.nodes.values().map(|node| node.queue.len()).sum();
        let open = self.nodes.iter().filter(|(_, node)| node.holds_others() && !node.reads_files);
        let slowest = open.min_by_key(|(_, node)| node.mark).map(|(number, _)| *number);
        if let Some(number) = slowest.filter(|_| held > HELD_RECORDS_MAX) {
            self.leave_out(number);
        }
    }

    /// Lets events go on without a node: its sources become silent with the time of the run.
    fn leave_out(&mut self, number: u16) {
        let node = self.nodes.get_mut(&number).expect("every node of the run is there");
        node.left_out = true;
        node.inputs.values().for_each(|input| self.builder.unmark_input(*input));
        self.counts.left_out += 1;
    }
}
