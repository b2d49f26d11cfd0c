//! Prepares the points of a plot: in order, finite, on one common axis.

use crate::page::{Axis, Curve, Plot, Scale};

/// Rows of the table below a plot; longer ones are thinned.
const ROWS_MAX: usize = 1000;
/// Equal x are moved apart by this share of their size: invisible, but a different `f64`.
const APART: f64 = 1e-9;

/// A point: x, y, and its band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Finite, above 0 on a logarithmic axis, larger than that of the point before.
    pub x: f64,
    /// Not finite: a gap.
    pub y: f64,
    /// Low and high; not finite: none.
    pub band: (f64, f64),
}

/// The points of a curve that its axis can show.
pub(crate) fn drawable(curve: &Curve, x: &Axis) -> Vec<Point> {
    let none = (f64::NAN, f64::NAN);
    let bands = curve.band.iter().copied().chain(std::iter::repeat(none));
    let mut points: Vec<Point> = curve
        .points
        .iter()
        .zip(bands)
        .map(|(&(x, y), band)| Point { x, y, band })
        .filter(|point| shows(x, point.x))
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut last = f64::NEG_INFINITY;
    for point in &mut points {
        if point.x <= last {
            point.x = last + (last.abs() * APART).max(f64::MIN_POSITIVE);
        }
        last = point.x;
    }
    points
}

/// Returns true if an axis can show `value`.
pub(crate) fn shows(axis: &Axis, value: f64) -> bool {
    value.is_finite() && (axis.scale == Scale::Linear || value > 0.0)
}

/// Returns true if there is nothing to draw.
pub(crate) fn is_empty(plot: &Plot) -> bool {
    let mut points = plot.curves.iter().flat_map(|curve| drawable(curve, &plot.x));
    let is_mark = |at: (f64, f64)| shows(&plot.x, at.0) && shows(&plot.y, at.1);
    !points.any(|point| shows(&plot.y, point.y)) && !plot.marks.iter().any(|mark| is_mark(mark.at))
}

/// The curves of a plot as rows of one table.
#[derive(Debug, PartialEq)]
pub(crate) struct Joined {
    /// Names of the columns after x.
    pub columns: Vec<String>,
    /// x, and a number or nothing for each column.
    pub rows: Vec<(f64, Vec<Option<f64>>)>,
    /// One of this many rows is left.
    pub thinned: usize,
}

/// One of the numbers of a point.
type Number = fn(&Point) -> f64;

/// Joins the curves by their x.
pub(crate) fn joined(plot: &Plot) -> Joined {
    let curves: Vec<Vec<Point>> =
        plot.curves.iter().map(|curve| drawable(curve, &plot.x)).collect();
    let mut xs: Vec<f64> = curves.iter().flatten().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let thinned = xs.len().div_ceil(ROWS_MAX).max(1);
    let mut rows: Vec<(f64, Vec<Option<f64>>)> =
        xs.into_iter().step_by(thinned).map(|x| (x, Vec::new())).collect();
    let mut columns = Vec::new();
    for (curve, points) in plot.curves.iter().zip(&curves) {
        let mut numbers: Vec<(String, Number)> = vec![(curve.label.clone(), |point| point.y)];
        if !curve.band.is_empty() {
            numbers.push((format!("{} low", curve.label), |point| point.band.0));
            numbers.push((format!("{} high", curve.label), |point| point.band.1));
        }
        for (name, number) in numbers {
            columns.push(name);
            let mut rest = points.iter().peekable();
            for (x, row) in &mut rows {
                while rest.next_if(|point| point.x < *x).is_some() {}
                row.push(rest.next_if(|point| point.x == *x).map(number));
            }
        }
    }
    Joined { columns, rows, thinned }
}

#[cfg(test)]
mod tests {
    use super::{drawable, is_empty, joined};
    use crate::page::{Axis, Curve, Mark, Plot, Scale};

    fn plot(scale: Scale, points: &[&[(f64, f64)]]) -> Plot {
        let x = Axis { scale, ..Axis::default() };
        let curve = |points: &&[(f64, f64)]| Curve { points: points.to_vec(), ..Curve::default() };
        Plot { x, curves: points.iter().map(curve).collect(), ..Plot::default() }
    }

    #[test]
    fn x_without_a_place_are_left_out_and_the_rest_is_in_order() {
        let of =
            plot(Scale::Logarithmic, &[&[(8.0, 1.0), (0.0, 2.0), (f64::NAN, 3.0), (2.0, 4.0)]]);
        let points = drawable(&of.curves[0], &of.x);
        assert_eq!(points.iter().map(|point| point.x).collect::<Vec<_>>(), [2.0, 8.0]);
    }

    #[test]
    fn equal_x_stay_apart_so_that_no_point_hides_another() {
        for x in [0.0, 5.0, -5.0, 1e12] {
            let of = plot(Scale::Linear, &[&[(x, 1.0), (x, 2.0), (x, 3.0)]]);
            let points = drawable(&of.curves[0], &of.x);
            assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x), "x = {x}");
            assert!((points[2].x - x).abs() <= 1e-8 * x.abs().max(1.0), "x = {x}");
        }
    }

    #[test]
    fn curves_over_different_x_join_into_one_table() {
        let of = plot(Scale::Linear, &[&[(1.0, 10.0), (3.0, 30.0)], &[(2.0, 20.0), (3.0, 33.0)]]);
        let rows = joined(&of).rows;
        let expected = [
            (1.0, vec![Some(10.0), None]),
            (2.0, vec![None, Some(20.0)]),
            (3.0, vec![Some(30.0), Some(33.0)]),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_long_curve_makes_a_bounded_table() {
        let points: Vec<(f64, f64)> = (0..100_000).map(|x| (f64::from(x), 1.0)).collect();
        let table = joined(&plot(Scale::Linear, &[&points]));
        assert_eq!((table.rows.len(), table.thinned), (1000, 100));
    }

    #[test]
    fn a_plot_is_empty_when_nothing_of_it_has_a_place() {
        assert!(is_empty(&Plot::default()));
        assert!(is_empty(&plot(Scale::Logarithmic, &[&[(-1.0, 1.0)], &[(1.0, f64::NAN)]])));
        assert!(!is_empty(&plot(Scale::Logarithmic, &[&[(1.0, 1.0)]])));
        let mark = Mark { at: (1.0, 1.0), text: "published".to_string() };
        assert!(!is_empty(&Plot { marks: vec![mark], ..Plot::default() }));
    }
}
