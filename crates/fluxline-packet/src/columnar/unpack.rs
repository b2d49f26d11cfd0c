//! Packed samples as columns of numbers.

use alloc::vec::Vec;

use super::numbers::{Numbers, WordPart};
use crate::field_type::BitOrder;
use crate::packed::Packed;
use crate::word::mask;

impl Numbers {
    /// Returns an empty vector of the narrowest type that holds packed samples.
    #[must_use]
    pub fn of_samples(packed: &Packed) -> Numbers {
        match (packed.signed, packed.bits) {
            (false, 0..=8) => Numbers::U8(Vec::new()),
            (false, 9..=16) => Numbers::U16(Vec::new()),
            (false, _) => Numbers::U32(Vec::new()),
            (true, 0..=8) => Numbers::I8(Vec::new()),
            (true, 9..=16) => Numbers::I16(Vec::new()),
            (true, _) => Numbers::I32(Vec::new()),
        }
    }

    /// Appends the whole samples in `bytes`; bits behind the last are ignored.
    pub(super) fn extend_packed(&mut self, packed: &Packed, bytes: &[u8]) {
        match (packed.bits, packed.signed, &mut *self) {
            (1 | 2 | 4, false, Numbers::U8(samples)) => unpack_small(packed, bytes, samples),
            _ => {
                let count = packed.samples_in(bytes.len());
                let words: Vec<u64> = (0..count).map(|at| packed.sample(bytes, at)).collect();
                self.extend_words(&words, WordPart { low: 0, width: packed.bits });
            }
        }
    }
}

/// Unpacks samples of which a byte holds a whole number.
fn unpack_small(packed: &Packed, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(packed.samples_in(bytes.len()));
    let low_mask = mask(u32::from(packed.bits)) as u8;
    match packed.bits {
        1 => spread(bytes, ordered([0, 1, 2, 3, 4, 5, 6, 7], packed.order), low_mask, out),
        2 => spread(bytes, ordered([0, 2, 4, 6], packed.order), low_mask, out),
        _ => spread(bytes, ordered([0, 4], packed.order), low_mask, out),
    }
}

fn ordered<const N: usize>(mut shifts: [u8; N], order: BitOrder) -> [u8; N] {
    if order == BitOrder::MsbFirst {
        shifts.reverse();
    }
    shifts
}

fn spread<const N: usize>(bytes: &[u8], shifts: [u8; N], mask: u8, out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend_from_slice(&shifts.map(|shift| byte >> shift & mask));
    }
}
