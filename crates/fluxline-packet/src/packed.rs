//! Packed samples: numbers of any width, one after the other without regard to bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::field_type::BitOrder;
use super::word::{mask, sign_extend};

/// Widest packed sample \[bit\].
pub const PACKED_BITS_MAX: u8 = 32;

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

    /// Returns the bits of sample number `at`, which lies in `bytes`.
    pub(crate) fn sample(&self, bytes: &[u8], at: usize) -> u64 {
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
