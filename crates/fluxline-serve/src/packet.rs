//! The newest packet of a source: its bytes, its decoded fields, and its records as curves.

use fluxline_packet::decode::{Column, Value as Decoded};
use fluxline_packet::layout::PacketType;
use fluxline_run::{Newest, Watcher};
use serde_json::{Value, json};

/// Most bytes that are shown as text.
const HEX_BYTES_MAX: usize = 512;
/// Most records that are decoded for a curve.
const RECORDS_MAX: usize = 8192;

/// Returns the newest packet of a source; `None` before one of its events closed.
pub fn newest(watcher: &Watcher, source: u32) -> Option<Value> {
    let live = watcher.live();
    let packet = live.packets.get(&source)?;
    let entry = live.ledger.sources.get(source as usize)?;
    let input = watcher.inputs().get(usize::from(entry.format))?;
    let types = input.description.packet_types();
    let of = types.get(usize::from(packet.row.packet_type))?;
    Some(shown(&entry.label, of, packet, input.port))
}

/// Returns a packet with its decoded fields.
pub fn shown(label: &str, of: &PacketType, packet: &Newest, port: u16) -> Value {
    let mut values = Vec::new();
    of.decode_header(&packet.bytes, port, &mut values);
    let located = of.locate(&packet.bytes, port);
    let columns = of.columns();
    let fields: Vec<Value> = columns
        .iter()
        .zip(&values)
        .map(|(column, value)| {
            json!({
                "name": column.name, "value": plain(value), "unit": column.unit,
                "help": column.help,
            })
        })
        .collect();
    let places: Vec<Value> =
        located.items.iter().flatten().map(|range| json!([range.start, range.end])).collect();
    let row = &packet.row;
    json!({
        "source": label,
        "type": of.name,
        "at_ns": row.time.as_ns(),
        "sequence": row.sequence,
        "length": row.bytes,
        "payload": [row.payload_start, row.payload_start + row.payload_bytes],
        "hex": hex(&packet.bytes),
        "places": places,
        "fields": fields,
        "curves": curves(of, packet),
    })
}

/// Returns each numeric column of the records as a list of values.
fn curves(of: &PacketType, packet: &Newest) -> Vec<Value> {
    let columns = of.record_columns();
    let start = packet.row.payload_start as usize;
    let end = (start + packet.row.payload_bytes as usize).min(packet.bytes.len());
    let mut records = of.records_in(packet.bytes.get(start..end).unwrap_or(&[]));
    let mut values: Vec<Vec<Value>> = vec![Vec::new(); columns.len()];
    let mut record = Vec::new();
    let mut count = 0;
    while count < RECORDS_MAX && records.decode_next(&mut record) {
        for (list, value) in values.iter_mut().zip(&record) {
            list.push(plain(value));
        }
        count += 1;
    }
    let is_number = |list: &[Value]| list.iter().any(Value::is_number);
    let pairs = columns.iter().zip(values).filter(|(_, list)| is_number(list));
    pairs.map(|(column, values)| curve(column, &values)).collect()
}

fn curve(column: &Column, values: &[Value]) -> Value {
    json!({ "name": column.name, "unit": column.unit, "help": column.help, "values": values })
}

/// Integers beyond 2^53 become text, since a browser would round them.
fn plain(value: &Decoded<'_>) -> Value {
    const EXACT: u64 = 1 << 53;
    match *value {
        Decoded::Null => Value::Null,
        Decoded::U64(value) if value > EXACT => value.to_string().into(),
        Decoded::I64(value) if value.unsigned_abs() > EXACT => value.to_string().into(),
        Decoded::U64(value) => value.into(),
        Decoded::I64(value) => value.into(),
        Decoded::F32(value) => json!(value),
        Decoded::F64(value) => json!(value),
        Decoded::Bytes(bytes) => hex(bytes).into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(HEX_BYTES_MAX)];
    shown.iter().map(|byte| format!("{byte:02x}")).collect()
}
