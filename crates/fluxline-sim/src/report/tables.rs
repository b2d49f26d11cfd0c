//! The results of a scenario as tables for other programs.

use super::results::{Latency, Point, Results};

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

/// A table by columns, all of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The name of the table.
    pub name: &'static str,
    /// The columns with their names, which end with the unit.
    pub columns: Vec<(&'static str, Column)>,
}

/// Makes the tables: points, nodes, links and the latency histograms.
#[must_use]
pub fn tables(results: &Results) -> Vec<Columns> {
    let points = &results.points;
    vec![self::points(points), nodes(points), links(points), latency(points)]
}

fn points(points: &[Point]) -> Columns {
    let float = |value: fn(&Point) -> f64| Column::Float(points.iter().map(value).collect());
    let count = |value: fn(&Point) -> u64| Column::Count(points.iter().map(value).collect());
    let of = |value: fn(&Latency) -> f64| {
        let latency = |point: &Point| point.latency_us.as_ref().map_or(f64::NAN, value);
        Column::Float(points.iter().map(latency).collect())
    };
    let prints = points.iter().map(|point| point.fingerprint.clone()).collect();
    let columns = vec![
        ("load", float(|point| point.load)),
        ("offered_mb_s", float(|point| point.offered_mb_s)),
        ("accepted_mb_s", float(|point| point.accepted_mb_s)),
        ("mean_us", of(|latency| latency.mean)),
        ("half_width_us", of(|latency| latency.half_width.unwrap_or(f64::NAN))),
        ("p50_us", of(|latency| latency.p50)),
        ("p99_us", of(|latency| latency.p99)),
        ("p999_us", of(|latency| latency.p999)),
        ("max_us", of(|latency| latency.max)),
        ("source_jain", float(|point| point.source_jain.unwrap_or(f64::NAN))),
        ("target_jain", float(|point| point.target_jain.unwrap_or(f64::NAN))),
        ("busiest_link", float(Point::busiest)),
        ("warm_up_us", float(|point| point.warm_up_us)),
        ("measured_us", float(|point| point.measured_us)),
        ("messages", count(|point| point.messages)),
        ("lost", count(|point| point.lost)),
        ("entries", count(|point| point.entries)),
        ("hops", count(|point| point.hops)),
        ("fingerprint", Column::Text(prints)),
    ];
    Columns { name: "points", columns }
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
        ("load", Column::Float(loads)),
        ("node", Column::Index(numbers)),
        ("delivered_as_source_mb_s", Column::Float(sources)),
        ("delivered_as_target_mb_s", Column::Float(targets)),
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
        ("load", Column::Float(loads)),
        ("links", Column::Text(grids)),
        ("row", Column::Text(rows)),
        ("column", Column::Index(columns)),
        ("busy", Column::Float(shares)),
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
        ("load", Column::Float(loads)),
        ("at_most_us", Column::Float(ends)),
        ("messages", Column::Count(counts)),
    ];
    Columns { name: "latency", columns }
}
