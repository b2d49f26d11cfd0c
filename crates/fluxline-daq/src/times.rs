//! Knowledge about the times of an input's packets.

/// The times of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Packets have a time of capture.
    Captured,
    /// Packets have no time: files of raw payloads.
    Absent,
}
