//! The page of a sweep: every value of a key with every load.

use fluxline_report::{Block, Cell, Page, Plot, Scale, Section, Style, Table};

use super::number::number;
use super::page::{Subject, axis, curve, how_section};
use super::results::{Latency, Point};
use super::simulate::Swept;
use crate::scenario::Scenario;

/// The ratio of values from which their axis is logarithmic. A choice.
const DECADES: f64 = 100.0;

/// Makes the page of a sweep. `name` is the heading where the scenario has no title.
#[must_use]
pub fn sweep_page(name: &str, scenario: &Scenario, swept: &[Swept<'_>]) -> Page {
    let subject = Subject::of(name, scenario);
    let key = &scenario.sweep_key();
    let points: Vec<Point> = swept.iter().flat_map(|one| one.results.points.clone()).collect();
    let lost: u64 = points.iter().map(|point| point.lost).sum();
    let lost = if lost > 0 { format!(" {lost} messages were lost.") } else { String::new() };
    Page {
        title: subject.title.clone(),
        subtitle: format!(
            "simulated: {}, {} values of {key}; seed {}; fluxline {}",
            subject.network,
            swept.len(),
            subject.seed,
            env!("CARGO_PKG_VERSION"),
        ),
        verdict: format!("{} points were measured.{lost}", points.len()),
        sections: vec![plots(key, swept), rows(key, swept), how_section(&subject, &points)],
        ..Page::default()
    }
}

/// Returns the place of each value on the axis: the values if all are numbers, otherwise 0, 1, ..
fn places(swept: &[Swept<'_>]) -> Vec<f64> {
    let numbers: Option<Vec<f64>> =
        swept.iter().map(|one| one.variant.value.parse().ok()).collect();
    numbers.unwrap_or_else(|| (0..swept.len()).map(|at| at as f64).collect())
}

/// Returns the scale of the axis: logarithmic for positive values over more than two decades.
fn scale(places: &[f64]) -> Scale {
    let least = places.iter().copied().fold(f64::INFINITY, f64::min);
    let most = places.iter().copied().fold(0.0, f64::max);
    if least > 0.0 && most > DECADES * least { Scale::Logarithmic } else { Scale::Linear }
}

fn plots(key: &str, swept: &[Swept<'_>]) -> Section {
    let most = swept.iter().map(|one| one.results.points.len()).max().unwrap_or(0);
    let places = places(swept);
    let plot = |title: &str, unit: &str, value: fn(&Point) -> f64| {
        let of_load = |at: usize| {
            let points = swept.iter().zip(&places);
            let points = points
                .filter_map(|(one, &x)| one.results.points.get(at).map(|point| (x, value(point))));
            let load = swept.iter().find_map(|one| one.results.points.get(at));
            let label = load.map_or(String::new(), |point| format!("load {:.3}", point.load));
            curve(&label, Style::Line, points.collect())
        };
        Block::Plot(Plot {
            title: title.to_string(),
            x: axis(key, "", scale(&places)),
            y: axis(title, unit, Scale::Linear),
            curves: (0..most).map(of_load).collect(),
            marks: Vec::new(),
        })
    };
    let mean = |point: &Point| point.latency_us.map_or(f64::NAN, |latency| latency.mean);
    Section {
        title: "Sweep".to_string(),
        text: format!("One curve a load. Values of {key} that are not numbers are at 0, 1, …"),
        blocks: vec![
            plot("mean latency", "us", mean),
            plot("accepted payload of a node", "MB/s", |point| point.accepted_mb_s),
        ],
        ..Section::default()
    }
}

fn rows(key: &str, swept: &[Swept<'_>]) -> Section {
    let columns = [
        key,
        "load",
        "offered [MB/s]",
        "accepted [MB/s]",
        "mean [us]",
        "95 % from [us]",
        "to [us]",
        "p99 [us]",
        "busiest link",
        "lost",
        "in flight",
        "carries",
        "fingerprint",
    ];
    let row = |one: &Swept<'_>, point: &Point| {
        let latency = |value: fn(&Latency) -> f64| {
            Cell::Number(point.latency_us.as_ref().map_or("–".to_string(), |of| number(value(of))))
        };
        let carries =
            one.results.saturation.map_or("–".to_string(), |of| format!("{:.3}", of.stable));
        vec![
            Cell::Text(one.variant.value.clone()),
            Cell::Number(format!("{:.3}", point.load)),
            Cell::Number(format!("{:.2}", point.offered_mb_s)),
            Cell::Number(format!("{:.2}", point.accepted_mb_s)),
            latency(|of| of.mean),
            latency(Latency::low),
            latency(Latency::high),
            latency(|of| of.p99),
            Cell::Number(format!("{:.1} %", 100.0 * point.busiest())),
            Cell::Number(point.lost.to_string()),
            Cell::Number(point.in_flight.to_string()),
            Cell::Number(carries),
            Cell::Text(point.fingerprint.clone()),
        ]
    };
    let rows =
        swept.iter().flat_map(|one| one.results.points.iter().map(move |point| row(one, point)));
    let table = Table {
        title: String::new(),
        columns: columns.map(str::to_string).to_vec(),
        rows: rows.collect(),
    };
    Section {
        title: "Points".to_string(),
        text: "The columns are those of a single scenario.".to_string(),
        blocks: vec![Block::Table(table)],
        ..Section::default()
    }
}
