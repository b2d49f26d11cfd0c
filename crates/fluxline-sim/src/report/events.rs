//! The section about event building.

use fluxline_report::{Block, Cell, Section, Table};

use super::number::number;
use super::results::{Events, Point};

/// Returns the section; `None`: no events were built.
pub fn section(points: &[Point]) -> Option<Section> {
    let rows: Vec<Vec<Cell>> =
        points.iter().filter_map(|point| Some(row(point.load, &point.events?))).collect();
    let columns = [
        "load",
        "events/s",
        "built [MB/s]",
        "incomplete",
        "vetoed",
        "fragments waiting",
        "most",
        "builder memory [B]",
        "most",
        "p50 [us]",
        "p99 [us]",
        "max [us]",
    ];
    let table = Table {
        title: String::new(),
        columns: columns.map(str::to_string).to_vec(),
        rows: rows.clone(),
    };
    (!rows.is_empty()).then(|| Section {
        title: "Events".to_string(),
        text: "An event is built when the fragments of all sources have arrived; its time runs \
               from the trigger. Vetoed triggers found too many open events. Waiting fragments \
               were triggered and have not arrived. Memory is that of one builder, for events \
               that are not complete. Means are over the measured time, the most since the start."
            .to_string(),
        blocks: vec![Block::Table(table)],
        ..Section::default()
    })
}

fn row(load: f64, of: &Events) -> Vec<Cell> {
    let bad = |count: u64| match count {
        0 => Cell::Number("0".to_string()),
        _ => Cell::Bad(count.to_string()),
    };
    vec![
        Cell::Number(format!("{load:.3}")),
        Cell::Number(number(of.per_s)),
        Cell::Number(format!("{:.2}", of.built_mb_s)),
        bad(of.incomplete),
        bad(of.vetoed),
        Cell::Number(number(of.waiting)),
        Cell::Number(of.waiting_most.to_string()),
        Cell::Number(number(of.memory_bytes)),
        Cell::Number(of.memory_most_bytes.to_string()),
        Cell::Number(number(of.p50_us)),
        Cell::Number(number(of.p99_us)),
        Cell::Number(number(of.max_us)),
    ]
}
