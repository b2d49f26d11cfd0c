//! Waveform, spectrum, histogram and image of chosen fields of a source.
//!
//! A [`Choice`] names a source and a field, or three fields for an image of two indices. [`Signal`]
//! gathers the packets of a choice; its memory does not depend on their number. A live page's
//! [`Signals`] gather the newest packets, ten a second, while a browser asks for them.

mod field;
mod histogram;
mod image;
mod spectrum;

use std::collections::VecDeque;

use fluxline_core::{Moment, Span};
use fluxline_packet::Description;
use fluxline_run::{Live, Newest, WatchedInput};
use serde_json::{Value, json};

pub use field::append;
use histogram::Histogram;
use image::{Pixel, Plane, Waterfall};

/// Choices at a time; the one that was asked for least recently makes room.
const CHOICES_MAX: usize = 16;
/// Time after which a choice that nobody asks for is dropped.
const ASKED: Span = Span::from_ms(10_000);
/// Values of a header's field that are shown as a curve.
const SCALARS_MAX: usize = 2048;
/// Most samples of a waveform in an answer.
const WAVEFORM_MAX: usize = 8192;
/// Weight of a new spectrum in the mean.
const SPECTRUM_WEIGHT: f64 = 0.1;

/// The fields of a source to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The number of the source.
    pub source: u32,
    /// The field; for an image of two indices the field of the values, empty: each counts 1.
    pub field: String,
    /// The fields of column and row of an image.
    pub indices: Option<Indices>,
}

/// The fields of the indices of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices {
    /// The field of the column.
    pub x: String,
    /// The field of the row.
    pub y: String,
}

/// A packet and the description of its source.
#[derive(Clone, Copy)]
pub struct Described<'a> {
    /// The packet.
    pub packet: &'a Newest,
    /// The description.
    pub description: &'a Description,
    /// The UDP port that it was sent to; 0 where there is none.
    pub port: u16,
}

impl Described<'_> {
    /// Appends the values of a field; false when the packet does not have it.
    pub fn append(&self, field: &str, values: &mut Vec<f64>) -> bool {
        let types = self.description.packet_types();
        let of = types.get(usize::from(self.packet.row.packet_type));
        of.is_some_and(|of| append(of, self.packet, self.port, field, values))
    }
}

/// The gathered packets of a choice.
#[derive(Debug)]
pub struct Signal {
    packets: u64,
    at: Moment,
    of: Gathered,
}

#[derive(Debug)]
enum Gathered {
    Field(Box<FieldSignal>),
    Plane { plane: Plane, indices: Indices },
}

/// The gathered values of a field.
#[derive(Debug, Default)]
struct FieldSignal {
    /// The newest packet's, if it has several.
    waveform: Vec<f64>,
    /// The newest of packets with one value each.
    scalars: VecDeque<f64>,
    /// The mean power of the packets.
    power: Vec<f64>,
    histogram: Histogram,
    waterfall: Waterfall,
}

impl Signal {
    /// Makes an empty one.
    pub fn of(choice: &Choice) -> Signal {
        let of = match &choice.indices {
            None => Gathered::Field(Box::default()),
            Some(indices) => Gathered::Plane { plane: Plane::default(), indices: indices.clone() },
        };
        Signal { packets: 0, at: Moment::default(), of }
    }

    /// Adds a packet, if it has the fields.
    pub fn add(&mut self, field: &str, described: &Described<'_>) {
        self.at = described.packet.row.time;
        let added = match &mut self.of {
            Gathered::Field(of) => of.add(field, described),
            Gathered::Plane { plane, indices } => add_pixels(plane, indices, field, described),
        };
        self.packets += u64::from(added);
    }

    /// Returns it as JSON.
    pub fn document(&self) -> Value {
        let mut document = match &self.of {
            Gathered::Field(of) => of.document(),
            Gathered::Plane { plane, .. } => json!({ "image": plane.document() }),
        };
        document["packets"] = self.packets.into();
        document["at_ns"] = self.at.as_ns().into();
        document
    }
}

impl FieldSignal {
    fn add(&mut self, field: &str, described: &Described<'_>) -> bool {
        let mut values = Vec::new();
        if !described.append(field, &mut values) {
            return false;
        }
        self.histogram.add(&values);
        if values.len() == 1 {
            if self.scalars.len() == SCALARS_MAX {
                self.scalars.pop_front();
            }
            self.scalars.push_back(values[0]);
        } else {
            self.waterfall.add(&values);
            self.add_power(&values);
            self.waveform = values;
        }
        true
    }

    fn add_power(&mut self, values: &[f64]) {
        let Some(power) = spectrum::power(values) else { return };
        if power.len() != self.power.len() {
            self.power = power;
            return;
        }
        for (mean, new) in self.power.iter_mut().zip(power) {
            *mean += SPECTRUM_WEIGHT * (new - *mean);
        }
    }

    fn document(&self) -> Value {
        let is_scalar = self.waveform.is_empty();
        let waveform: Vec<f64> = match is_scalar {
            true => self.scalars.iter().copied().collect(),
            false => self.waveform.iter().copied().take(WAVEFORM_MAX).collect(),
        };
        let decibels = self.power.iter().map(|power| short(spectrum::decibels(*power)));
        json!({
            "per": if is_scalar { "packet" } else { "sample" },
            "waveform": waveform,
            "spectrum_db": decibels.collect::<Vec<f64>>(),
            "histogram": self.histogram.document(),
            "image": self.waterfall.document(),
        })
    }
}

/// Rounds to hundredths: a browser needs no more of a level.
fn short(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Adds every record of a packet at its indices. A field of the header holds for all records.
fn add_pixels(
    plane: &mut Plane,
    indices: &Indices,
    field: &str,
    described: &Described<'_>,
) -> bool {
    let of = |name: &str| {
        let mut values = Vec::new();
        described.append(name, &mut values).then_some(values)
    };
    let (Some(x), Some(y)) = (of(&indices.x), of(&indices.y)) else { return false };
    let value = if field.is_empty() { Some(vec![1.0]) } else { of(field) };
    let Some(value) = value else { return false };
    let count = x.len().max(y.len()).max(value.len());
    let at = |values: &[f64], at: usize| match values {
        [one] => *one,
        many => many.get(at).copied().unwrap_or(f64::NAN),
    };
    for record in 0..count {
        let (x, y, value) = (at(&x, record), at(&y, record), at(&value, record));
        plane.add(Pixel { x, y, value });
    }
    true
}

/// The choices that browsers ask for.
#[derive(Debug, Default)]
pub struct Signals(Vec<Chosen>);

#[derive(Debug)]
struct Chosen {
    choice: Choice,
    asked: Moment,
    signal: Signal,
}

impl Signals {
    /// Adds the newest packets; once a tick.
    pub fn tick(&mut self, live: &Live, inputs: &[WatchedInput]) {
        self.0.retain(|chosen| live.at.since(chosen.asked) < ASKED);
        self.0.iter_mut().for_each(|chosen| chosen.take(live, inputs));
    }

    /// Returns a choice as JSON, and gathers it from now on.
    pub fn ask(&mut self, choice: &Choice, live: &Live, inputs: &[WatchedInput]) -> Value {
        let found = self.0.iter().position(|chosen| chosen.choice == *choice);
        let mut chosen = match found {
            Some(at) => self.0.remove(at),
            None => Chosen { choice: choice.clone(), asked: live.at, signal: Signal::of(choice) },
        };
        chosen.asked = live.at;
        chosen.take(live, inputs);
        let document = chosen.signal.document();
        if self.0.len() >= CHOICES_MAX {
            self.0.remove(0);
        }
        self.0.push(chosen);
        document
    }
}

impl Chosen {
    /// Adds the newest packet of the source, if it is new.
    fn take(&mut self, live: &Live, inputs: &[WatchedInput]) {
        let Some(packet) = live.packets.get(&self.choice.source) else { return };
        let entry = live.ledger.sources.get(self.choice.source as usize);
        let input = entry.and_then(|entry| inputs.get(usize::from(entry.format)));
        let Some(input) = input else { return };
        if packet.row.time > self.signal.at {
            let described = Described { packet, description: &input.description, port: input.port };
            self.signal.add(&self.choice.field, &described);
        }
    }
}
