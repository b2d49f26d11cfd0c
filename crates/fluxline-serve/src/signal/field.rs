//! The values of one field of a packet.

use fluxline_packet::decode::Value;
use fluxline_packet::layout::PacketType;
use fluxline_run::Newest;

/// Most values that are taken of a packet.
const VALUES_MAX: usize = 65_536;

/// The place of a field in a packet type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A column of the records: one value per record.
    Records(usize),
    /// A column of the header: one value per packet.
    Header(usize),
}

/// Appends the values of a field to `values`: one per record where records have it, one where the
/// header has it. Absent values are not numbers (NaN). Returns false when the packet type does not
/// have the field.
pub fn append(
    of: &PacketType,
    packet: &Newest,
    port: u16,
    name: &str,
    values: &mut Vec<f64>,
) -> bool {
    match place(of, name) {
        Some(Place::Records(column)) => append_records(of, packet, column, values),
        Some(Place::Header(column)) => {
            let mut header = Vec::new();
            of.decode_header(&packet.bytes, port, &mut header);
            values.push(header.get(column).map_or(f64::NAN, number));
        }
        None => return false,
    }
    true
}

fn place(of: &PacketType, name: &str) -> Option<Place> {
    let records = of.record_columns();
    if let Some(column) = records.iter().position(|column| column.name == name) {
        return Some(Place::Records(column));
    }
    of.columns().iter().position(|column| column.name == name).map(Place::Header)
}

fn append_records(of: &PacketType, packet: &Newest, column: usize, values: &mut Vec<f64>) {
    let start = packet.row.payload_start as usize;
    let end = (start + packet.row.payload_bytes as usize).min(packet.bytes.len());
    let mut records = of.records_in(packet.bytes.get(start..end).unwrap_or(&[]));
    let mut record = Vec::new();
    let mut count = 0;
    while count < VALUES_MAX && records.decode_next(&mut record) {
        values.push(record.get(column).map_or(f64::NAN, number));
        count += 1;
    }
}

fn number(value: &Value<'_>) -> f64 {
    match *value {
        Value::U64(value) => value as f64,
        Value::I64(value) => value as f64,
        Value::F32(value) => value.into(),
        Value::F64(value) => value,
        _ => f64::NAN,
    }
}
