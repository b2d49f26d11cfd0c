//! The FlatBuffers messages of the ESS schemas, table by table.
//!
//! The positions of fields are those of the schemas ev44, da00, f144, pl72 and 6s4t in
//! `github.com/ess-dmsc/streaming-data-types` (BSD 2-Clause License), and for `command_id` and
//! `control_topic` of the Python package ess-streaming-data-types 0.27. No code of them is here.
//! Scalars are always written, also where they have the schema's default.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, VOffsetT, WIPOffset};
use fluxline_packet::columnar::Numbers;

use super::Schema;

type Builder = FlatBufferBuilder<'static>;

/// Bytes of the tables of one message, at most, besides its texts and numbers.
pub(super) const TABLE_BYTES: usize = 256;

/// Returns the place of field number `field` in a table's list of places.
const fn slot(field: VOffsetT) -> VOffsetT {
    4 + 2 * field
}

/// The columns of an ev44 message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events<'a> {
    pub source_name: &'a str,
    pub message_id: i64,
    pub reference_time: &'a [i64],
    pub reference_time_index: &'a [i32],
    pub time_of_flight: &'a [i32],
    /// `None`: the events have no pixels.
    pub pixel_id: Option<&'a [i32]>,
}

/// Writes an ev44 message; returns its bytes.
pub(super) fn ev44<'b>(builder: &'b mut Builder, events: &Events<'_>) -> &'b [u8] {
    builder.reset();
    let pixel_id = events.pixel_id.map(|ids| builder.create_vector(ids));
    let time_of_flight = builder.create_vector(events.time_of_flight);
    let index = builder.create_vector(events.reference_time_index);
    let reference_time = builder.create_vector(events.reference_time);
    let source_name = builder.create_string(events.source_name);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), source_name);
    builder.push_slot_always(slot(1), events.message_id);
    builder.push_slot_always(slot(2), reference_time);
    builder.push_slot_always(slot(3), index);
    builder.push_slot_always(slot(4), time_of_flight);
    if let Some(pixel_id) = pixel_id {
        builder.push_slot_always(slot(5), pixel_id);
    }
    let root = builder.end_table(table);
    finish(builder, root, Schema::Ev44)
}

/// A variable of a da00 message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable<'a> {
    pub name: &'a str,
    pub unit: Option<&'a str>,
    pub label: Option<&'a str>,
    pub axes: &'a [&'a str],
    pub shape: &'a [i64],
    pub numbers: &'a Numbers,
}

/// Writes a da00 message; returns its bytes.
pub(super) fn da00<'b>(
    builder: &'b mut Builder,
    source_name: &str,
    timestamp_ns: u64,
    variables: &[Variable<'_>],
) -> &'b [u8] {
    builder.reset();
    let mut data = Vec::new();
    let variables: Vec<_> = variables.iter().map(|of| variable(builder, of, &mut data)).collect();
    let variables = builder.create_vector(&variables);
    let source_name = builder.create_string(source_name);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), source_name);
    builder.push_slot_always(slot(1), timestamp_ns);
    builder.push_slot_always(slot(2), variables);
    let root = builder.end_table(table);
    finish(builder, root, Schema::Da00)
}

type TableOffset = WIPOffset<TableFinishedWIPOffset>;

fn variable(builder: &mut Builder, of: &Variable<'_>, data: &mut Vec<u8>) -> TableOffset {
    data.clear();
    little_endian(of.numbers, data);
    let data = builder.create_vector(data.as_slice());
    let shape = builder.create_vector(of.shape);
    let axes: Vec<_> = of.axes.iter().map(|axis| builder.create_string(axis)).collect();
    let axes = builder.create_vector(&axes);
    let label = of.label.map(|label| builder.create_string(label));
    let unit = of.unit.map(|unit| builder.create_string(unit));
    let name = builder.create_string(of.name);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name);
    if let Some(unit) = unit {
        builder.push_slot_always(slot(1), unit);
    }
    if let Some(label) = label {
        builder.push_slot_always(slot(2), label);
    }
    builder.push_slot_always(slot(4), data_type(of.numbers));
    builder.push_slot_always(slot(5), axes);
    builder.push_slot_always(slot(6), shape);
    builder.push_slot_always(slot(7), data);
    builder.end_table(table)
}

/// Returns a type's number in da00.
const fn data_type(numbers: &Numbers) -> i8 {
    match numbers {
        Numbers::I8(_) => 1,
        Numbers::U8(_) => 2,
        Numbers::I16(_) => 3,
        Numbers::U16(_) => 4,
        Numbers::I32(_) => 5,
        Numbers::U32(_) => 6,
        Numbers::I64(_) => 7,
        Numbers::U64(_) => 8,
        Numbers::F32(_) => 9,
        Numbers::F64(_) => 10,
    }
}

/// Writes an f144 message with one number, or with a list of them; returns its bytes.
pub(super) fn f144<'b>(
    builder: &'b mut Builder,
    source_name: &str,
    timestamp_ns: i64,
    value: &Numbers,
    is_list: bool,
) -> &'b [u8] {
    builder.reset();
    let (kind, value) = if is_list { list_of(builder, value) } else { number_of(builder, value) };
    let source_name = builder.create_string(source_name);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), source_name);
    builder.push_slot_always(slot(1), timestamp_ns);
    builder.push_slot_always(slot(2), kind);
    builder.push_slot_always(slot(3), value);
    let root = builder.end_table(table);
    finish(builder, root, Schema::F144)
}

/// Runs the same code for the numbers of any type, with the type's number in f144's union.
macro_rules! with_numbers {
    ($numbers:expr, $vector:ident, $kind:ident => $action:expr) => {
        match $numbers {
            Numbers::I8($vector) => with_numbers!(1, $kind => $action),
            Numbers::U8($vector) => with_numbers!(2, $kind => $action),
            Numbers::I16($vector) => with_numbers!(3, $kind => $action),
            Numbers::U16($vector) => with_numbers!(4, $kind => $action),
            Numbers::I32($vector) => with_numbers!(5, $kind => $action),
            Numbers::U32($vector) => with_numbers!(6, $kind => $action),
            Numbers::I64($vector) => with_numbers!(7, $kind => $action),
            Numbers::U64($vector) => with_numbers!(8, $kind => $action),
            Numbers::F32($vector) => with_numbers!(9, $kind => $action),
            Numbers::F64($vector) => with_numbers!(10, $kind => $action),
        }
    };
    ($number:literal, $kind:ident => $action:expr) => {{
        let $kind: u8 = $number;
        $action
    }};
}

/// Writes the first number as a table of its own; 0 where there is none.
fn number_of(builder: &mut Builder, numbers: &Numbers) -> (u8, TableOffset) {
    with_numbers!(numbers, vector, kind => {
        let number = vector.first().copied().unwrap_or_default();
        let table = builder.start_table();
        builder.push_slot_always(slot(0), number);
        (kind, builder.end_table(table))
    })
}

fn list_of(builder: &mut Builder, numbers: &Numbers) -> (u8, TableOffset) {
    /// Types of lists follow the ten types of single numbers.
    const LISTS_FROM: u8 = 10;
    with_numbers!(numbers, vector, kind => {
        let list = builder.create_vector(vector);
        let table = builder.start_table();
        builder.push_slot_always(slot(0), list);
        (LISTS_FROM + kind, builder.end_table(table))
    })
}

/// The content of a pl72 message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub start_time_ms: u64,
    pub run_name: &'a str,
    pub instrument_name: &'a str,
    pub nexus_structure: &'a str,
    pub job_id: &'a str,
    pub broker: &'a str,
    pub service_id: &'a str,
    pub filename: &'a str,
    pub metadata: &'a str,
    pub control_topic: &'a str,
}

/// Writes a pl72 message; returns its bytes. The stop time is 0: it is not known yet.
pub(super) fn pl72<'b>(builder: &'b mut Builder, start: &Start<'_>) -> &'b [u8] {
    builder.reset();
    let texts = [
        (2, start.run_name),
        (3, start.instrument_name),
        (4, start.nexus_structure),
        (5, start.job_id),
        (6, start.broker),
        (7, start.service_id),
        (8, start.filename),
        (11, start.metadata),
        (12, start.control_topic),
    ];
    let texts = texts.map(|(field, text)| (field, builder.create_string(text)));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), start.start_time_ms);
    builder.push_slot_always(slot(1), 0u64);
    for (field, text) in texts {
        builder.push_slot_always(slot(field), text);
    }
    builder.push_slot_always(slot(9), 1u32);
    let root = builder.end_table(table);
    finish(builder, root, Schema::Pl72)
}

/// The content of a 6s4t message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop<'a> {
    pub stop_time_ms: u64,
    pub run_name: &'a str,
    pub job_id: &'a str,
    pub service_id: &'a str,
    pub command_id: &'a str,
}

/// Writes a 6s4t message; returns its bytes.
pub(super) fn stop_6s4t<'b>(builder: &'b mut Builder, stop: &Stop<'_>) -> &'b [u8] {
    builder.reset();
    let texts = [(1, stop.run_name), (2, stop.job_id), (3, stop.service_id), (4, stop.command_id)];
    let texts = texts.map(|(field, text)| (field, builder.create_string(text)));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), stop.stop_time_ms);
    for (field, text) in texts {
        builder.push_slot_always(slot(field), text);
    }
    let root = builder.end_table(table);
    finish(builder, root, Schema::Stop6s4t)
}

fn finish<T>(builder: &mut Builder, root: WIPOffset<T>, schema: Schema) -> &[u8] {
    builder.finish(root, Some(schema.identifier()));
    builder.finished_data()
}

/// Appends numbers as little-endian bytes.
fn little_endian(numbers: &Numbers, out: &mut Vec<u8>) {
    macro_rules! write {
        ($vector:expr) => {{
            let start = out.len();
            out.resize(start + size_of_val($vector.as_slice()), 0);
            let words = out[start..].as_chunks_mut().0.iter_mut();
            words.zip($vector).for_each(|(word, number)| *word = number.to_le_bytes());
        }};
    }
    match numbers {
        Numbers::U8(vector) => out.extend_from_slice(vector),
        Numbers::U16(vector) => write!(vector),
        Numbers::U32(vector) => write!(vector),
        Numbers::U64(vector) => write!(vector),
        Numbers::I8(vector) => write!(vector),
        Numbers::I16(vector) => write!(vector),
        Numbers::I32(vector) => write!(vector),
        Numbers::I64(vector) => write!(vector),
        Numbers::F32(vector) => write!(vector),
        Numbers::F64(vector) => write!(vector),
    }
}
