//! Numbers for readers: few digits, and a unit that fits.

/// The prefixes of the International System, the smallest first. Source: BIPM, The International
/// System of Units, 9th edition, table 7.
const PREFIXES: [(&str, f64); 9] = [
    ("p", 1e-12),
    ("n", 1e-9),
    ("µ", 1e-6),
    ("m", 1e-3),
    ("", 1.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
];
/// The index of the empty prefix.
const NONE: usize = 4;
/// Binary multiples of a byte, the largest first. Source: IEC 80000-13.
const BINARY: [(&str, f64); 3] = [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0)];
/// Significant digits of a quantity.
const DIGITS: usize = 3;
/// From here on a count without a unit has its digits in groups of three.
const GROUPED_LEAST: f64 = 10_000.0;

/// A unit without its prefix.
struct Unit<'a> {
    /// The size of the unit in the base.
    factor: f64,
    /// The base, behind the prefix.
    base: &'a str,
    /// The index of the smallest prefix that makes sense.
    least: usize,
}

/// Writes a number with its unit, scaled to 1 to 999 of a prefixed unit: `14.6 ms`, `64 KiB`,
/// `1.43 M/s`.
///
/// Units that have no multiples (`%`) keep their number, with three significant digits.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    if unit.is_empty() {
        return grouped(value);
    }
    match scalable(unit) {
        Some(unit) if unit.base == "B" => bytes(value * unit.factor),
        Some(unit) => scaled(value * unit.factor, &unit),
        None => format!("{} {unit}", digits(value, DIGITS)),
    }
}

/// Finds the base of a unit. `None`: the unit has no multiples.
fn scalable(unit: &str) -> Option<Unit<'_>> {
    let time = |factor| Some(Unit { factor, base: "s", least: 0 });
    match unit {
        "ps" => return time(1e-12),
        "ns" => return time(1e-9),
        "us" | "µs" => return time(1e-6),
        "ms" => return time(1e-3),
        "s" => return time(1.0),
        "1/s" => return Some(Unit { factor: 1.0, base: "/s", least: NONE }),
        "datagrams/s" => return Some(Unit { factor: 1.0, base: " datagrams/s", least: NONE }),
        _ => {}
    }
    PREFIXES[NONE..].iter().rev().find_map(|(prefix, factor)| {
        let base = unit.strip_prefix(prefix)?;
        let is_scalable = ["B", "b/s", "B/s", "/s"].contains(&base);
        is_scalable.then_some(Unit { factor: *factor, base, least: NONE })
    })
}

fn scaled(value: f64, unit: &Unit<'_>) -> String {
    // Rounded first: 999.9 is 1 of the next prefix.
    let size = rounded(value.abs());
    let fits = |(_, factor): &&(&str, f64)| size >= *factor * (1.0 - 1e-12);
    let prefix = PREFIXES[unit.least..].iter().rev().find(fits);
    let (prefix, factor) =
        if size == 0.0 { ("", 1.0) } else { *prefix.unwrap_or(&PREFIXES[unit.least]) };
    format!("{} {prefix}{}", digits(rounded(value) / factor, DIGITS), unit.base)
}

fn bytes(value: f64) -> String {
    let whole = |(_, factor): &&(&str, f64)| value >= *factor && value % *factor == 0.0;
    if let Some((name, factor)) = BINARY.iter().find(whole) {
        return format!("{} {name}", digits(value / factor, DIGITS));
    }
    if value.abs() < GROUPED_LEAST && value.fract() == 0.0 {
        return format!("{value} B");
    }
    scaled(value, &Unit { factor: 1.0, base: "B", least: NONE })
}

/// Rounds to the digits that are shown.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Writes a count: all digits of a large one, in groups of three.
fn grouped(value: f64) -> String {
    if value.abs() < GROUPED_LEAST {
        return digits(value, DIGITS.max(if value.fract() == 0.0 { 4 } else { 0 }));
    }
    let all = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in all.chars().enumerate() {
        if at > 0 && (all.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// Writes a number with this many significant digits, without zeros at its end; a dash where it is
/// not finite.
///
/// It has neither prefix nor separators, so another program can read it.
pub(crate) fn digits(value: f64, significant: usize) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    if value == 0.0 {
        return "0".to_string();
    }
    let decade = value.abs().log10().floor() as i32;
    if !(-4..15).contains(&decade) {
        let text = format!("{value:.*e}", significant.saturating_sub(1));
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", without_zeros(mantissa));
    }
    let decimals = (significant as i32 - 1 - decade).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_string()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::{digits, quantity};

    #[test]
    fn numbers_keep_their_digits_and_lose_their_zeros() {
        let shown = |value| digits(value, 6);
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(1.5), "1.5");
        assert_eq!(shown(-2.0), "-2");
        assert_eq!(shown(100.0), "100");
        assert_eq!(shown(1_048_576.0), "1048576");
        assert_eq!(shown(1.0 / 3.0), "0.333333");
        assert_eq!(shown(0.001), "0.001");
        assert_eq!(shown(1.25e-7), "1.25e-7");
        assert_eq!(shown(6.02e23), "6.02e23");
        assert_eq!(shown(f64::NAN), "–");
        assert_eq!(shown(f64::NEG_INFINITY), "–");
    }

    #[test]
    fn a_quantity_has_1_to_999_before_its_unit() {
        for (value, unit, text) in [
            (14_588_133.0, "ns", "14.6 ms"),
            (0.081, "us", "81 ns"),
            (999.96, "us", "1 ms"),
            (0.0, "us", "0 s"),
            (-250.0, "us", "-250 µs"),
            (61.0, "s", "61 s"),
            (0.24, "Gb/s", "240 Mb/s"),
            (1234.0, "Gb/s", "1.23 Tb/s"),
            (0.0, "Gb/s", "0 b/s"),
            (251.3, "M/s", "251 M/s"),
            (0.6, "1/s", "0.6 /s"),
            (123_456.0, "datagrams/s", "123 k datagrams/s"),
        ] {
            assert_eq!(quantity(value, unit), text, "{value} {unit}");
        }
    }

    #[test]
    fn bytes_are_binary_where_they_are_whole_and_counts_keep_all_their_digits() {
        for (value, unit, text) in [
            (1472.0, "B", "1472 B"),
            (65_536.0, "B", "64 KiB"),
            (10_000_000.0, "B", "10 MB"),
            (12.5, "MB", "12.5 MB"),
            (9.0, "", "9"),
            (1234.0, "", "1234"),
            (0.98765, "", "0.988"),
            (12_000_000.0, "", "12,000,000"),
            (1128.7, "%", "1129 %"),
            (0.5, "% of a core", "0.5 % of a core"),
            (f64::NAN, "us", "–"),
        ] {
            assert_eq!(quantity(value, unit), text, "{value} {unit}");
        }
    }
}
