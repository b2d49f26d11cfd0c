//! A heat map: a table with coloured cells; the pointer shows a cell's value.

use std::fmt::Write as _;

use super::caption::push_caption;
use super::escape::escape;
use crate::number::digits;
use crate::page::HeatMap;

/// Steps of the colour scale.
pub(super) const STEPS: usize = 16;
/// More columns than these have cells without a number in them.
const NUMBERS_COLUMNS_MAX: usize = 12;
/// More columns than these have small cells.
const WIDE_COLUMNS_MAX: usize = 32;
/// Names of a large map's columns or rows; more of them would lie on each other.
const NAMES_MAX: usize = 16;

/// Viridis in 16 steps (Smith and van der Walt, matplotlib, CC0): evenly perceived, also by
/// colour-blind eyes and in grey.
pub(super) const VIRIDIS: [&str; STEPS] = [
    "#440154", "#481a6c", "#472f7d", "#414487", "#39568c", "#31688e", "#2a788e", "#23888e",
    "#1f988b", "#22a884", "#35b779", "#54c568", "#7ad151", "#a5db36", "#d2e21b", "#fde725",
];

/// Writes a heat map.
pub(super) fn push(out: &mut String, map: &HeatMap) {
    out.push_str("<figure class=\"map\">\n");
    push_caption(out, &map.title);
    let Some(range) = range(map) else {
        out.push_str("<div class=\"none\">Nothing to show.</div>\n</figure>\n");
        return;
    };
    let columns = width(map);
    let class = match columns {
        few if few <= NUMBERS_COLUMNS_MAX => "heat values",
        some if some <= WIDE_COLUMNS_MAX => "heat",
        _ => "heat dense",
    };
    let _ = writeln!(out, "<div class=\"scroll\"><table class=\"{class}\">\n<thead><tr><th></th>");
    for at in 0..columns {
        let name = map.columns.get(at).filter(|_| has_name(at, columns));
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name.map_or("", |name| name)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (row, (name, numbers)) in map.rows.iter().enumerate() {
        let shown = if has_name(row, map.rows.len()) { name } else { "" };
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(shown));
        for at in 0..columns {
            let number = numbers.get(at).copied().unwrap_or(f64::NAN);
            push_cell(out, map, name, at, number, range);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    push_ramp(out, &map.unit, range);
    out.push_str("</figure>\n");
}

fn push_cell(out: &mut String, map: &HeatMap, row: &str, at: usize, number: f64, range: Range) {
    let column = map.columns.get(at).map_or("", String::as_str);
    let place = escape_place(row, column);
    if !number.is_finite() {
        let _ = write!(out, "<td class=\"empty\" title=\"{place}: no value\"></td>");
        return;
    }
    let (step, text, unit) = (step(number, range), digits(number, 4), escape(&map.unit));
    let inside = if width(map) <= NUMBERS_COLUMNS_MAX { digits(number, 3) } else { String::new() };
    let _ = write!(out, "<td class=\"h{step}\" title=\"{place}: {text} {unit}\">{inside}</td>");
}

fn escape_place(row: &str, column: &str) -> String {
    let between = if row.is_empty() || column.is_empty() { "" } else { " → " };
    format!("{}{between}{}", escape(row), escape(column))
}

/// Returns true if row or column `at` of `count` shows its name; of many only some do.
fn has_name(at: usize, count: usize) -> bool {
    count <= WIDE_COLUMNS_MAX || at.is_multiple_of(count.div_ceil(NAMES_MAX))
}

/// Returns the number of columns.
pub(crate) fn width(map: &HeatMap) -> usize {
    map.rows.iter().map(|(_, numbers)| numbers.len()).max().unwrap_or(0).max(map.columns.len())
}

/// The ends of the colour scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    /// The lowest number.
    pub low: f64,
    /// The highest number.
    pub high: f64,
}

/// Returns the smallest and the largest number, if there is one. Shares begin at 0.
pub(crate) fn range(map: &HeatMap) -> Option<Range> {
    let all = || map.rows.iter().flat_map(|(_, numbers)| numbers).filter(|n| n.is_finite());
    all().next()?;
    let low = all().copied().fold(f64::INFINITY, f64::min);
    let high = all().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Range { low: if low >= 0.0 && low < 0.5 * high { 0.0 } else { low }, high })
}

fn step(number: f64, Range { low, high }: Range) -> usize {
    let part = if high > low { (number - low) / (high - low) } else { 0.5 };
    ((part * STEPS as f64) as usize).min(STEPS - 1)
}

/// The colours: low ones are near the ground, so that high ones are seen first in either theme.
pub(super) fn push_rules(out: &mut String) {
    for (step, colour) in VIRIDIS.iter().enumerate() {
        push_rule(out, "", STEPS - 1 - step, colour);
        push_rule(out, "[data-theme=\"dark\"] ", step, colour);
    }
    out.push('\n');
}

fn push_rule(out: &mut String, theme: &str, step: usize, colour: &str) {
    // Black or white: one of them always reaches 4.5 to 1.
    let ink = if luminance(colour) > 0.18 { "#000" } else { "#fff" };
    let _ = write!(out, "{theme}.h{step}{{background:{colour};color:{ink}}}");
}

/// Relative luminance of `#rrggbb` (WCAG 2.2).
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let byte = colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let part = f64::from(byte.unwrap_or(0)) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn push_ramp(out: &mut String, unit: &str, Range { low, high }: Range) {
    let _ = write!(out, "<div class=\"ramp\">{} <span class=\"bar\">", digits(low, 4));
    for step in 0..STEPS {
        let _ = write!(out, "<i class=\"h{step}\"></i>");
    }
    let _ = write!(out, "</span> {} {}", digits(high, 4), escape(unit));
    out.push_str("<span class=\"readout\" aria-live=\"polite\"></span></div>\n");
}

#[cfg(test)]
mod tests {
    use super::{Range, VIRIDIS, luminance, range, step};
    use crate::page::HeatMap;

    #[test]
    fn numbers_on_colours_can_be_read() {
        for colour in VIRIDIS {
            let light = luminance(colour);
            let ink = if light > 0.18 { (light + 0.05) / 0.05 } else { 1.05 / (light + 0.05) };
            assert!(ink >= 4.5, "{colour}: {ink}");
        }
    }

    #[test]
    fn the_ends_of_the_scale_have_the_first_and_the_last_colour() {
        let (wide, one) = (Range { low: 2.0, high: 4.0 }, Range { low: 1.0, high: 1.0 });
        assert_eq!((step(2.0, wide), step(4.0, wide), step(1.0, one)), (0, 15, 8));
    }

    #[test]
    fn a_map_of_gaps_has_no_range() {
        let map = |numbers: &[f64]| HeatMap {
            rows: vec![(String::new(), numbers.to_vec())],
            ..HeatMap::default()
        };
        assert_eq!(range(&map(&[f64::NAN, f64::INFINITY])), None);
        assert_eq!(range(&map(&[f64::NAN, 9.0, 10.0])), Some(Range { low: 9.0, high: 10.0 }));
        assert_eq!(range(&map(&[1.0, 10.0])), Some(Range { low: 0.0, high: 10.0 }));
    }
}
