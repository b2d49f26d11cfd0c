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

    use fluxline_core::random::Draw;

    use super::*;

    fn hash(seed: u64, key: u64) -> u64 {
        let mut hasher = NearBuilder { seed }.build_hasher();
        hasher.write_u32(7);
        hasher.write_u64(key);
        hasher.finish()
    }

    fn lines(seed: u64, keys: impl Iterator<Item = u64>) -> usize {
        let line = |key| (hash(seed, key) & 0xF_FFFF) >> NEAR_BITS;
        keys.map(line).collect::<BTreeSet<u64>>().len()
    }

    #[test]
    fn neighbours_are_near_and_distinguished_with_every_seed() {
        let mut draw = Draw::new(1);
        for seed in (0..200).map(|_| draw.bits() | 1) {
            assert_eq!(lines(seed, 0..16), 1, "seed {seed}");
            let tags: BTreeSet<u64> = (0..16).map(|key| hash(seed, key) >> 57).collect();
            assert_eq!(tags.len(), 16, "seed {seed}");
        }
    }

    /// Keys that differ in a few high or low bits only are not in few lines. One seed in a hundred
    /// is worse: it costs time, and nothing else.
    #[test]
    fn keys_that_are_not_neighbours_are_spread_with_nearly_every_seed() {
        let mut draw = Draw::new(1);
        for shift in [4, 8, 20, 40, 52] {
            let seeds: Vec<u64> = (0..200).map(|_| draw.bits() | 1).collect();
            let is_poor = |seed: &&u64| lines(**seed, (0..1024).map(|key| key << shift)) < 900;
            let poor = seeds.iter().filter(is_poor).count();
            assert!(poor <= 8, "shift {shift}: {poor} of 200 seeds");
        }
    }
}
