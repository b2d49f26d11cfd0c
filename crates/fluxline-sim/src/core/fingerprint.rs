//! A number that is equal for equal runs: a hash over (time, component, kind).

use std::fmt;

use crate::Instant;

/// A hash of a run's entries. It is the same in debug and release builds and for any number of
/// threads, because it depends only on the model's own time and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        // FNV's offset basis: any number that is not 0 would do.
        Fingerprint(0xCBF2_9CE4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds one entry.
    pub fn add(&mut self, at: Instant, component: u32, kind: u8) {
        let what = at.as_ps() ^ (u64::from(component) << 20) ^ (u64::from(kind) << 56);
        // One round of a multiply-xorshift mixer (the constant is SplitMix64's), so that the result
        // depends on the order.
        let mixed = (self.0 ^ what).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// Joins the fingerprint of another part, in a given order.
    pub fn join(&mut self, other: Fingerprint) {
        self.add(Instant::from_ps(other.0), 0, 0);
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;
    use crate::Instant;

    #[test]
    fn the_order_the_component_and_the_kind_each_change_it() {
        let of = |entries: &[(u64, u32, u8)]| {
            let mut print = Fingerprint::default();
            entries.iter().for_each(|&(at, who, what)| print.add(Instant::from_ps(at), who, what));
            print
        };
        let first = of(&[(1, 2, 3), (4, 5, 6)]);
        assert_eq!(first, of(&[(1, 2, 3), (4, 5, 6)]));
        for other in [[(4, 5, 6), (1, 2, 3)], [(1, 3, 3), (4, 5, 6)], [(1, 2, 4), (4, 5, 6)]] {
            assert_ne!(first, of(&other));
        }
    }
}
