//! The results of a scenario as tables for other programs.

use std::collections::BTreeMap;

use super::results::{Events, Latency, Point, Results};
use super::simulate::Swept;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers with a fraction; NaN: no value.
    Float(Vec<f64>),
    /// A column of counts.
    Count(Vec<u64>),
    /// Numbers of nodes or points.
    Index(Vec<u32>),
    /// A column of names.
    Text(Vec<String>),
}

/// A column with its name and unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name, which ends with the unit.
    pub name: &'static str,
    /// The unit; `1`: a number without one; empty: not a number.
    pub unit: &'static str,
    /// The values.
    pub column: Column,
}

/// A table by columns, all of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The name of the table.
    pub name: &'static str,
    /// The columns.
    pub columns: Vec<Field>,
}

/// Returns a column; its unit follows from the end of its name.
fn field(name: &'static str, column: Column) -> Field {
    let unit = match &column {
        Column::Text(_) => "",
        _ if name.ends_with("_mb_s") => "MB/s",
        _ if name.ends_with("_us") => "us",
        _ if name.ends_with("_bytes") => "B",
        _ if name.ends_with("per_s") => "1/s",
        _ => "1",
    };
    Field { name, unit, column }
}

/// Returns the units of all tables' columns, by name.
#[must_use]
pub fn units(tables: &[Columns]) -> BTreeMap<&'static str, &'static str> {
    let fields = tables.iter().flat_map(|table| &table.columns);
    fields.filter(|field| !field.unit.is_empty()).map(|field| (field.name, field.unit)).collect()
}

/// Makes the tables: points, nodes, links, the latency histograms, and events if there are any.
#[must_use]
pub fn tables(results: &Results) -> Vec<Columns> {
    let points = &results.points;
    let mut tables = vec![self::points(points), nodes(points), links(points), latency(points)];
    if points.iter().any(|point| point.events.is_some()) {
        tables.push(events(points));
    }
    tables
}

/// Makes the tables of a sweep: those of [`tables`] with the value of each row in front.
#[must_use]
pub fn sweep_tables(swept: &[Swept<'_>]) -> Vec<Columns> {
    let mut all: Vec<Columns> = Vec::new();
    for one in swept {
        for (at, mut table) in tables(&one.results).into_iter().enumerate() {
            let rows = table.columns.first().map_or(0, |field| field.column.rows());
            let values = vec![one.variant.value.clone(); rows];
            table.columns.insert(0, field("value", Column::Text(values)));
            match all.get_mut(at) {
                None => all.push(table),
                Some(whole) => {
                    for (field, more) in whole.columns.iter_mut().zip(table.columns) {
                        field.column.append(more.column);
                    }
                }
            }
        }
    }
    all
}

impl Column {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Column::Float(values) => values.len(),
            Column::Count(values) => values.len(),
            Column::Index(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    /// Adds the rows of a column of the same type.
    fn append(&mut self, more: Column) {
        match (self, more) {
            (Column::Float(all), Column::Float(more)) => all.extend(more),
            (Column::Count(all), Column::Count(more)) => all.extend(more),
            (Column::Index(all), Column::Index(more)) => all.extend(more),
            (Column::Text(all), Column::Text(more)) => all.extend(more),
            _ => {}
        }
    }
}

fn points(points: &[Point]) -> Columns {
    let float = |value: fn(&Point) -> f64| Column::Float(points.iter().map(value).collect());
    let count = |value: fn(&Point) -> u64| Column::Count(points.iter().map(value).collect());
    let of = |value: fn(&Latency) -> f64| {
        let latency = |point: &Point| point.latency_us.as_ref().map_or(f64::NAN, value);
        Column::Float(points.iter().map(latency).collect())
    };
    let precision = points.iter().map(|point| point.precision.name().to_owned()).collect();
    let prints = points.iter().map(|point| point.fingerprint.clone()).collect();
    let columns = vec![
        field("load", float(|point| point.load)),
        field("offered_mb_s", float(|point| point.offered_mb_s)),
        field("accepted_mb_s", float(|point| point.accepted_mb_s)),
        field("mean_us", of(|latency| latency.mean)),
        field("low_us", of(|latency| latency.low())),
        field("high_us", of(|latency| latency.high())),
        field("p50_us", of(|latency| latency.p50)),
        field("p99_us", of(|latency| latency.p99)),
        field("p999_us", of(|latency| latency.p999)),
        field("max_us", of(|latency| latency.max)),
        field("source_jain", float(|point| point.source_jain.unwrap_or(f64::NAN))),
        field("target_jain", float(|point| point.target_jain.unwrap_or(f64::NAN))),
        field("busiest_link", float(Point::busiest)),
        field("warm_up_us", float(|point| point.warm_up_us)),
        field("measured_us", float(|point| point.measured_us)),
        field("messages", count(|point| point.messages)),
        field("lost", count(|point| point.lost)),
        field("in_flight", count(|point| point.in_flight)),
        field("entries", count(|point| point.entries)),
        field("hops", count(|point| point.hops)),
        field("precision", Column::Text(precision)),
        field("fingerprint", Column::Text(prints)),
    ];
    Columns { name: "points", columns }
}

fn events(points: &[Point]) -> Columns {
    let with_events: Vec<(f64, Events)> =
        points.iter().filter_map(|point| Some((point.load, point.events?))).collect();
    let float = |value: fn(&Events) -> f64| {
        Column::Float(with_events.iter().map(|(_, events)| value(events)).collect())
    };
    let count = |value: fn(&Events) -> u64| {
        Column::Count(with_events.iter().map(|(_, events)| value(events)).collect())
    };
    let columns = vec![
        field("load", Column::Float(with_events.iter().map(|(load, _)| *load).collect())),
        field("built", count(|of| of.built)),
        field("incomplete", count(|of| of.incomplete)),
        field("vetoed", count(|of| of.vetoed)),
        field("per_s", float(|of| of.per_s)),
        field("built_mb_s", float(|of| of.built_mb_s)),
        field("waiting", float(|of| of.waiting)),
        field("waiting_most", count(|of| of.waiting_most)),
        field("memory_bytes", float(|of| of.memory_bytes)),
        field("memory_most_bytes", count(|of| of.memory_most_bytes)),
        field("p50_us", float(|of| of.p50_us)),
        field("p99_us", float(|of| of.p99_us)),
        field("max_us", float(|of| of.max_us)),
    ];
    Columns { name: "events", columns }
}

fn nodes(points: &[Point]) -> Columns {
    let (mut loads, mut numbers) = (Vec::new(), Vec::new());
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for point in points {
        let rates = point.sources_mb_s.iter().zip(&point.targets_mb_s);
        for (node, (&source, &target)) in (0_u32..).zip(rates) {
            loads.push(point.load);
            numbers.push(node);
            sources.push(source);
            targets.push(target);
        }
    }
    let columns = vec![
        field("load", Column::Float(loads)),
        field("node", Column::Index(numbers)),
        field("delivered_as_source_mb_s", Column::Float(sources)),
        field("delivered_as_target_mb_s", Column::Float(targets)),
    ];
    Columns { name: "nodes", columns }
}

fn links(points: &[Point]) -> Columns {
    let (mut loads, mut grids, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let (mut columns, mut shares) = (Vec::new(), Vec::new());
    for point in points {
        for grid in &point.links {
            for (name, row) in &grid.rows {
                for (column, &share) in (0_u32..).zip(row) {
                    loads.push(point.load);
                    grids.push(grid.title.clone());
                    rows.push(name.clone());
                    columns.push(column);
                    shares.push(share);
                }
            }
        }
    }
    let columns = vec![
        field("load", Column::Float(loads)),
        field("links", Column::Text(grids)),
        field("row", Column::Text(rows)),
        field("column", Column::Index(columns)),
        field("busy", Column::Float(shares)),
    ];
    Columns { name: "links", columns }
}

fn latency(points: &[Point]) -> Columns {
    let (mut loads, mut ends, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for point in points {
        for &(end, count) in &point.histogram {
            loads.push(point.load);
            ends.push(end);
            counts.push(count);
        }
    }
    let columns = vec![
        field("load", Column::Float(loads)),
        field("at_most_us", Column::Float(ends)),
        field("messages", Column::Count(counts)),
    ];
    Columns { name: "latency", columns }
}
