//! Numbers of one type, in the narrowest type that holds their bits.

use alloc::vec::Vec;

use crate::decode::{ColumnKind, Value};
use crate::model::ByteOrder;
use crate::word::sign_extend;

/// Numbers of one type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Numbers {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// Runs the same code for the vector of any type.
macro_rules! with_vector {
    ($numbers:expr, $vector:ident => $action:expr) => {
        match $numbers {
            Numbers::U8($vector) => $action,
            Numbers::U16($vector) => $action,
            Numbers::U32($vector) => $action,
            Numbers::U64($vector) => $action,
            Numbers::I8($vector) => $action,
            Numbers::I16($vector) => $action,
            Numbers::I32($vector) => $action,
            Numbers::I64($vector) => $action,
            Numbers::F32($vector) => $action,
            Numbers::F64($vector) => $action,
        }
    };
}

/// The part of each word that is a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordPart {
    pub low: u8,
    pub width: u8,
}

impl Numbers {
    /// Returns an empty vector of the narrowest type; `None` for bytes.
    #[must_use]
    pub fn of(kind: ColumnKind, width_bits: u32) -> Option<Numbers> {
        Some(match (kind, width_bits) {
            (ColumnKind::U64, 0..=8) => Numbers::U8(Vec::new()),
            (ColumnKind::U64, 9..=16) => Numbers::U16(Vec::new()),
            (ColumnKind::U64, 17..=32) => Numbers::U32(Vec::new()),
            (ColumnKind::U64, _) => Numbers::U64(Vec::new()),
            (ColumnKind::I64, 0..=8) => Numbers::I8(Vec::new()),
            (ColumnKind::I64, 9..=16) => Numbers::I16(Vec::new()),
            (ColumnKind::I64, 17..=32) => Numbers::I32(Vec::new()),
            (ColumnKind::I64, _) => Numbers::I64(Vec::new()),
            (ColumnKind::F32, _) => Numbers::F32(Vec::new()),
            (ColumnKind::F64, _) => Numbers::F64(Vec::new()),
            (ColumnKind::Bytes, _) => return None,
        })
    }

    /// Returns the number of numbers.
    #[must_use]
    pub fn len(&self) -> usize {
        with_vector!(self, vector => vector.len())
    }

    /// Returns true when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the numbers to `out` as words; integers with a sign are extended to 64 bits,
    /// and floats are their bits.
    pub fn words(&self, out: &mut Vec<u64>) {
        match self {
            Numbers::U8(numbers) => out.extend(numbers.iter().map(|number| u64::from(*number))),
            Numbers::U16(numbers) => out.extend(numbers.iter().map(|number| u64::from(*number))),
            Numbers::U32(numbers) => out.extend(numbers.iter().map(|number| u64::from(*number))),
            Numbers::U64(numbers) => out.extend_from_slice(numbers),
            Numbers::I8(numbers) => out.extend(numbers.iter().map(|number| *number as u64)),
            Numbers::I16(numbers) => out.extend(numbers.iter().map(|number| *number as u64)),
            Numbers::I32(numbers) => out.extend(numbers.iter().map(|number| *number as u64)),
            Numbers::I64(numbers) => out.extend(numbers.iter().map(|number| *number as u64)),
            Numbers::F32(numbers) => {
                out.extend(numbers.iter().map(|number| u64::from(number.to_bits())));
            }
            Numbers::F64(numbers) => out.extend(numbers.iter().map(|number| number.to_bits())),
        }
    }

    /// Returns the width of one \[byte\].
    #[must_use]
    pub fn width_bytes(&self) -> usize {
        match self {
            Numbers::U8(_) | Numbers::I8(_) => 1,
            Numbers::U16(_) | Numbers::I16(_) => 2,
            Numbers::U32(_) | Numbers::I32(_) | Numbers::F32(_) => 4,
            Numbers::U64(_) | Numbers::I64(_) | Numbers::F64(_) => 8,
        }
    }

    /// Appends a value; 0 for one of another kind, or none.
    pub(super) fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Numbers::U8(numbers), Value::U64(value)) => numbers.push(value as u8),
            (Numbers::U16(numbers), Value::U64(value)) => numbers.push(value as u16),
            (Numbers::U32(numbers), Value::U64(value)) => numbers.push(value as u32),
            (Numbers::U64(numbers), Value::U64(value)) => numbers.push(value),
            (Numbers::I8(numbers), Value::I64(value)) => numbers.push(value as i8),
            (Numbers::I16(numbers), Value::I64(value)) => numbers.push(value as i16),
            (Numbers::I32(numbers), Value::I64(value)) => numbers.push(value as i32),
            (Numbers::I64(numbers), Value::I64(value)) => numbers.push(value),
            (Numbers::F32(numbers), Value::F32(value)) => numbers.push(value),
            (Numbers::F64(numbers), Value::F64(value)) => numbers.push(value),
            (numbers, _) => with_vector!(numbers, vector => vector.push(Default::default())),
        }
    }

    /// Appends `count` zeros.
    pub(super) fn push_zeros(&mut self, count: usize) {
        with_vector!(self, vector => vector.resize(vector.len() + count, Default::default()));
    }

    /// Appends a part of each word.
    pub(super) fn extend_words(&mut self, words: &[u64], part: WordPart) {
        let WordPart { low, width } = part;
        let mask = crate::word::mask(u32::from(width));
        let unsigned = words.iter().map(|word| word >> (low & 63) & mask);
        let signed = unsigned.clone().map(|word| sign_extend(word, u32::from(width)));
        match self {
            Numbers::U8(numbers) => numbers.extend(unsigned.map(|word| word as u8)),
            Numbers::U16(numbers) => numbers.extend(unsigned.map(|word| word as u16)),
            Numbers::U32(numbers) => numbers.extend(unsigned.map(|word| word as u32)),
            Numbers::U64(numbers) => numbers.extend(unsigned),
            Numbers::I8(numbers) => numbers.extend(signed.map(|word| word as i8)),
            Numbers::I16(numbers) => numbers.extend(signed.map(|word| word as i16)),
            Numbers::I32(numbers) => numbers.extend(signed.map(|word| word as i32)),
            Numbers::I64(numbers) => numbers.extend(signed),
            Numbers::F32(numbers) => {
                numbers.extend(unsigned.map(|word| f32::from_bits(word as u32)));
            }
            Numbers::F64(numbers) => numbers.extend(unsigned.map(f64::from_bits)),
        }
    }

    /// Appends words of exactly this type's width, one after the other without gaps; returns
    /// false when the width is another.
    pub(super) fn extend_dense(&mut self, bytes: &[u8], width: usize, order: ByteOrder) -> bool {
        macro_rules! swapped {
            ($vector:ident, $kind:ty) => {{
                let words = bytes.as_chunks::<{ size_of::<$kind>() }>().0.iter();
                match order {
                    ByteOrder::Big => {
                        $vector.extend(words.map(|word| <$kind>::from_be_bytes(*word)))
                    }
                    ByteOrder::Little => {
                        $vector.extend(words.map(|word| <$kind>::from_le_bytes(*word)));
                    }
                }
            }};
        }
        if width != self.width_bytes() {
            return false;
        }
        match self {
            Numbers::U8(numbers) => numbers.extend_from_slice(bytes),
            Numbers::U16(numbers) => swapped!(numbers, u16),
            Numbers::U32(numbers) => swapped!(numbers, u32),
            Numbers::U64(numbers) => swapped!(numbers, u64),
            Numbers::I8(numbers) => numbers.extend(bytes.iter().map(|byte| byte.cast_signed())),
            Numbers::I16(numbers) => swapped!(numbers, i16),
            Numbers::I32(numbers) => swapped!(numbers, i32),
            Numbers::I64(numbers) => swapped!(numbers, i64),
            Numbers::F32(numbers) => swapped!(numbers, f32),
            Numbers::F64(numbers) => swapped!(numbers, f64),
        }
        true
    }
}
