//! The JSON of plots: plots.json, and the answer of a page.

use fluxline_core::Moment;
use serde::Serialize;

use super::filled::{Bins, Cell, Filled, PacketCounts, ValueCounts};
use super::reference::Reference;
use crate::experiment::Plot;

/// The state of a run, as plots.json has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// More packets may come, or the program was killed.
    No,
    /// The plots have all packets that they will have.
    Yes,
}

/// All plots of a run.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    /// Version of the format.
    version: u32,
    /// The time of the counts \[ns since 1970\].
    at_ns: u64,
    /// All packets of the run are in them.
    ended: bool,
    plots: Vec<PlotDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct PlotDocument<'a> {
    #[serde(flatten)]
    plot: &'a Plot,
    packets: PacketCounts,
    values: ValueCounts,
    /// Of the entries: of `x`, of a profile of `y`.
    mean: Option<f64>,
    sd: Option<f64>,
    /// `None`: there are too many for this answer.
    data: Option<Data<'a>>,
}

#[derive(Debug, Default, Serialize)]
struct Data<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<&'a [f64]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_edges: Option<&'a [f64]>,
    /// Of time: the start of the first bin, and the width of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width_ns: Option<u64>,
    /// Of an image: the rows of the first column, then those of the second.
    counts: Counts<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sums: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    squares: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    greatest: Option<Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a Reference>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Counts<'a> {
    There(&'a [u64]),
    Made(Vec<u64>),
}

impl Default for Counts<'_> {
    fn default() -> Self {
        Counts::There(&[])
    }
}

impl<'a> Document<'a> {
    pub(super) fn of(plots: &'a [Filled], at: Moment, ended: Ended, bins_max: u64) -> Self {
        let mut bins = 0;
        let one = |plot: &'a Filled| {
            bins += plot.plot().bins_in_all();
            PlotDocument {
                plot: plot.plot(),
                packets: plot.packets(),
                values: plot.values(),
                mean: plot.content().moments.mean(),
                sd: plot.content().moments.deviation(),
                data: (bins <= bins_max).then(|| Data::of(plot)),
            }
        };
        let plots = plots.iter().map(one).collect();
        Document { version: 1, at_ns: at.as_ns(), ended: ended == Ended::Yes, plots }
    }
}

impl<'a> Data<'a> {
    fn of(plot: &'a Filled) -> Data<'a> {
        let data = match &plot.content().bins {
            Bins::Histogram { axis, counts } => {
                Data { edges: Some(axis.edges()), counts: Counts::There(counts), ..Data::default() }
            }
            Bins::Image { x, y, counts } => Data {
                edges: Some(x.edges()),
                y_edges: Some(y.edges()),
                counts: Counts::There(counts),
                ..Data::default()
            },
            Bins::Profile { axis, cells } => {
                let data = Data::of_cells(cells);
                Data { edges: Some(axis.edges()), least: None, greatest: None, ..data }
            }
            Bins::Trace(times) => Data {
                origin_ns: times.origin_ns(),
                width_ns: Some(times.width_ns()),
                ..Data::of_cells(times.cells())
            },
            Bins::Rate(times) => Data {
                origin_ns: times.origin_ns(),
                width_ns: Some(times.width_ns()),
                counts: Counts::There(times.cells()),
                ..Data::default()
            },
        };
        Data { reference: plot.reference.as_ref(), ..data }
    }

    fn of_cells(cells: &[Cell]) -> Data<'a> {
        let there = |value: f64| value.is_finite().then_some(value);
        Data {
            counts: Counts::Made(cells.iter().map(|cell| cell.count).collect()),
            sums: Some(cells.iter().map(|cell| cell.sum).collect()),
            squares: Some(cells.iter().map(|cell| cell.squares).collect()),
            least: Some(cells.iter().map(|cell| there(cell.least)).collect()),
            greatest: Some(cells.iter().map(|cell| there(cell.greatest)).collect()),
            ..Data::default()
        }
    }
}
