//! Faults of a cluster: crashes, power failures and pulled cables.

use crate::Instant;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The time.
    pub at: Instant,
    /// The fault.
    pub what: Misfortune,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfortune {
    /// A machine crashes; its card passes packets on, and answers nothing.
    Host(usize),
    /// A node loses its power: its ringlet is broken.
    Power(usize),
    /// The cable behind a node is pulled.
    Cable(usize),
}
