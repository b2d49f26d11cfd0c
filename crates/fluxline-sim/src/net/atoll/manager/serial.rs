//! The unique number of a chip.

use std::fmt;

/// The unique number of a chip. It says nothing about the place of the chip in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub u32);

/// An odd factor, so that different nodes have different numbers. A choice.
const FACTOR: u32 = 0x9E37_79B1;

impl Serial {
    /// Returns the number of the chip in a node. Programs name nodes; this is the list of hosts
    /// that translates the names.
    #[must_use]
    pub fn of(node: u32) -> Serial {
        Serial(node.wrapping_add(1).wrapping_mul(FACTOR))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:08x}", self.0)
    }
}
