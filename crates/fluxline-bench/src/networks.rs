//! Networks side by side: time and rate against the size of a message, measured, simulated or
//! published.

mod curves;

use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, Page, Plot, Scale, Section, Style, Table,
};
use serde_json::{Value, json};

use crate::page::words::quantity;
use crate::pingpong::BEST_MEAN;
use crate::result::Report;
use crate::statistics::median;

pub use curves::{CurveError, read as read_curves};

/// Curves of a plot at most. Source: [`Plot::curves`].
const CURVES_MAX: usize = 8;
/// The size whose time is called latency \[byte\].
const LATENCY_BYTES: f64 = 8.0;
/// The asymptotic rate is that from this share of the largest size to the largest. Chosen: far
/// above the size of half the rate, and more than one size.
const ASYMPTOTE_SHARE: f64 = 0.25;

/// The time of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trip {
    /// Its size \[byte\].
    pub bytes: f64,
    /// Half a round trip \[s\].
    pub seconds: f64,
}

impl Trip {
    /// Returns the rate \[Gb/s\].
    #[must_use]
    pub fn gigabits(&self) -> f64 {
        self.bytes * 8e-9 / self.seconds
    }
}

/// One network.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The URL of a link, or the name of a published curve.
    pub name: String,
    /// The origin of the numbers: measured, in virtual time, or a file.
    pub origin: String,
    /// True: the rates are rounded too much for a time of a short message.
    pub is_coarse: bool,
    /// The times, sizes ascending.
    pub trips: Vec<Trip>,
}

/// The numbers that describe a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Half a round trip of 8 B, or of the next size above \[us\]; `None`: not known.
    pub latency_us: Option<f64>,
    /// The largest rate \[Gb/s\].
    pub largest_gbps: f64,
    /// The rate of further bytes from a quarter of the largest size on \[Gb/s\]; `None`: too few
    /// sizes.
    pub asymptotic_gbps: Option<f64>,
    /// The size that reaches half of the largest rate, n1/2 \[byte\].
    pub half_bytes: f64,
}

impl Network {
    /// Returns the network of a report with the experiment `pingpong`; `None`: it has none.
    #[must_use]
    pub fn of_report(report: &Report) -> Option<Network> {
        let pingpong = report.experiments.iter().find(|one| one.name == "pingpong")?;
        let times = pingpong.series.iter().find(|one| one.label == BEST_MEAN)?;
        let trip = |point: &crate::result::Point| {
            let seconds = median(&point.samples)? / 1e6;
            (seconds > 0.0).then_some(Trip { bytes: point.x, seconds })
        };
        let trips: Vec<Trip> = times.points.iter().filter_map(trip).collect();
        let is_virtual = report.environment["virtual_ns"].is_u64();
        let origin = if is_virtual { "simulated, virtual time" } else { "measured here" };
        let (name, origin) = (report.link.clone(), origin.to_owned());
        (!trips.is_empty()).then_some(Network { name, origin, is_coarse: false, trips })
    }

    /// Computes the figures; `None`: no time was measured.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        let latency = self.trips.iter().find(|trip| trip.bytes >= LATENCY_BYTES);
        let latency = latency.filter(|_| !self.is_coarse);
        let rates = self.trips.iter().map(Trip::gigabits);
        let largest_gbps = rates
            .fold(None, |most: Option<f64>, rate| Some(most.map_or(rate, |most| most.max(rate))))?;
        Some(Figures {
            latency_us: latency.map(|trip| trip.seconds * 1e6),
            largest_gbps,
            asymptotic_gbps: self.asymptotic_gbps(),
            half_bytes: self.bytes_at(largest_gbps / 2.0)?,
        })
    }

    fn asymptotic_gbps(&self) -> Option<f64> {
        let last = self.trips.last()?;
        let first = self.trips.iter().find(|trip| trip.bytes >= ASYMPTOTE_SHARE * last.bytes)?;
        let (bytes, seconds) = (last.bytes - first.bytes, last.seconds - first.seconds);
        (bytes > 0.0 && seconds > 0.0).then(|| bytes * 8e-9 / seconds)
    }

    /// Returns the first size that reaches a rate, between two sizes by a straight line on
    /// logarithmic axes.
    fn bytes_at(&self, gigabits: f64) -> Option<f64> {
        let at = self.trips.iter().position(|trip| trip.gigabits() >= gigabits)?;
        let above = self.trips[at];
        let Some(below) = at.checked_sub(1).map(|at| self.trips[at]) else {
            return Some(above.bytes);
        };
        let [low, high] = [below, above].map(|trip| trip.gigabits().ln());
        let share = (gigabits.ln() - low) / (high - low);
        let [from, to] = [below, above].map(|trip| trip.bytes.ln());
        Some((from + share * (to - from)).exp())
    }

    fn document(&self) -> Value {
        let figures = self.figures();
        let points: Vec<Value> = self
            .trips
            .iter()
            .map(|trip| {
                let us = trip.seconds * 1e6;
                json!({ "bytes": trip.bytes, "us": us, "gbps": trip.gigabits() })
            })
            .collect();
        json!({
            "name": self.name,
            "origin": self.origin,
            "latency_us": figures.and_then(|of| of.latency_us),
            "largest_gbps": figures.map(|of| of.largest_gbps),
            "asymptotic_gbps": figures.and_then(|of| of.asymptotic_gbps),
            "half_bytes": figures.map(|of| of.half_bytes),
            "points": points,
        })
    }

    fn row(&self) -> Vec<Cell> {
        let figures = self.figures();
        let of = |value: Option<f64>, unit: &str| {
            Cell::Number(value.map_or_else(|| "–".to_owned(), |of| quantity(of, unit)))
        };
        vec![
            Cell::Text(self.name.clone()),
            of(figures.and_then(|of| of.latency_us), "us"),
            of(figures.map(|of| of.largest_gbps), "Gb/s"),
            of(figures.and_then(|of| of.asymptotic_gbps), "Gb/s"),
            of(figures.map(|of| of.half_bytes), "B"),
            Cell::Text(self.origin.clone()),
        ]
    }
}

/// The columns of the table.
const COLUMNS: [&str; 6] =
    ["network", "half round trip, 8 B", "largest rate", "asymptotic rate", "n1/2", "origin"];

/// Returns the networks as JSON.
#[must_use]
pub fn document(networks: &[Network]) -> Value {
    json!({ "networks": networks.iter().map(Network::document).collect::<Vec<Value>>() })
}

/// Makes the page: a table, then time and rate against size.
#[must_use]
pub fn page(networks: &[Network]) -> Page {
    let mut blocks = vec![Block::Table(table(networks))];
    blocks.extend(plots(networks, &RATE));
    blocks.extend(plots(networks, &TIME));
    let section = Section {
        title: "Half round trips on NetPIPE's schedule".to_owned(),
        text: "Each time is half a round trip: the mean of the best trial, the median of the \
               rounds. The asymptotic rate is that of the bytes beyond a quarter of the largest \
               size; n1/2 is the size that reaches half of the largest rate."
            .to_owned(),
        blocks,
        notes: vec![
            "Simulated links are models: their parameters and how well they agree with published \
             figures are in docs/fidelity.md."
                .to_owned(),
        ],
    };
    Page {
        title: "fluxline bench: networks compared".to_owned(),
        subtitle: networks.iter().map(|of| of.name.as_str()).collect::<Vec<_>>().join(", "),
        headlines: headlines(networks),
        warnings: Vec::new(),
        verdict: String::new(),
        sections: vec![section],
    }
}

/// The network with the shortest latency, and that with the largest rate.
fn headlines(networks: &[Network]) -> Vec<Headline> {
    let figures = || networks.iter().filter_map(|of| Some((of, of.figures()?)));
    let quickest = figures()
        .filter_map(|(of, figures)| Some((of, figures.latency_us?)))
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let fastest =
        figures().max_by(|one, other| one.1.largest_gbps.total_cmp(&other.1.largest_gbps));
    let headline = |label: &str, value: String, of: &Network| Headline {
        label: label.to_owned(),
        value,
        note: of.name.clone(),
    };
    let quickest =
        quickest.map(|(of, us)| headline("shortest half round trip, 8 B", quantity(us, "us"), of));
    let fastest = fastest
        .map(|(of, figures)| headline("largest rate", quantity(figures.largest_gbps, "Gb/s"), of));
    quickest.into_iter().chain(fastest).collect()
}

/// Makes the table of all figures.
#[must_use]
pub fn table(networks: &[Network]) -> Table {
    Table {
        title: String::new(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: networks.iter().map(Network::row).collect(),
    }
}

/// A quantity against the size of the message.
struct Quantity {
    label: &'static str,
    unit: &'static str,
    of: fn(&Trip) -> f64,
    /// True: coarse curves are left out.
    needs_fine: bool,
}

const RATE: Quantity =
    Quantity { label: "rate", unit: "Gb/s", of: Trip::gigabits, needs_fine: false };
const TIME: Quantity = Quantity {
    label: "half round trip",
    unit: "us",
    of: |trip| trip.seconds * 1e6,
    needs_fine: true,
};

fn plots(networks: &[Network], quantity: &Quantity) -> Vec<Block> {
    let shown: Vec<&Network> =
        networks.iter().filter(|of| !(quantity.needs_fine && of.is_coarse)).collect();
    let plot = |part: usize, few: &[&Network]| {
        let more = if part == 0 { String::new() } else { format!(", {}", part + 1) };
        let axis = |label: &str, unit: &str| Axis {
            label: label.to_owned(),
            unit: unit.to_owned(),
            scale: Scale::Logarithmic,
        };
        let curve = |of: &&Network| Curve {
            label: of.name.clone(),
            points: of.trips.iter().map(|trip| (trip.bytes, (quantity.of)(trip))).collect(),
            band: Vec::new(),
            style: Style::Line,
        };
        Block::Plot(Plot {
            title: format!("{} against message{more}", quantity.label),
            x: axis("message", "B"),
            y: axis(quantity.label, quantity.unit),
            curves: few.iter().map(curve).collect(),
            marks: Vec::new(),
        })
    };
    shown.chunks(CURVES_MAX).enumerate().map(|(part, few)| plot(part, few)).collect()
}

#[cfg(test)]
mod tests;
