//! Numbers as they are to be read.

/// A number with so many significant digits, without zeros that say nothing; not finite: a dash.
///
/// Neither prefixes nor separators, so that it can be copied into another program.
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
    use super::digits;

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
}
