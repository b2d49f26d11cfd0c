//! Collects samples by label and size into the series of an experiment.

use crate::result::{Axis, Point, Series, axis};

/// The label of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    label: String,
    y_label: String,
    y_unit: String,
}

/// Curves against the datagram's size.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    series: Vec<(Label, Vec<Point>)>,
}

impl Curves {
    /// Adds a sample at a size \[byte\]; curves keep the order of their first samples.
    pub fn add(&mut self, label: &str, y: Axis<'_>, bytes: usize, sample: f64) {
        let label = Label {
            label: label.to_owned(),
            y_label: y.label.to_owned(),
            y_unit: y.unit.to_owned(),
        };
        let at = self.series.iter().position(|(known, _)| *known == label).unwrap_or_else(|| {
            self.series.push((label, Vec::new()));
            self.series.len() - 1
        });
        let points = &mut self.series[at].1;
        let x = bytes as f64;
        let index = points.partition_point(|point| point.x < x);
        match points.get_mut(index).filter(|point| point.x <= x) {
            Some(point) => point.samples.push(sample),
            None => points.insert(index, Point { x, samples: vec![sample] }),
        }
    }

    /// The series.
    #[must_use]
    pub fn into_series(self) -> Vec<Series> {
        let x = axis("UDP payload of a datagram", "B");
        let series = self.series.into_iter().map(|(label, points)| {
            Series::new(&label.label, x, axis(&label.y_label, &label.y_unit), points)
        });
        series.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_place_stay_together_and_sizes_ascend() {
        let mut curves = Curves::default();
        for (bytes, sample) in [(1_472, 5.0), (64, 1.0), (1_472, 6.0), (8_972, 9.0), (64, 2.0)] {
            curves.add("single", axis("received", "Gb/s"), bytes, sample);
        }
        curves.add("single", axis("lost", "%"), 64, 0.5);
        let series = curves.into_series();
        assert_eq!(series.len(), 2);
        let points: Vec<(f64, &[f64])> =
            series[0].points.iter().map(|point| (point.x, point.samples.as_slice())).collect();
        let expected: [(f64, &[f64]); 3] =
            [(64.0, &[1.0, 2.0]), (1_472.0, &[5.0, 6.0]), (8_972.0, &[9.0])];
        assert_eq!(points, expected);
    }
}
