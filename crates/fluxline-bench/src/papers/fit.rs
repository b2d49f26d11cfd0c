//! A line through elapsed times: the time of every transfer, and of every byte.

/// A line `setup + bytes * per_byte`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The time of a transfer without bytes.
    pub setup: f64,
    /// For each byte.
    pub per_byte: f64,
}

/// Fits the line with the least relative errors. With absolute errors the largest block alone would
/// determine the set-up time. `None`: fewer than two sizes.
#[must_use]
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let usable = || points.iter().filter(|(x, y)| x.is_finite() && y.is_finite() && *y > 0.0);
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| -> f64 { usable().map(|(x, y)| of(*x, *y) / (y * y)).sum() };
    let (weight, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
    let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let spread = weight * xx - x * x;
    let first = usable().next()?.0;
    if usable().all(|(x, _)| *x == first) || spread <= 0.0 {
        return None;
    }
    let per_byte = (weight * xy - x * y) / spread;
    Some(Line { setup: (y - per_byte * x) / weight, per_byte })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_the_largest_block_does_not_hide_the_set_up() {
        let exact: Vec<(f64, f64)> =
            (3..20).map(|power| f64::from(1 << power)).map(|x| (x, 10.0 + x / 85.0)).collect();
        let found = line(&exact).expect("many sizes");
        assert!((found.setup - 10.0).abs() < 1e-6, "{found:?}");
        assert!((found.per_byte * 85.0 - 1.0).abs() < 1e-9, "{found:?}");
        // A tenth more for the largest moves the set-up little.
        let mut bent = exact;
        bent.last_mut().expect("many").1 *= 1.1;
        let found = line(&bent).expect("many sizes");
        assert!((found.setup - 10.0).abs() < 0.5, "{found:?}");
    }

    #[test]
    fn one_size_and_none_are_no_line() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(8.0, 1.0), (8.0, 1.1)]), None);
        assert_eq!(line(&[(8.0, 1.0), (16.0, f64::NAN)]), None);
    }
}
