//! Numbers of a page.

/// Writes a number with three significant digits, or all digits before the point.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_string(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
