//! Pseudo-random numbers that repeat with their seed. They are not for secrets.

/// xorshift64*. Source: S. Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", ACM TOMS 42 (2016).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Returns the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Draw {
        // One step of SplitMix64 makes small seeds differ in all bits. A zero would stay zero.
        let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Draw((mixed ^ (mixed >> 31)).max(1))
    }

    /// Returns the next number of 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number from 0 to `limit` - 1; `limit` must not be 0. The bias is below
    /// `limit` / 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // The upper 53 bits are a fraction that a double holds exactly.
        ((self.bits() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

/// The seed of a test, printed. The environment gives it: `SEED=7` repeats a failure, and
/// `SEED=random` takes one from the clock; without it the seed is `$usual`, so that a suite gives
/// the same result each time. A macro, because this crate has no environment.
///
/// # Panics
/// Panics if `SEED` is neither a number nor `random`.
#[macro_export]
macro_rules! test_seed {
    ($usual:expr) => {{
        let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64);
        let seed: u64 = match std::env::var("SEED") {
            Ok(text) if text == "random" => clock(),
            Ok(text) => text.parse().expect("SEED is a number, or `random`"),
            Err(_) => $usual,
        };
        std::println!("SEED={seed}");
        seed
    }};
}

/// The number of seeds that a test tries: `COUNT` of the environment, or `$usual`.
///
/// # Panics
/// Panics if `COUNT` is not a number.
#[macro_export]
macro_rules! test_count {
    ($usual:expr) => {{
        let given = std::env::var("COUNT").ok();
        given.map_or($usual, |text| text.parse::<u64>().expect("COUNT is a number"))
    }};
}

pub use {test_count, test_seed};

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn a_chance_of_one_tenth_comes_in_a_tenth_of_the_draws() {
        let mut draw = Draw::new(1);
        let hits = (0..100_000).filter(|_| draw.chance(0.1)).count();
        assert!((9_700..10_300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !draw.chance(0.0) && draw.chance(1.0)));
    }

    #[test]
    fn numbers_below_a_limit_reach_every_value_and_not_the_limit() {
        let mut draw = Draw::new(0);
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[draw.below(7) as usize] += 1);
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
