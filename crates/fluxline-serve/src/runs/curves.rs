//! The curves of a run folder, from its `history.arrows`: rates over seconds, as a live page has them.

use fluxline_daq::record::{FolderError, History, RunFolder, read_history};
use serde_json::{Map, Value, json};

use super::NotThere;
use crate::history::Series;

/// The time of a tick \[ns\].
const TICK_NS: u64 = 1_000_000_000;
/// Most ticks of a run, a month: a file of a stranger may claim any times.
const TICKS_MAX: u64 = 3_000_000;

/// A curve: the growth of a count in a second, or a value.
struct Curve {
    name: &'static str,
    unit: &'static str,
    column: &'static str,
    /// Of a rate: the factor of the count; `None`: the value itself.
    rate: Option<f64>,
}

const fn rate(name: &'static str, unit: &'static str, column: &'static str, by: f64) -> Curve {
    Curve { name, unit, column, rate: Some(by) }
}

const fn value(name: &'static str, unit: &'static str, column: &'static str) -> Curve {
    Curve { name, unit, column, rate: None }
}

/// The curves, with the names that those of a live page have.
const CURVES: [Curve; 11] = [
    rate("packets", "packets/s", "packets", 1.0),
    rate("bits", "bit/s", "bytes", 8.0),
    rate("events", "events/s", "events", 1.0),
    rate("incomplete", "events/s", "incomplete", 1.0),
    rate("lost", "packets/s", "lost", 1.0),
    rate("dropped", "packets/s", "dropped", 1.0),
    rate("recorded", "byte/s", "recorded_bytes", 1.0),
    value("ring", "%", "ring_percent"),
    value("free", "byte", "free_bytes"),
    value("delay", "ns", "delay_p99_ns"),
    value("health", "", "health"),
];

/// Returns a part of the curves with about `points` values each.
pub fn part(folder: &RunFolder, from: u64, to: u64, points: usize) -> Result<Value, NotThere> {
    let history = read_history(folder.directory()).map_err(|error| match error {
        FolderError::Missing(_) => NotThere(
            "this run has no history.arrows: an older version recorded it, or it was in virtual \
             time."
                .into(),
        ),
        error => NotThere(format!("{error}.")),
    })?;
    let began = history.times_ns.first().copied().unwrap_or(0);
    let (mut ticks, mut series) = (0, Map::new());
    for curve in &CURVES {
        let values = curve.values(&history);
        ticks = values.ticks();
        let part = values.part(from, to, points);
        let least: Vec<f64> = part.values.iter().map(|value| value.least).collect();
        let greatest: Vec<f64> = part.values.iter().map(|value| value.greatest).collect();
        let part = json!({
            "unit": curve.unit, "first": part.first, "step": part.step, "least": least,
            "greatest": greatest,
        });
        series.insert(curve.name.to_owned(), part);
    }
    Ok(json!({
        "ticks": ticks, "tick_ns": TICK_NS, "began_ns": began, "series": series,
        "fault": history.fault,
    }))
}

impl Curve {
    /// Returns its value at each tick; where the history has none, the last one goes on, and rates
    /// are those of the time up to the next row.
    fn values(&self, history: &History) -> Series {
        let column = history.column(self.column).unwrap_or_default();
        let mut rows = history.times_ns.iter().zip(column);
        let mut series = Series::default();
        let Some((began, first)) = rows.next() else { return series };
        let (mut before_ns, mut before) = (*began, first.unwrap_or(0));
        for (time_ns, count) in rows {
            let count = count.unwrap_or(before);
            let lasted = time_ns.saturating_sub(before_ns) as f64 * 1e-9;
            if lasted <= 0.0 {
                continue; // the clock was set back: the next row goes on
            }
            let value = match self.rate {
                Some(factor) => count.saturating_sub(before) as f64 * factor / lasted,
                None => count as f64,
            };
            let end = (time_ns.saturating_sub(*began) + TICK_NS / 2) / TICK_NS;
            let end = end.min(TICKS_MAX);
            while series.ticks() < end {
                series.push(value);
            }
            (before_ns, before) = (*time_ns, count);
        }
        series
    }
}
