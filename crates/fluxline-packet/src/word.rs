//! Words of 1 to 8 bytes in either byte order, and parts of them.

use super::model::ByteOrder;

/// The unsigned integer in `bytes` (at most 8 of them; more are ignored).
#[inline]
#[must_use]
pub fn read_word(bytes: &[u8], byte_order: ByteOrder) -> u64 {
    let join = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
    let bytes = &bytes[..bytes.len().min(8)];
    match byte_order {
        ByteOrder::Big => bytes.iter().fold(0, join),
        ByteOrder::Little => bytes.iter().rev().fold(0, join),
    }
}

/// Writes the low bits of `value` over all of `bytes` (at most 8; more are left alone).
#[inline]
pub fn write_word(bytes: &mut [u8], byte_order: ByteOrder, value: u64) {
    let count = bytes.len().min(8);
    for (index, byte) in bytes[..count].iter_mut().enumerate() {
        let place = match byte_order {
            ByteOrder::Big => count - 1 - index,
            ByteOrder::Little => index,
        };
        *byte = value.to_le_bytes()[place];
    }
}

/// Returns the largest value of that number of bits.
#[inline]
pub(crate) fn mask(width_bits: u32) -> u64 {
    u64::MAX.checked_shr(64u32.saturating_sub(width_bits)).unwrap_or(0)
}

/// Bits `low` to `low + width - 1` of `word`.
#[inline]
#[must_use]
pub fn extract(word: u64, low: u8, width: u8) -> u64 {
    word.checked_shr(u32::from(low)).unwrap_or(0) & mask(u32::from(width))
}

/// `word` with bits `low` to `low + width - 1` set to `value`; other bits of `value` are dropped.
#[inline]
#[must_use]
pub fn insert(word: u64, low: u8, width: u8, value: u64) -> u64 {
    let mask = mask(u32::from(width)).checked_shl(u32::from(low)).unwrap_or(0);
    let value = value.checked_shl(u32::from(low)).unwrap_or(0);
    (word & !mask) | (value & mask)
}

/// `bits` of a two's complement number of `width_bits` as a signed integer.
#[inline]
#[must_use]
pub(crate) fn sign_extend(bits: u64, width_bits: u32) -> i64 {
    let unused = 64u32.saturating_sub(width_bits).min(63);
    // The shift to the left drops the unused bits, the arithmetic one back copies the sign.
    (bits << unused).cast_signed() >> unused
}

/// Returns all ones, as wide as `value`.
#[inline]
pub(crate) fn ones_over(value: u64) -> u64 {
    u64::MAX.checked_shr(value.leading_zeros()).unwrap_or(0)
}

/// Returns the number of bits that hold `value`.
#[inline]
pub(crate) fn bits_over(value: u64) -> u32 {
    64 - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::{extract, insert, read_word, sign_extend, write_word};
    use crate::model::ByteOrder;

    #[test]
    fn words_of_every_width_survive_writing_and_reading_in_both_orders() {
        for width in 1..=8 {
            for order in [ByteOrder::Big, ByteOrder::Little] {
                let value = 0x8877_6655_4433_2211u64 >> (64 - 8 * width);
                let mut bytes = [0xEE; 8];
                write_word(&mut bytes[..width], order, value);
                assert_eq!(read_word(&bytes[..width], order), value, "{width} {order:?}");
                assert!(bytes[width..].iter().all(|&byte| byte == 0xEE));
            }
        }
        assert_eq!(read_word(&[1, 2, 3], ByteOrder::Big), 0x01_02_03);
        assert_eq!(read_word(&[1, 2, 3], ByteOrder::Little), 0x03_02_01);
    }

    #[test]
    fn bits_at_either_end_of_a_word() {
        assert_eq!(extract(u64::MAX, 63, 1), 1);
        assert_eq!(extract(0x8000_0000_0000_0001, 0, 64), 0x8000_0000_0000_0001);
        assert_eq!(insert(0, 60, 4, 0xFF), 0xF << 60);
        assert_eq!(insert(u64::MAX, 0, 64, 5), 5);
        assert_eq!(insert(0xFFFF, 4, 8, 0), 0xF00F);
        assert_eq!(sign_extend(0xFF, 8), -1);
        assert_eq!(sign_extend(0x7FFF, 16), 32767);
        assert_eq!(sign_extend(u64::MAX, 64), -1);
    }
}
