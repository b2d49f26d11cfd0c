//! A plot: its bins, its counts and their laws.

use fluxline_core::Moment;
use serde::Serialize;

use super::axis::{Axis, Place};
use super::reference::Reference;
use super::time_bins::{Join, TimeBins};
use crate::event::{EventBatch, PacketRow};
use crate::experiment::{Plot, PlotExpressions, PlotKind, Problem, VALUE_MAX};
use crate::filter::{FilterInput, TakeValues};

/// A plot that is filled.
#[derive(Clone, Debug)]
pub struct Filled {
    plot: Plot,
    expressions: PlotExpressions,
    content: Content,
    /// The plot of an earlier run, to be shown beside it.
    pub reference: Option<Reference>,
}

/// The packets of a plot, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// All packets that were recorded while the plot was there.
    pub seen: u64,
    /// Those whose values are counted.
    pub used: u64,
    /// Those of events for which `events` is not true.
    pub cut: u64,
    /// Those of a type that lacks a field of the expressions.
    pub other: u64,
    /// Those of batches that were left out because the machine was too slow.
    pub skipped: u64,
}

/// The values of a plot, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ValueCounts {
    /// All values of the packets that were used.
    pub seen: u64,
    /// Those in the bins.
    pub entries: u64,
    /// Those below the first bin; of an image, on the first axis that they miss.
    pub underflow: u64,
    /// Those above the last bin.
    pub overflow: u64,
    /// Those with a number that is absent, not a number or, without a range, above 1e140.
    pub not_a_number: u64,
    /// Those for which `where` is not true.
    pub cut: u64,
}

/// The part of a plot that changes.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub bins: Bins,
    pub packets: PacketCounts,
    pub values: ValueCounts,
    pub moments: Moments,
    /// The time of the packet whose values come.
    now: Moment,
}

/// The bins of a plot.
#[derive(Clone, Debug)]
pub(super) enum Bins {
    Histogram { axis: Axis, counts: Vec<u64> },
    Profile { axis: Axis, cells: Vec<Cell> },
    Image { x: Axis, y: Axis, counts: Vec<u64> },
    Trace(TimeBins<Cell>),
    Rate(TimeBins<u64>),
}

/// The numbers of a bin in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub count: u64,
    pub sum: f64,
    pub squares: f64,
    pub least: f64,
    pub greatest: f64,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell { count: 0, sum: 0.0, squares: 0.0, least: f64::INFINITY, greatest: f64::NEG_INFINITY }
    }
}

impl Cell {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }
}

impl Join for Cell {
    fn join(&mut self, next: &Cell) {
        self.count += next.count;
        self.sum += next.sum;
        self.squares += next.squares;
        self.least = self.least.min(next.least);
        self.greatest = self.greatest.max(next.greatest);
    }
}

/// Sums from which mean and standard deviation follow, about the first value: so a narrow peak far
/// from 0 keeps its width.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    about: Option<f64>,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        let apart = value - *self.about.get_or_insert(value);
        self.count += 1;
        self.sum += apart;
        self.squares += apart * apart;
    }

    /// Returns the mean; `None`: no values.
    pub fn mean(&self) -> Option<f64> {
        Some(self.about? + self.sum / self.count as f64)
    }

    /// Returns the standard deviation of the values, that of all, not of a sample.
    pub fn deviation(&self) -> Option<f64> {
        self.about?;
        let mean = self.sum / self.count as f64;
        Some((self.squares / self.count as f64 - mean * mean).max(0.0).sqrt())
    }
}

impl Filled {
    /// Makes an empty plot of packets of these inputs.
    pub(super) fn new(plot: &Plot, inputs: &[FilterInput<'_>]) -> Result<Filled, Problem> {
        let expressions = plot.compile(inputs)?;
        let axis = Axis::new(plot.range.unwrap_or([0.0, 1.0]), plot.bins, plot.log);
        let bins = match plot.kind {
            PlotKind::Histogram => Bins::Histogram { counts: vec![0; axis.bins()], axis },
            PlotKind::Profile => Bins::Profile { cells: vec![Cell::default(); axis.bins()], axis },
            PlotKind::Image => {
                let y = Axis::new(plot.y_range.unwrap_or([0.0, 1.0]), plot.y_bins, false);
                Bins::Image { counts: vec![0; axis.bins() * y.bins()], x: axis, y }
            }
            PlotKind::Trace => Bins::Trace(TimeBins::new(plot.bins)),
            PlotKind::Rate => Bins::Rate(TimeBins::new(plot.bins)),
        };
        let content = Content {
            bins,
            packets: PacketCounts::default(),
            values: ValueCounts::default(),
            moments: Moments::default(),
            now: Moment::default(),
        };
        let plot = plot.clone();
        Ok(Filled { plot, expressions, content, reference: None })
    }

    /// Returns its table in the experiment.
    #[must_use]
    pub fn plot(&self) -> &Plot {
        &self.plot
    }

    /// Returns the counts of packets.
    #[must_use]
    pub fn packets(&self) -> PacketCounts {
        self.content.packets
    }

    /// Returns the counts of values.
    #[must_use]
    pub fn values(&self) -> ValueCounts {
        self.content.values
    }

    /// Returns true when both laws hold: each packet and each value is counted in one place.
    #[must_use]
    pub fn closes(&self) -> bool {
        let (packets, values) = (self.packets(), self.values());
        let numbers = values.underflow + values.overflow + values.not_a_number;
        packets.seen == packets.used + packets.cut + packets.other + packets.skipped
            && values.seen == values.entries + numbers + values.cut
            && values.entries == self.content.bins.entries()
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    pub(super) fn add_source(&mut self, number: u32, input: u16, label: &str) {
        self.expressions.packets.add_source(number, input, label);
        if let Some(events) = &mut self.expressions.events {
            events.add_source(number, input, label);
        }
    }

    pub(super) fn take(&mut self, batch: &EventBatch) {
        let Filled { expressions, content, .. } = self;
        content.packets.seen += batch.packets.len() as u64;
        for event in batch.views() {
            if expressions.events.as_ref().is_none_or(|events| events.is_true(&event)) {
                expressions.packets.each(&event, content);
            } else {
                content.packets.cut += event.packets.len() as u64;
            }
        }
    }

    pub(super) fn skip(&mut self, packets: u64) {
        self.content.packets.seen += packets;
        self.content.packets.skipped += packets;
    }
}

impl Bins {
    /// Returns the sum of the counts of all bins.
    fn entries(&self) -> u64 {
        match self {
            Bins::Histogram { counts, .. } | Bins::Image { counts, .. } => counts.iter().sum(),
            Bins::Profile { cells, .. } => cells.iter().map(|cell| cell.count).sum(),
            Bins::Trace(times) => times.cells().iter().map(|cell| cell.count).sum(),
            Bins::Rate(times) => times.cells().iter().sum(),
        }
    }
}

impl TakeValues for Content {
    fn other_packet(&mut self) {
        self.packets.other += 1;
    }

    fn packet(&mut self, packet: &PacketRow) {
        self.packets.used += 1;
        self.now = packet.time;
    }

    fn cut(&mut self) {
        self.values.seen += 1;
        self.values.cut += 1;
    }

    #[inline]
    fn numbers(&mut self, numbers: &[Option<f64>]) {
        self.values.seen += 1;
        let number = |at: usize| numbers.get(at).copied().flatten().unwrap_or(f64::NAN);
        let place = self.add(number(0), number(1));
        let count = match place {
            Place::In(_) => &mut self.values.entries,
            Place::Below => &mut self.values.underflow,
            Place::Above => &mut self.values.overflow,
            Place::Nowhere => &mut self.values.not_a_number,
        };
        *count += 1;
    }
}

impl Content {
    /// Adds the numbers of a value to its bin, and returns where that is.
    #[inline]
    fn add(&mut self, x: f64, y: f64) -> Place {
        let (now, moments) = (self.now, &mut self.moments);
        match &mut self.bins {
            Bins::Histogram { axis, counts } => {
                let place = axis.place(x);
                if let Place::In(at) = place {
                    counts[at] += 1;
                    moments.add(x);
                }
                place
            }
            Bins::Profile { axis, cells } => match axis.place(x) {
                Place::In(_) if !is_usable(y) => Place::Nowhere,
                Place::In(at) => {
                    cells[at].add(y);
                    moments.add(y);
                    Place::In(at)
                }
                elsewhere => elsewhere,
            },
            Bins::Image { x: columns, y: rows, counts } => {
                match (columns.place(x), rows.place(y)) {
                    (Place::Nowhere, _) | (_, Place::Nowhere) => Place::Nowhere,
                    (Place::In(column), Place::In(row)) => {
                        let at = column * rows.bins() + row;
                        counts[at] += 1;
                        Place::In(at)
                    }
                    (Place::In(_), elsewhere) | (elsewhere, _) => elsewhere,
                }
            }
            Bins::Trace(_) if !is_usable(x) => Place::Nowhere,
            Bins::Trace(times) => times.at(now).map_or(Place::Below, |cell| {
                cell.add(x);
                moments.add(x);
                Place::In(0)
            }),
            Bins::Rate(times) => times.at(now).map_or(Place::Below, |count| {
                *count += 1;
                Place::In(0)
            }),
        }
    }
}

/// Returns true for numbers whose squares can be summed.
fn is_usable(value: f64) -> bool {
    value.abs() <= VALUE_MAX
}
