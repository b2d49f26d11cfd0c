//! Packed samples: numbers of any width, one after the other without regard to bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use super::columnar::Numbers;
use super::word::{mask, sign_extend};

/// Widest packed sample \[bit\].
pub const PACKED_BITS_MAX: u8 = 32;

/// The order in which packed samples fill bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum BitOrder {
    /// The first sample is in the lowest bits of the first byte.
    LsbFirst,
    /// The first sample is in the highest bits of the first byte.
    MsbFirst,
}

impl BitOrder {
    /// Returns its name in descriptions.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            BitOrder::LsbFirst => "lsb-first",
            BitOrder::MsbFirst => "msb-first",
        }
    }
}

/// The interpretation of a field's bytes as samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The width of a sample \[bit\], 1 to [`PACKED_BITS_MAX`].
    pub bits: u8,
    /// A sample is a two's complement number.
    pub signed: bool,
    /// The order of samples in a byte.
    pub order: BitOrder,
}

impl Packed {
    /// Returns the type of a sample as descriptions write it.
    #[must_use]
    pub fn type_name(&self) -> String {
        format!("{}{}", if self.signed { 'i' } else { 'u' }, self.bits)
    }

    /// Returns the number of whole samples in this number of bytes.
    #[must_use]
    pub fn samples_in(&self, bytes: usize) -> usize {
        // Packets have at most 65535 bytes.
        bytes.saturating_mul(8) / usize::from(self.bits.max(1))
    }

    /// Appends the whole samples in `bytes` to `out`; bits behind the last are ignored.
    pub fn unpack(&self, bytes: &[u8], out: &mut Numbers) {
        match (self.bits, self.signed, &mut *out) {
            (1 | 2 | 4, false, Numbers::U8(samples)) => self.unpack_small(bytes, samples),
            _ => {
                let words: Vec<u64> =
                    (0..self.samples_in(bytes.len())).map(|at| self.sample(bytes, at)).collect();
                out.extend_samples(&words, self.bits);
            }
        }
    }

    /// Unpacks samples of which a byte holds a whole number.
    fn unpack_small(&self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.samples_in(bytes.len()));
        let low_mask = mask(u32::from(self.bits)) as u8;
        let lowest_first = self.order == BitOrder::LsbFirst;
        match self.bits {
            1 => {
                let shifts: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
                spread(bytes, ordered(shifts, lowest_first), low_mask, out);
            }
            2 => spread(bytes, ordered([0, 2, 4, 6], lowest_first), low_mask, out),
            _ => spread(bytes, ordered([0, 4], lowest_first), low_mask, out),
        }
    }

    /// Returns the bits of sample number `at`, which lies in `bytes`.
    fn sample(&self, bytes: &[u8], at: usize) -> u64 {
        let bit = at * usize::from(self.bits);
        let rest = &bytes[bit / 8..];
        let mut window = [0; 8];
        match rest.first_chunk::<8>() {
            Some(chunk) => window = *chunk,
            None => window[..rest.len()].copy_from_slice(rest),
        }
        let skipped = (bit % 8) as u32;
        match self.order {
            BitOrder::LsbFirst => {
                u64::from_le_bytes(window) >> skipped & mask(u32::from(self.bits))
            }
            BitOrder::MsbFirst => {
                u64::from_be_bytes(window) << skipped >> (64 - u32::from(self.bits.max(1)))
            }
        }
    }

    /// Returns the samples in `bytes` as signed numbers.
    #[must_use]
    pub fn samples(&self, bytes: &[u8]) -> Vec<i64> {
        let value = |at| {
            let word = self.sample(bytes, at);
            if self.signed { sign_extend(word, u32::from(self.bits)) } else { word.cast_signed() }
        };
        (0..self.samples_in(bytes.len())).map(value).collect()
    }
}

fn ordered<const N: usize>(mut shifts: [u8; N], lowest_first: bool) -> [u8; N] {
    if !lowest_first {
        shifts.reverse();
    }
    shifts
}

fn spread<const N: usize>(bytes: &[u8], shifts: [u8; N], mask: u8, out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend_from_slice(&shifts.map(|shift| byte >> shift & mask));
    }
}
