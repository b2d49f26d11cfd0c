//! A plot: its data for the script, and the same data as a table for everyone else.

use std::fmt::Write as _;

use serde::Serialize;

use super::caption::push_caption;
use super::escape::escape;
use crate::number::digits;
use crate::page::{Axis, Curve, Mark, Plot, Scale, Style};
use crate::points::{self, Joined};

/// Curves of a plot with a colour; further curves are only in the table.
const CURVES_MAX: usize = 8;
/// Significant digits in the table.
const DIGITS: usize = 6;

/// The data of a plot for the script. Numbers that are not finite become null.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    x: AxisData<'a>,
    y: AxisData<'a>,
    curves: Vec<CurveData<'a>>,
    marks: Vec<MarkData<'a>>,
}

#[derive(Serialize)]
struct AxisData<'a> {
    label: &'a str,
    unit: &'a str,
    log: bool,
}

#[derive(Serialize)]
struct CurveData<'a> {
    label: &'a str,
    style: &'static str,
    x: Vec<f64>,
    y: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<Vec<f64>>,
}

#[derive(Serialize)]
struct MarkData<'a> {
    x: f64,
    y: f64,
    text: &'a str,
}

/// Writes the element of a plot and its table, and adds its data to `plots`.
pub(super) fn push<'a>(out: &mut String, plot: &'a Plot, plots: &mut Vec<Data<'a>>) {
    out.push_str("<figure>\n");
    push_caption(out, &plot.title);
    if points::is_empty(plot) {
        out.push_str("<div class=\"none\">Nothing to plot.</div>\n</figure>\n");
        return;
    }
    let title = escape(&plot.title);
    let number = plots.len();
    let _ = writeln!(
        out,
        "<div class=\"plot\" data-plot=\"{number}\" aria-label=\"Plot: {title}\"></div>"
    );
    plots.push(data(plot));
    if plot.curves.len() > CURVES_MAX {
        let more = plot.curves.len() - CURVES_MAX;
        let _ = writeln!(out, "<p>{more} more curves are only in the table.</p>");
    }
    push_table(out, plot);
    out.push_str("</figure>\n");
}

fn data(plot: &Plot) -> Data<'_> {
    let is_shown =
        |mark: &&Mark| points::shows(&plot.x, mark.at.0) && points::shows(&plot.y, mark.at.1);
    Data {
        x: axis(&plot.x),
        y: axis(&plot.y),
        curves: plot.curves.iter().take(CURVES_MAX).map(|of| curve(of, &plot.x)).collect(),
        marks: plot
            .marks
            .iter()
            .filter(is_shown)
            .map(|of| MarkData { x: of.at.0, y: of.at.1, text: &of.text })
            .collect(),
    }
}

fn axis(axis: &Axis) -> AxisData<'_> {
    AxisData { label: &axis.label, unit: &axis.unit, log: axis.scale == Scale::Logarithmic }
}

fn curve<'a>(curve: &'a Curve, x: &Axis) -> CurveData<'a> {
    let points = points::drawable(curve, x);
    let has_band = !curve.band.is_empty();
    CurveData {
        label: &curve.label,
        style: match curve.style {
            Style::Line => "line",
            Style::Dashed => "dashed",
            Style::Points => "points",
            Style::Steps => "steps",
        },
        x: points.iter().map(|point| point.x).collect(),
        y: points.iter().map(|point| point.y).collect(),
        low: has_band.then(|| points.iter().map(|point| point.band.0).collect()),
        high: has_band.then(|| points.iter().map(|point| point.band.1).collect()),
    }
}

fn push_table(out: &mut String, plot: &Plot) {
    let Joined { columns, rows, thinned } = points::joined(plot);
    let every = if thinned > 1 { format!(", one in {thinned}") } else { String::new() };
    let _ = writeln!(out, "<details><summary>Numbers ({} rows{every})</summary>", rows.len());
    out.push_str("<div class=\"scroll\"><table class=\"rows\">\n<thead><tr>");
    let _ = write!(out, "<th class=\"number\">{}</th>", escape(&named(&plot.x)));
    let unit = if plot.y.unit.is_empty() { String::new() } else { format!(" [{}]", plot.y.unit) };
    for column in &columns {
        let _ = write!(out, "<th class=\"number\">{}</th>", escape(&format!("{column}{unit}")));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (x, numbers) in rows {
        let _ = write!(out, "<tr><td class=\"number\">{}</td>", digits(x, DIGITS));
        for number in numbers {
            let text = number.map_or_else(String::new, |number| digits(number, DIGITS));
            let _ = write!(out, "<td class=\"number\">{text}</td>");
        }
        out.push_str("</tr>\n");
    }
    for mark in &plot.marks {
        let (x, y) = (digits(mark.at.0, DIGITS), digits(mark.at.1, DIGITS));
        let (wide, text) = (columns.len().max(1), escape(&mark.text));
        let _ = write!(out, "<tr><td class=\"number\">{x}</td>");
        let _ = writeln!(out, "<td colspan=\"{wide}\" class=\"text\">{y}: {text}</td></tr>");
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str("<button type=\"button\" class=\"copy\">Copy for a spreadsheet</button>");
    out.push_str("</details>\n");
}

/// Returns the label of an axis with its unit.
pub(crate) fn named(axis: &Axis) -> String {
    let Axis { label, unit, .. } = axis;
    if unit.is_empty() { label.clone() } else { format!("{label} [{unit}]") }
}
