//! A hash that keeps neighbours together: sixteen consecutive keys share one line of the table.
//!
//! Events come in the order of their keys, so the next look-up finds its line in the cache. The
//! choice of the line depends on a random seed, so that a sender cannot choose keys that collide.

use core::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

/// Keys in a row that lie together, as a power of two: the number that the table compares at a
/// time.
const NEAR_BITS: u32 = 4;
const NEAR_MASK: u64 = (1 << NEAR_BITS) - 1;
/// An odd number with as many ones as zeros. Source: the golden ratio, as in Fibonacci hashing.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Makes hashers with one seed.
#[derive(Clone, Debug)]
pub(super) struct NearBuilder {
    seed: u64,
}

impl Default for NearBuilder {
    fn default() -> NearBuilder {
        NearBuilder { seed: DefaultHashBuilder::default().hash_one(SPREAD) | 1 }
    }
}

impl BuildHasher for NearBuilder {
    type Hasher = NearHasher;

    #[inline]
    fn build_hasher(&self) -> NearHasher {
        NearHasher { state: self.seed }
    }
}

/// Hashes a few words, of which the last one is the key.
#[derive(Clone, Debug)]
pub(super) struct NearHasher {
    state: u64,
}

impl NearHasher {
    #[inline]
    fn mix(&self, word: u64) -> u64 {
        let product = u128::from(self.state ^ word) * u128::from(SPREAD ^ self.state << 1);
        (product >> 64) as u64 ^ product as u64
    }
}

impl Hasher for NearHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let near = word & NEAR_MASK;
        let block = self.mix(word >> NEAR_BITS);
        // The lowest bits are the place in the table; the highest distinguish neighbours.
        self.state = (block & !NEAR_MASK | near) ^ near << (64 - NEAR_BITS);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.state = self.mix(u64::from(word)) | 1;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn neighbours_are_near_and_all_others_are_spread() {
        let builder = NearBuilder::default();
        let hash = |key: u64| {
            let mut hasher = builder.build_hasher();
            hasher.write_u32(7);
            hasher.write_u64(key);
            hasher.finish()
        };
        let lines: BTreeSet<u64> = (0..16).map(|key| (hash(key) & 0xFFFF) >> NEAR_BITS).collect();
        let tags: BTreeSet<u64> = (0..16).map(|key| hash(key) >> 57).collect();
        assert_eq!((lines.len(), tags.len()), (1, 16));
        // Keys that differ in a few high or low bits only are not in few lines.
        for shift in [4, 8, 20, 40, 52] {
            let lines: BTreeSet<u64> =
                (0..1024_u64).map(|key| (hash(key << shift) & 0xF_FFFF) >> NEAR_BITS).collect();
            assert!(lines.len() > 900, "shift {shift}: {} lines", lines.len());
        }
    }
}
