//! Images of numbers: packets below each other, and sums over two indices.

use std::collections::VecDeque;

use serde_json::{Value, json};

/// Most packets of an image of packets.
const ROWS_MAX: usize = 128;
/// Most columns of an image of packets.
const COLUMNS_MAX: usize = 256;
/// Most cells of a plane in each direction.
const CELLS_MAX: usize = 256;
/// The largest index of a plane.
const INDEX_MAX: f64 = 1e15;

/// The newest packets, a row of samples each.
#[derive(Clone, Debug, Default)]
pub struct Waterfall(VecDeque<Vec<f64>>);

impl Waterfall {
    /// Adds the samples of a packet. Neighbours become one column where there are too many; it
    /// shows the sample that is farthest from the packet's mean, so that a narrow peak is seen.
    pub fn add(&mut self, samples: &[f64]) {
        if self.0.len() == ROWS_MAX {
            self.0.pop_front();
        }
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        let far = |a: &f64, b: &f64| (a - mean).abs().total_cmp(&(b - mean).abs());
        let each = samples.len().div_ceil(COLUMNS_MAX).max(1);
        let columns = samples.chunks(each).filter_map(|chunk| chunk.iter().copied().max_by(far));
        self.0.push_back(columns.collect());
    }

    /// Returns it as an image, the newest packet below.
    pub fn document(&self) -> Value {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let cells = self.0.iter().flat_map(|row| {
            let missing = std::iter::repeat_n(f64::NAN, columns - row.len());
            row.iter().copied().chain(missing)
        });
        image(columns, cells.collect())
    }
}

/// Sums by two indices, such as row and column of a sensor.
#[derive(Clone, Debug)]
pub struct Plane {
    /// Indices of a cell in each direction, a power of two.
    each: u64,
    /// Rows of [`CELLS_MAX`] cells.
    cells: Vec<f64>,
    /// Pairs that are not indices.
    skipped: u64,
}

/// A value at two indices.
#[derive(Clone, Copy, Debug)]
pub struct Pixel {
    /// The column.
    pub x: f64,
    /// The row.
    pub y: f64,
    /// The value to add.
    pub value: f64,
}

impl Default for Plane {
    fn default() -> Plane {
        Plane { each: 1, cells: vec![0.0; CELLS_MAX * CELLS_MAX], skipped: 0 }
    }
}

impl Plane {
    /// Adds a value. An index beyond the plane doubles the size of its cells.
    pub fn add(&mut self, pixel: Pixel) {
        let is_index = |index: f64| (0.0..INDEX_MAX).contains(&index);
        if !is_index(pixel.x) || !is_index(pixel.y) || !pixel.value.is_finite() {
            self.skipped += 1;
            return;
        }
        let (x, y) = (pixel.x as u64, pixel.y as u64);
        while x.max(y) / self.each >= CELLS_MAX as u64 {
            self.widen();
        }
        self.cells[(y / self.each) as usize * CELLS_MAX + (x / self.each) as usize] += pixel.value;
    }

    fn widen(&mut self) {
        let mut cells = vec![0.0; CELLS_MAX * CELLS_MAX];
        for (at, value) in self.cells.iter().enumerate() {
            cells[at / CELLS_MAX / 2 * CELLS_MAX + at % CELLS_MAX / 2] += value;
        }
        (self.each, self.cells) = (self.each * 2, cells);
    }

    /// Returns it as an image, row 0 above, without the empty cells on the right and below.
    pub fn document(&self) -> Value {
        let filled = || self.cells.iter().enumerate().filter(|(_, value)| **value != 0.0);
        let columns = filled().map(|(at, _)| at % CELLS_MAX + 1).max().unwrap_or(0);
        let rows = filled().map(|(at, _)| at / CELLS_MAX + 1).max().unwrap_or(0);
        let rows = self.cells.chunks(CELLS_MAX).take(rows);
        let mut document = image(columns, rows.flat_map(|row| &row[..columns]).copied().collect());
        document["each"] = self.each.into();
        document["skipped"] = self.skipped.into();
        document
    }
}

/// Returns cells as an image: one byte each in hexadecimal digits, 0 for no number, 1 for the least
/// and 255 for the greatest.
fn image(columns: usize, cells: Vec<f64>) -> Value {
    let finite = || cells.iter().copied().filter(|value| value.is_finite());
    let least = finite().reduce(f64::min).unwrap_or(0.0);
    let greatest = finite().reduce(f64::max).unwrap_or(0.0);
    let scale = if greatest > least { 254.0 / (greatest - least) } else { 0.0 };
    let byte = |value: f64| match value.is_finite() {
        true => 1 + ((value - least) * scale) as u8,
        false => 0,
    };
    let text: String = cells.iter().map(|value| format!("{:02x}", byte(*value))).collect();
    json!({ "columns": columns, "least": least, "greatest": greatest, "cells": text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_peak_is_seen_in_its_column() {
        let mut samples = vec![10.0; 5_000];
        samples[2_345] = 900.0;
        let mut image = Waterfall::default();
        (0..200).for_each(|_| image.add(&samples));
        image.add(&[10.0, 20.0]);
        let document = image.document();
        let columns = document["columns"].as_u64().unwrap() as usize;
        assert_eq!((columns, document["greatest"].as_f64()), (250, Some(900.0)));
        let cells = document["cells"].as_str().unwrap();
        assert_eq!(cells.len(), 2 * columns * ROWS_MAX);
        assert_eq!(&cells[2 * (2_345 / 20)..][..2], "ff");
        assert!(cells.ends_with("0000"), "cells that the last packet does not have");
    }

    #[test]
    fn sums_stay_at_their_indices_when_cells_grow() {
        let mut plane = Plane::default();
        plane.add(Pixel { x: 3.0, y: 1.0, value: 2.0 });
        plane.add(Pixel { x: 3.0, y: 1.0, value: 5.0 });
        let document = plane.document();
        assert_eq!((document["columns"].as_u64(), document["each"].as_u64()), (Some(4), Some(1)));
        assert_eq!(document["cells"], "01".repeat(7) + "ff");
        plane.add(Pixel { x: 1_000.0, y: 0.0, value: 1.0 });
        assert_eq!(plane.each, 4);
        assert_eq!((plane.cells[0], plane.cells[250]), (7.0, 1.0));
        for wild in [-1.0, f64::NAN, 1e300] {
            plane.add(Pixel { x: wild, y: 0.0, value: 1.0 });
            plane.add(Pixel { x: 0.0, y: wild, value: 1.0 });
        }
        plane.add(Pixel { x: 0.0, y: 0.0, value: f64::INFINITY });
        assert_eq!(plane.skipped, 7);
        assert_eq!(Plane::default().document()["cells"], "");
    }
}
