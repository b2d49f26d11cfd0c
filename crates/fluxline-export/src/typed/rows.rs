//! The packets of a recorded batch, each with the number and the key of its event.

use arrow_array::builder::UInt64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, BinaryArray, PrimitiveArray, StructArray, TimestampNanosecondArray, UInt64Array,
};

use super::common::CommonRow;
use super::sources::Sources;
use fluxline_daq::record::reader::RecordedBatch;
use fluxline_daq::record::schema::event_column;

/// The index of the packets' bytes among a packet's columns.
pub(crate) const DATA: usize = 8;

/// The packets of a batch.
pub(crate) struct PacketRows {
    pub packets: StructArray,
    /// The number of the batch's first event in the run.
    pub first_event: u64,
    pub event: UInt64Array,
    pub key: UInt64Array,
}

/// One packet of a batch.
pub(crate) struct Packet<'a> {
    pub common: CommonRow,
    pub packet_type: u8,
    pub bytes: &'a [u8],
    pub payload: &'a [u8],
}

/// The columns of recorded packets.
pub(crate) struct PacketColumns<'a> {
    rows: &'a PacketRows,
    source: &'a PrimitiveArray<UInt32Type>,
    packet_type: &'a PrimitiveArray<UInt8Type>,
    sequence: &'a PrimitiveArray<UInt64Type>,
    time: &'a TimestampNanosecondArray,
    sensor_time: &'a PrimitiveArray<UInt64Type>,
    payload_start: &'a PrimitiveArray<UInt32Type>,
    payload_bytes: &'a PrimitiveArray<UInt32Type>,
    data: &'a BinaryArray,
}

impl PacketRows {
    pub fn of(batch: &RecordedBatch, first_event: u64) -> PacketRows {
        let keys = batch.record_batch().column(event_column::KEY).as_primitive::<UInt64Type>();
        let packets = batch.packets();
        let mut event = UInt64Builder::with_capacity(packets.len());
        let mut key = UInt64Builder::with_capacity(packets.len());
        for row in 0..batch.record_batch().num_rows() {
            let count = batch.packets_of(row);
            event.append_value_n(first_event + row as u64, count);
            for _ in 0..count {
                key.append_option(keys.is_valid(row).then(|| keys.value(row)));
            }
        }
        PacketRows { packets, first_event, event: event.finish(), key: key.finish() }
    }

    pub fn columns(&self) -> PacketColumns<'_> {
        let column = |at: usize| self.packets.column(at);
        PacketColumns {
            rows: self,
            source: column(0).as_primitive(),
            packet_type: column(1).as_primitive(),
            sequence: column(2).as_primitive(),
            time: column(3).as_primitive::<TimestampNanosecondType>(),
            sensor_time: column(4).as_primitive(),
            payload_start: column(6).as_primitive(),
            payload_bytes: column(7).as_primitive(),
            data: column(DATA).as_binary(),
        }
    }
}

impl<'a> PacketColumns<'a> {
    pub fn source(&self, row: usize) -> u32 {
        self.source.value(row)
    }

    pub fn packet(&self, row: usize, sources: &Sources) -> Packet<'a> {
        let optional = |column: &UInt64Array| column.is_valid(row).then(|| column.value(row));
        let source = self.source.value(row);
        let common = CommonRow {
            event: self.rows.event.value(row),
            key: optional(&self.rows.key),
            source,
            source_index: sources.index(source),
            sequence: optional(self.sequence),
            time: self.time.value(row),
            sensor_time_ns: optional(self.sensor_time),
        };
        let bytes = self.data.value(row);
        let start = self.payload_start.value(row) as usize;
        let end = start.saturating_add(self.payload_bytes.value(row) as usize);
        // The files may come from strangers, so the range is checked.
        let payload = bytes.get(start..end).unwrap_or(&[]);
        Packet { common, packet_type: self.packet_type.value(row), bytes, payload }
    }
}
