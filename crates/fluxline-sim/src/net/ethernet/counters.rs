//! Counts of frames by the place where they ended.

use crate::core::interconnect::Loss;

/// The lost frames of a port of the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortLosses {
    /// The queue of the port was full.
    pub queue: u64,
    /// Damaged frames that the switch dropped on arrival from the node.
    pub crc_at_switch: u64,
    /// Damaged frames that the node's card dropped.
    pub crc_at_node: u64,
    /// Frames lost at random on the way to the node.
    pub loss: u64,
    /// Frames on a cut cable, or for one.
    pub cut: u64,
}

impl PortLosses {
    /// Returns the sum.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.queue + self.crc_at_switch + self.crc_at_node + self.loss + self.cut
    }
}

/// The counts of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that nodes handed to their cards.
    pub taken: u64,
    /// Frames that reached their receiver.
    pub delivered: u64,
    /// Frames that the switch marked.
    pub marked: u64,
    /// Pause frames that the switch sent, those to go on included.
    pub pauses: u64,
    /// Lost frames by the port of the switch, which is the number of its node.
    pub ports: Vec<PortLosses>,
}

impl Counters {
    /// Returns the number of lost frames.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ports.iter().map(PortLosses::all).sum()
    }

    /// Returns the places that lost frames.
    pub(super) fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (node, of) in (0_u32..).zip(&self.ports) {
            for (frames, place) in [
                (of.queue, format!("queue of port {node}")),
                (of.crc_at_switch, format!("CRC at port {node}")),
                (of.crc_at_node, format!("CRC at node {node}")),
                (of.loss, format!("link to node {node}")),
                (of.cut, format!("cut cable of node {node}")),
            ] {
                if frames > 0 {
                    losses.push(Loss { place, frames });
                }
            }
        }
        losses
    }
}
