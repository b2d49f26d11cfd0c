//! The length of a tick: `"100 ns"`, `"12.5 ns"`, `"1 ps"`, `"88052500 Hz"`, `"88.0525 MHz"`.
//!
//! Kept as a fraction of nanoseconds in lowest terms, so that no tick is rounded twice.

use alloc::format;
use alloc::string::String;

/// Nanoseconds per tick as numerator and denominator; the error says what to write.
///
/// The product of both fits into 64 bits, so that a remainder of ticks times the numerator does.
pub(crate) fn parse(text: &str) -> Result<(u64, u64), String> {
    let wrong = || {
        format!(
            "`{text}` is neither a time nor a rate; write a number and a unit, like \"100 ns\", \
             \"1 ps\" or \"88052500 Hz\""
        )
    };
    let text_of_number = text.trim();
    let unit_start = text_of_number.find(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let (number, unit) = text_of_number.split_at(unit_start.ok_or_else(wrong)?);
    let (digits, scale) = decimal(number.trim()).ok_or_else(wrong)?;
    const GIGA: u128 = 1_000_000_000;
    // One such unit is numerator / denominator ns; a rate is turned upside down.
    let (numerator, denominator, rate) = match unit {
        "ps" => (1, 1000, false),
        "ns" => (1, 1, false),
        "us" | "µs" => (1000, 1, false),
        "ms" => (1_000_000, 1, false),
        "s" => (GIGA, 1, false),
        "Hz" => (1, GIGA, true),
        "kHz" => (1000, GIGA, true),
        "MHz" => (1_000_000, GIGA, true),
        "GHz" => (GIGA, GIGA, true),
        _ => return Err(wrong()),
    };
    let (numerator, denominator) = (numerator * digits, denominator * scale);
    let (numerator, denominator) =
        if rate { (denominator, numerator) } else { (numerator, denominator) };
    if numerator == 0 || denominator == 0 {
        return Err(format!("`{text}` is zero"));
    }
    let common = greatest_common_divisor(numerator, denominator);
    let (numerator, denominator) = (numerator / common, denominator / common);
    match (u64::try_from(numerator), u64::try_from(denominator)) {
        (Ok(a), Ok(b)) if a.checked_mul(b).is_some() => Ok((a, b)),
        _ => Err(format!("`{text}` has too many digits or is too fast; use up to 18 GHz")),
    }
}

/// A decimal number as digits and a power of ten; at most 12 digits on either side of the point.
fn decimal(text: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || whole.len() > 12 || fraction.len() > 12 {
        return None;
    }
    let mut digits = 0;
    for letter in whole.chars().chain(fraction.chars()) {
        digits = digits * 10 + u128::from(letter.to_digit(10)?);
    }
    Some((digits, 10u128.pow(u32::try_from(fraction.len()).ok()?)))
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_tick_is_an_exact_fraction_of_nanoseconds() {
        assert_eq!(parse("100 ns"), Ok((100, 1)));
        assert_eq!(parse("1 ps"), Ok((1, 1000)));
        assert_eq!(parse("12.5ns"), Ok((25, 2)));
        assert_eq!(parse("88052500 Hz"), Ok((400_000, 35_221)));
        assert_eq!(parse("88.0525 MHz"), parse("88052500 Hz"));
        assert_eq!(parse("1 µs"), Ok((1000, 1)));
    }

    #[test]
    fn what_is_no_unit_says_what_to_write() {
        for wrong in ["", "100", "ns", "x ns", "1 fortnight", "0 Hz", "1.2.3 ns", "-1 ns"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let message = parse("100").unwrap_err();
        assert!(message.contains("write a number and a unit, like \"100 ns\""), "{message}");
    }
}
