//! The trace of a field over a whole run, from hours to single samples.

use std::path::Path;

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{BatchMark, RunReader};
use fluxline_run::Newest;
use serde_json::{Value, json};

use super::described::{Descriptions, SourceFormat};
use super::reading::{State, VisitedBatch, Visitor};
use crate::signal::Described;
use crate::trace::{Part, Trace, part_of_samples};

/// Most samples that are read again for a zoom; more are shown by bins.
const SAMPLES_READ_MAX: u64 = 1 << 20;

/// Makes the trace of a field of a source.
pub struct Tracer {
    source: u32,
    field: String,
    format: Option<SourceFormat>,
    trace: Trace,
    /// The batches with samples, in order.
    marks: Vec<SampleMark>,
    /// The fault of the source's description.
    fault: Option<String>,
}

/// A batch and its first sample.
#[derive(Clone, Copy)]
struct SampleMark {
    mark: BatchMark,
    first_sample: u64,
    /// The time of its first packet \[ns since 1970\].
    time_ns: u64,
}

impl Tracer {
    pub fn new(source: u32, field: &str) -> Tracer {
        Tracer {
            source,
            field: field.to_owned(),
            format: None,
            trace: Trace::default(),
            marks: Vec::new(),
            fault: None,
        }
    }

    /// Returns a part by bins, however fine the zoom.
    pub fn coarse(&self, zoom: Zoom) -> Part {
        self.trace.part(zoom.from, zoom.to, zoom.points)
    }

    /// Appends the field's samples in a batch; returns the time of the first packet \[ns\].
    fn samples(&self, rows: &EventBatch, samples: &mut Vec<f64>) -> Option<u64> {
        let format = self.format.as_ref()?;
        let mut first = None;
        for packet in packets_of(rows, self.source) {
            first = first.or(Some(packet.row.time.as_ns()));
            let (description, port) = (&format.description, format.port);
            Described { packet: &packet, description, port }.append(&self.field, samples);
        }
        first
    }
}

impl Visitor for Tracer {
    fn visit(&mut self, batch: &VisitedBatch<'_>) {
        if self.format.is_none() && self.fault.is_none() {
            match Descriptions::of(batch.folder).format(self.source) {
                Ok(format) => self.format = Some(format),
                Err(fault) => self.fault = Some(fault),
            }
        }
        let mut samples = Vec::new();
        let Some(time_ns) = self.samples(batch.rows, &mut samples) else { return };
        if samples.is_empty() {
            return;
        }
        let first_sample = self.trace.samples();
        self.marks.push(SampleMark { mark: batch.mark, first_sample, time_ns });
        self.trace.add(&samples);
    }
}

/// Returns the packets of a source, in order.
pub fn packets_of(rows: &EventBatch, source: u32) -> impl Iterator<Item = Newest> {
    let mut end = 0;
    rows.packets.iter().filter_map(move |row| {
        let start = end;
        end += row.bytes as usize;
        (row.source == source).then(|| Newest { row: *row, bytes: rows.bytes[start..end].to_vec() })
    })
}

/// A part of a trace that a page asks for.
#[derive(Clone, Copy, Debug)]
pub struct Zoom {
    /// The first sample.
    pub from: u64,
    /// The first sample behind the part.
    pub to: u64,
    /// Most bins of the answer.
    pub points: usize,
}

/// A zoom that is answered by samples: the batches to read.
pub struct Again {
    marks: Vec<SampleMark>,
    tracer: Tracer,
    zoom: Zoom,
}

/// The answer to a zoom, or the way to it.
pub enum Answer {
    /// The part, from bins.
    Now(Value),
    /// Samples must be read first, without the lock of the reading.
    Read(Box<Again>),
}

/// Answers a zoom from bins, or returns the batches to read.
pub fn zoom(state: &State<Tracer>, zoom: Zoom) -> Answer {
    let Tracer { trace, marks, .. } = &state.visitor;
    let to = zoom.to.min(trace.samples());
    let zoom = Zoom { from: zoom.from.min(to), to, ..zoom };
    let wanted = zoom.to - zoom.from;
    let is_coarse = trace.per_bin() > 1 && wanted / trace.per_bin() < zoom.points as u64;
    if !is_coarse || wanted == 0 || wanted > SAMPLES_READ_MAX {
        return Answer::Now(document(state, &state.visitor.coarse(zoom)));
    }
    let first = marks.partition_point(|mark| mark.first_sample <= zoom.from).saturating_sub(1);
    let end = marks.partition_point(|mark| mark.first_sample < zoom.to);
    let tracer = &state.visitor;
    let tracer =
        Tracer { format: tracer.format.clone(), ..Tracer::new(tracer.source, &tracer.field) };
    Answer::Read(Box::new(Again { marks: marks[first..end].to_vec(), tracer, zoom }))
}

impl Again {
    /// Reads the samples of the zoom; `None` when a batch no longer exists.
    pub fn read(&self, path: &Path) -> Option<Part> {
        let reader = RunReader::open(path).ok()?;
        let (mut samples, mut rows) = (Vec::new(), EventBatch::default());
        for mark in &self.marks {
            rows.clear();
            reader.read_marked(mark.mark).ok()??.append_to(&mut rows).ok()?;
            self.tracer.samples(&rows, &mut samples);
        }
        let start = self.marks.first()?.first_sample;
        let from = (self.zoom.from - start) as usize;
        let to = (self.zoom.to - start) as usize;
        let samples = samples.get(from..to.min(samples.len()))?;
        Some(part_of_samples(self.zoom.from, samples, self.zoom.points))
    }
}

/// Returns a part as JSON. Times lie evenly between the first packets of batches.
pub fn document(state: &State<Tracer>, part: &Part) -> Value {
    let Tracer { trace, fault, .. } = &state.visitor;
    let number = |value: f32| if value.is_finite() { json!(value) } else { Value::Null };
    let time = |sample: u64| time_of(&state.visitor.marks, sample);
    json!({
        "samples": trace.samples(),
        "per_bin": trace.per_bin(),
        "memory_bytes": trace.memory_bytes(),
        "complete": state.is_complete,
        "fault": fault,
        "first": part.first,
        "step": part.step,
        "from_ns": time(part.first),
        "to_ns": time(part.first + part.step * part.bins.len() as u64),
        "least": part.bins.iter().map(|bin| number(bin.least)).collect::<Vec<_>>(),
        "greatest": part.bins.iter().map(|bin| number(bin.greatest)).collect::<Vec<_>>(),
    })
}

/// Returns the time of a sample, interpolated between the starts of batches \[ns since 1970\].
fn time_of(marks: &[SampleMark], sample: u64) -> Option<u64> {
    let after = marks.partition_point(|mark| mark.first_sample <= sample);
    // Beyond the last batch, its own pace goes on.
    let end = after.clamp(1, marks.len().max(2) - 1);
    let (from, to) = match (marks.get(end - 1), marks.get(end)) {
        (Some(from), Some(to)) => (from, to),
        (from, _) => return from.map(|mark| mark.time_ns),
    };
    let samples = to.first_sample - from.first_sample;
    let ns = to.time_ns.saturating_sub(from.time_ns);
    let share = (sample - from.first_sample) as f64 / samples.max(1) as f64;
    Some(from.time_ns.saturating_add((share * ns as f64) as u64))
}
