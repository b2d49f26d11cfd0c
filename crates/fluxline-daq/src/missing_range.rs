//! Ranges of packet numbers that never came: the readout finds them, and the ledger lists them.

use serde::{Deserialize, Serialize};

/// Missing packet numbers, both ends included, in steps of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRange {
    /// Number of restarts before.
    pub epoch: u32,
    /// The first missing number, unwrapped.
    pub first: u64,
    /// The last missing number, unwrapped.
    pub last: u64,
}
