//! Numbers and spreads in the words of the page.

pub use fluxline_report::quantity;

use crate::statistics::Summary;

/// A spread beyond this share of the median is printed as a range. Chosen: `±1129 %` says less
/// than the two ends.
const SHARE_MAX: f64 = 1.0;

/// Writes the spread of the samples: `one sample`, `±3 %`, or `0.2 to 4.1 ms`.
#[must_use]
pub fn spread(summary: &Summary, unit: &str) -> String {
    match summary.spread() {
        _ if summary.count == 1 => "one sample".to_owned(),
        share if share > SHARE_MAX => {
            format!("{} to {}", quantity(summary.least, unit), quantity(summary.most, unit))
        }
        share => percent(share),
    }
}

/// Writes a share as a spread in percent.
#[must_use]
pub fn percent(share: f64) -> String {
    let digits = usize::from(share < 0.01);
    format!("±{:.digits$} %", share * 100.0)
}

/// Writes a ratio with three significant digits.
#[must_use]
pub fn ratio(value: f64) -> String {
    quantity(value, "").replace(',', "")
}

/// Writes the median of some samples; a dash where there is none.
#[must_use]
pub fn middle(samples: &[f64], unit: &str) -> String {
    Summary::of(samples).map_or_else(|| "–".to_owned(), |of| quantity(of.median, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[f64]) -> String {
        spread(&Summary::of(samples).expect("samples"), "us")
    }

    #[test]
    fn one_sample_has_no_spread_and_a_wide_one_is_a_range() {
        assert_eq!(of(&[7.0]), "one sample");
        assert_eq!(of(&[100.0, 100.5, 101.0]), "±0.2 %");
        assert_eq!(of(&[90.0, 100.0, 110.0]), "±5 %");
        assert_eq!(of(&[1.0, 1.0, 50.0, 90.0, 4500.0]), "±89 %");
        assert_eq!(of(&[1.0, 2.0, 3.0, 60.0, 4500.0]), "1 µs to 4.5 ms");
    }
}
