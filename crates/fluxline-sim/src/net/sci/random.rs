//! Bit errors, drawn from a seed.

use super::config::Faults;

/// SplitMix64 (Steele, Lea and Flood 2014): small, and good enough to draw errors from.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below 1, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The bit errors on all links, stored as the number of correct bits until the next error.
#[derive(Debug)]
pub struct Errors {
    random: Random,
    rate: f64,
    good_bits: u64,
}

impl Errors {
    pub fn new(faults: Faults) -> Errors {
        let rate = faults.bit_error_rate;
        let mut errors = Errors { random: Random(faults.seed), rate, good_bits: u64::MAX };
        errors.draw();
        errors
    }

    /// Draws the number of bits until the next error, from a geometric distribution.
    fn draw(&mut self) {
        if self.rate > 0.0 {
            let bits = (1.0 - self.random.unit()).ln() / (1.0 - self.rate).ln();
            self.good_bits = bits as u64;
        }
    }

    /// Returns true if a packet of `symbols` symbols has an error on one link.
    pub fn hit(&mut self, symbols: u32) -> bool {
        if self.rate <= 0.0 {
            return false;
        }
        let bits = u64::from(symbols) * 16;
        if self.good_bits >= bits {
            self.good_bits -= bits;
            return false;
        }
        while self.good_bits < bits {
            let before = self.good_bits;
            self.draw();
            self.good_bits = self.good_bits.saturating_add(before + 1);
        }
        self.good_bits -= bits;
        true
    }
}
