//! Places in a packet, from either end.

/// A place counted from either end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// This number of bytes after the start.
    Start(u32),
    /// This number of bytes before the end.
    End(u32),
}

impl Edge {
    /// The place in a packet of `size` bytes; `None` when it lies outside.
    #[must_use]
    pub fn within(self, size: usize) -> Option<usize> {
        match self {
            Edge::Start(offset) => Some(offset as usize).filter(|&at| at <= size),
            Edge::End(offset) => size.checked_sub(offset as usize),
        }
    }
}
