//! Numbers as a person says them: two or three digits and a unit.

/// Two digits after the first that counts; no zeros at the end.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        magnitude if magnitude >= 10.0 => 0,
        magnitude if magnitude >= 1.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// The largest unit of which there is one or more; the last where there is none.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let fits = |unit: &&(f64, &str)| value.abs() >= unit.0;
    let (scale, unit) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1.0, ""));
    format!("{} {unit}", digits(value / scale))
}

/// A size \[byte\].
pub(super) fn bytes(value: f64) -> String {
    // Sizes of packets and frames are known by their bytes.
    if value < 10_240.0 {
        return format!("{} B", digits(value));
    }
    scaled(value, &[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")])
}

/// A length of time \[s\].
pub(super) fn seconds(value: f64) -> String {
    // From a tenth of a millisecond on it is said in milliseconds.
    if (1e-4..1e-3).contains(&value.abs()) {
        return format!("{} ms", digits(value * 1e3));
    }
    scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])
}

/// A rate \[Hz\].
pub(super) fn hertz(value: f64) -> String {
    scaled(value, &[(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")])
}

/// A rate of bits \[bit/s\].
pub(super) fn bits(value: f64) -> String {
    scaled(value, &[(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")])
}

/// A number of things, `1` in the singular.
pub(super) fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} million", digits(value / 1e6)),
        value if value >= 1e4 => format!("{} thousand", digits(value / 1e3)),
        value => digits(value.round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_the_unit_people_use() {
        assert_eq!(bytes(212_992.0), "208 KiB");
        assert_eq!(bytes(67_108_864.0), "64 MiB");
        assert_eq!(bytes(9_000.0), "9000 B");
        assert_eq!(seconds(0.000_266_24), "0.27 ms");
        assert_eq!(seconds(0.000_02), "20 us");
        assert_eq!(seconds(1.25), "1.2 s");
        assert_eq!(seconds(0.0), "0 ns");
        assert_eq!(hertz(100_000.0), "100 kHz");
        assert_eq!(bits(6.554e9), "6.6 Gb/s");
        assert_eq!(
            (count(1.0), count(712.4), count(80_000.0)),
            ("1".into(), "712".into(), "80 thousand".into())
        );
    }
}
