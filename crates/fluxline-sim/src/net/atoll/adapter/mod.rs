//! Hosts and nodes with a `Fabric` on an ATOLL network.

pub mod cluster;
pub mod host;
pub mod shared;

use super::{Cargo, Entry, manager};
use crate::fabric::courier::Frame;
use crate::world::Due;

impl<S> From<Entry> for Due<Entry, S> {
    fn from(entry: Entry) -> Due<Entry, S> {
        Due::Wire(entry)
    }
}

impl<S> From<manager::Entry> for Due<manager::Entry, S> {
    fn from(entry: manager::Entry) -> Due<manager::Entry, S> {
        Due::Wire(entry)
    }
}

/// Frames of couriers: one process on each node.
impl Cargo for Frame {
    fn target(&self) -> u32 {
        self.target
    }

    fn bytes(&self) -> u32 {
        u32::try_from(Frame::bytes(self)).unwrap_or(u32::MAX)
    }
}
