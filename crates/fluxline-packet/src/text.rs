//! Fields written as text: decimal numbers, and bytes up to a mark.

use alloc::vec::Vec;

use super::expression::Expr;
use super::value_kind::ValueKind;

/// A field of text.
#[derive(Clone, Debug)]
pub struct Text {
    /// The content: a decimal number, or bytes.
    pub content: ValueKind,
    /// Its end.
    pub end: TextEnd,
}

/// The end of a field of text.
#[derive(Clone, Debug)]
pub enum TextEnd {
    /// After this number of bytes.
    Length(Expr),
    /// Before the first of these bytes, which belongs to the field; or at the end of the packet.
    Mark(Vec<u8>),
}

impl Text {
    /// Returns the bytes that it takes, where that is the same in all packets.
    pub(crate) fn fixed_bytes(&self) -> Option<u32> {
        match &self.end {
            TextEnd::Length(length) => u32::try_from(length.constant()?).ok(),
            TextEnd::Mark(_) => None,
        }
    }

    /// Returns the largest number that it can be.
    pub(crate) fn largest(&self) -> u64 {
        let digits = match (&self.end, self.content) {
            (_, ValueKind::Bytes) => return 0,
            (TextEnd::Length(length), _) => length.constant().unwrap_or(u64::MAX),
            (TextEnd::Mark(_), _) => u64::MAX,
        };
        let digits = u32::try_from(digits).unwrap_or(u32::MAX);
        10_u64.checked_pow(digits).map_or(u64::MAX, |power| power - 1)
    }
}

/// Returns the length of a field up to a mark, its mark included, and of its content.
#[inline]
pub(crate) fn up_to_mark(bytes: &[u8], marks: &[u8]) -> (usize, usize) {
    match bytes.iter().position(|byte| marks.contains(byte)) {
        Some(content) => (content + 1, content),
        None => (bytes.len(), bytes.len()),
    }
}

/// Reads a decimal number: blanks, digits, blanks; before the digits of a signed one perhaps a
/// sign. `None`: it is not a number, or has more than 64 bits. A signed one is in two's complement.
pub(crate) fn decimal(text: &[u8], kind: ValueKind) -> Option<u64> {
    let text = text.trim_ascii();
    let (is_negative, digits) = match (kind, text) {
        (ValueKind::Signed, [b'-', digits @ ..]) => (true, digits),
        (ValueKind::Signed, [b'+', digits @ ..]) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    match (kind, is_negative) {
        (ValueKind::Signed, true) => (number <= 1 << 63).then(|| number.wrapping_neg()),
        (ValueKind::Signed, false) => (number < 1 << 63).then_some(number),
        _ => Some(number),
    }
}

/// Writes a number over all of `text`, with zeros before it; digits beyond are dropped.
pub fn write_decimal(text: &mut [u8], mut number: u64) {
    for place in text.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::{decimal, up_to_mark, write_decimal};
    use crate::layout::ValueKind::{Signed, Unsigned};

    #[test]
    fn decimal_numbers_have_blanks_and_signs_around_their_digits() {
        assert_eq!(decimal(b" 0042 ", Unsigned), Some(42));
        assert_eq!(decimal(b"18446744073709551615", Unsigned), Some(u64::MAX));
        assert_eq!(decimal(b"-7", Signed), Some(7_u64.wrapping_neg()));
        assert_eq!(decimal(b"+7", Signed), Some(7));
        assert_eq!(decimal(b"-9223372036854775808", Signed), Some(1 << 63));
        for wrong in ["", " ", "-", "1 2", "0x1", "1e3", "18446744073709551616", "-7", "+7"] {
            assert_eq!(decimal(wrong.as_bytes(), Unsigned), None, "{wrong}");
        }
        for wrong in ["--7", "9223372036854775808", "-9223372036854775809", "+ 7"] {
            assert_eq!(decimal(wrong.as_bytes(), Signed), None, "{wrong}");
        }
    }

    #[test]
    fn a_mark_ends_a_text_and_so_does_the_end() {
        assert_eq!(up_to_mark(b"12,3", b",;"), (3, 2));
        assert_eq!(up_to_mark(b"12;3", b",;"), (3, 2));
        assert_eq!(up_to_mark(b"123", b",;"), (3, 3));
        assert_eq!(up_to_mark(b"", b","), (0, 0));
        let mut text = *b"??????";
        write_decimal(&mut text, 1_002_003);
        assert_eq!(&text, b"002003");
    }
}
