//! The position of an event in the order of events: its generation, and its key within.

use serde::{Deserialize, Serialize};

/// A place in the order of events.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position {
    /// Number of times that keys began anew before, or the spill number that packets carry.
    pub generation: u32,
    /// The unwrapped key, counted from half the range of numbers below the run's first key.
    pub ordinal: u64,
}

impl Position {
    /// The position behind all others.
    pub(super) const END: Position = Position { generation: u32::MAX, ordinal: u64::MAX };

    /// Returns the position of another key in the same generation.
    pub(super) fn with(self, ordinal: u64) -> Position {
        Position { ordinal, ..self }
    }
}

/// The key at which ordinals begin: half the range below the first key of the run. So a key just
/// before the first one, which may wrap below zero, has a smaller ordinal.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Anchor(Option<u64>);

impl Anchor {
    /// Returns the ordinal of a key.
    pub(super) fn ordinal(&mut self, key: u64) -> u64 {
        key.wrapping_sub(*self.0.get_or_insert(key.wrapping_sub(1 << 63)))
    }

    /// Returns the key of an ordinal.
    pub(super) fn key(self, ordinal: u64) -> u64 {
        ordinal.wrapping_add(self.0.unwrap_or(0))
    }
}

/// A key as a packet has it: an ordinal of which only the lowest `bits` are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawKey {
    pub(super) ordinal: u64,
    /// 1 to 63: the key wraps; else it does not.
    pub(super) bits: u8,
}

impl RawKey {
    /// Returns the ordinal nearest to `reference` that ends in the known bits.
    pub(super) fn near(self, reference: u64) -> u64 {
        if !self.wraps() {
            return self.ordinal;
        }
        let shift = 64 - u32::from(self.bits);
        let ahead = (self.ordinal.wrapping_sub(reference) << shift) as i64 >> shift;
        reference.wrapping_add(ahead as u64)
    }

    /// Returns true when the key wraps.
    pub(super) fn wraps(self) -> bool {
        (1..64).contains(&self.bits)
    }

    /// Returns the step forward beyond which a narrow key may as well have begun anew.
    pub(super) fn step_max(self) -> u64 {
        if self.wraps() { 1 << self.bits.saturating_sub(2) } else { u64::MAX }
    }
}
