//! The slice of a soak: its parameters, its memory layout, the counts of its two ends.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::role::Site;

/// Places for puts and gets in an arena's half, and how large each is \[byte\].
pub const SLOTS: u64 = 8;
pub const SLOT_BYTES: u64 = 64 << 10;
/// The distance of the word for atomics from the end of the half \[byte\].
pub const WORD_BEFORE_END: u64 = 8;
/// The longest message \[byte\].
pub const MESSAGE_BYTES: u64 = 2048;

/// A slice of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The seed of all sizes, kinds and contents.
    pub seed: u64,
    /// The number of operations.
    pub operations: u64,
    /// Connections that come and go among a thousand operations.
    pub connections_permille: u64,
}

/// The counts of one end. Law: both ends have equal counts, and `damaged` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Puts placed, or notified.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: u64,
    /// Messages sent or received.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
    /// The sum of all additions, which the word holds.
    pub added: u64,
    /// Connections that came and went.
    pub connections: u64,
    /// Things that came other than they were sent.
    pub damaged: u64,
}

/// The account of one end after a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its counts.
    pub ledger: Ledger,
    /// Bytes read from the peer and compared; near alone.
    pub got_bytes: u64,
    /// Operations completed; near alone.
    pub operations: u64,
    /// Resident memory of the process \[byte\]; 0: not known.
    pub resident_bytes: u64,
}

impl Ledger {
    /// Adds another ledger.
    #[must_use]
    pub fn plus(self, other: Ledger) -> Ledger {
        Ledger {
            puts: self.puts + other.puts,
            put_bytes: self.put_bytes + other.put_bytes,
            messages: self.messages + other.messages,
            message_bytes: self.message_bytes + other.message_bytes,
            added: self.added.wrapping_add(other.added),
            connections: self.connections + other.connections,
            damaged: self.damaged + other.damaged,
        }
    }
}

/// The content of an operation: a pattern of its own for each number and seed.
pub fn fill(into: &mut Vec<u8>, seed: u64, number: u64, bytes: u64) {
    into.clear();
    let salt =
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let words = (0..bytes.div_ceil(8)).map(|index| {
        let mixed = (salt ^ index).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    });
    into.extend(words.flat_map(u64::to_le_bytes).take(bytes as usize));
}

/// Errors: the arena is too small for the places, the answers and the word.
pub fn check_space(site: &Site) -> Result<(), Error> {
    if site.half_bytes < SLOTS * SLOT_BYTES + MESSAGE_BYTES {
        let (link, what) = (site.capabilities.link.to_owned(), "a soak".to_owned());
        return Err(Error::Unsuitable { what, link });
    }
    Ok(())
}

/// This process's resident memory \[byte\]; 0 where the host does not say.
pub fn resident_bytes() -> u64 {
    /// Linux's page \[byte\]. Assumed: 4 KiB; others make all samples wrong by the same factor.
    const PAGE_BYTES: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}
