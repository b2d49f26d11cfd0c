//! The plots of an experiment, or of two reports over each other.

use std::collections::BTreeSet;

use fluxline_report::{Axis, Curve, Plot, Scale, Style};

use crate::result::Series;
use crate::statistics::Summary;

/// Curves of a plot at most. Source: [`Plot::curves`].
const CURVES_MAX: usize = 8;
/// Values that are further apart than this factor are shown on a logarithmic axis.
const LINEAR_FACTOR_MAX: f64 = 20.0;

/// The curves of one report. Their labels begin with its name, unless that is empty.
#[derive(Clone, Copy)]
pub struct Curves<'a> {
    /// The report's name.
    pub name: &'a str,
    /// The curves.
    pub series: &'a [Series],
}

/// Makes one plot for all curves that have the same axes.
#[must_use]
pub fn plots(reports: &[Curves<'_>]) -> Vec<Plot> {
    let axes = |series: &Series| {
        [&series.x_label, &series.x_unit, &series.y_label, &series.y_unit].map(String::clone)
    };
    let all: Vec<Named<'_>> = reports
        .iter()
        .flat_map(|of| of.series.iter().map(|series| Named { name: of.name, series }))
        .filter(|one| !one.series.points.is_empty())
        .collect();
    let mut seen = BTreeSet::new();
    let mut plots = Vec::new();
    for first in &all {
        if !seen.insert(axes(first.series)) {
            continue;
        }
        let alike: Vec<Named<'_>> =
            all.iter().filter(|one| axes(one.series) == axes(first.series)).copied().collect();
        for (part, few) in alike.chunks(CURVES_MAX).enumerate() {
            let more = if part == 0 { String::new() } else { format!(", {}", part + 1) };
            plots.push(plot(few, &more));
        }
    }
    plots
}

/// A curve of a report.
#[derive(Clone, Copy)]
struct Named<'a> {
    name: &'a str,
    series: &'a Series,
}

fn plot(alike: &[Named<'_>], more: &str) -> Plot {
    let first = alike[0].series;
    let points = || alike.iter().flat_map(|one| &one.series.points);
    let mut xs = points().map(|point| point.x);
    let mut ys = points().filter_map(|point| Some(Summary::of(&point.samples)?.median));
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    Plot {
        title: format!("{} against {}{more}", first.y_label, first.x_label),
        x: axis(&first.x_label, &first.x_unit, scale(&mut xs)),
        y: axis(&first.y_label, &first.y_unit, scale(&mut ys)),
        curves: alike.iter().map(curve).collect(),
        marks: Vec::new(),
    }
}

/// Logarithmic where there is more than one decade, and only positive values.
fn scale(values: &mut dyn Iterator<Item = f64>) -> Scale {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    let is_wide = least > 0.0 && most > LINEAR_FACTOR_MAX * least;
    if is_wide { Scale::Logarithmic } else { Scale::Linear }
}

fn curve(of: &Named<'_>) -> Curve {
    let Named { name, series } = of;
    let label = match *name {
        "" => series.label.clone(),
        name => format!("{name}: {}", series.label),
    };
    let summaries: Vec<(f64, Summary)> = series
        .points
        .iter()
        .filter_map(|point| Some((point.x, Summary::of(&point.samples)?)))
        .collect();
    let is_single = summaries.iter().all(|(_, summary)| summary.count == 1);
    let band = summaries.iter().map(|(_, summary)| (summary.low, summary.high));
    Curve {
        label,
        points: summaries.iter().map(|(x, summary)| (*x, summary.median)).collect(),
        // One sample has no quartiles.
        band: if is_single { Vec::new() } else { band.collect() },
        style: Style::Line,
    }
}
