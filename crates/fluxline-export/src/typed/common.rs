//! Columns that every packet has, whatever its description.

use std::sync::Arc;

use arrow_array::builder::{
    Int32Builder, TimestampNanosecondBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};

/// A column that every packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Common {
    Event,
    EventKey,
    Source,
    SourceName,
    Sequence,
    Time,
    SensorTime,
    /// The number of the record within its packet, in tables of records.
    Record,
}

impl Common {
    /// The columns before the fields of a packet.
    pub const OF_PACKET: [Common; 7] = [
        Common::Event,
        Common::EventKey,
        Common::Source,
        Common::SourceName,
        Common::Sequence,
        Common::Time,
        Common::SensorTime,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Common::Event => "event",
            Common::EventKey => "event_key",
            Common::Source => "source",
            Common::SourceName => "source_name",
            Common::Sequence => "sequence",
            Common::Time => "time",
            Common::SensorTime => "sensor_time_ns",
            Common::Record => "record",
        }
    }

    pub const fn help(self) -> &'static str {
        match self {
            Common::Event => "Row number of the event in the table `events`.",
            Common::EventKey => "Key of the event.",
            Common::Source => "Number of the source in `sources.jsonl`.",
            Common::SourceName => "Name of the source in `sources.jsonl`.",
            Common::Sequence => "Packet counter, continued beyond its wraps.",
            Common::Time => "Time of arrival, UTC.",
            Common::SensorTime => "Time stamp of the sensor.",
            Common::Record => "Number of the record within its packet, from 0.",
        }
    }

    pub fn data_type(self) -> DataType {
        match self {
            Common::Event | Common::EventKey | Common::Sequence | Common::SensorTime => {
                DataType::UInt64
            }
            Common::Source | Common::Record => DataType::UInt32,
            Common::SourceName => source_name_type(),
            Common::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        }
    }

    pub const fn is_nullable(self) -> bool {
        matches!(
            self,
            Common::EventKey | Common::Sequence | Common::SensorTime | Common::SourceName
        )
    }
}

/// Returns the type of a column of source names.
pub(super) fn source_name_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Returns a column of source names from the indexes of the sources in `names`.
pub(super) fn source_names(
    indexes: impl Iterator<Item = Option<i32>>,
    names: ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let mut keys = Int32Builder::with_capacity(indexes.size_hint().0);
    indexes.for_each(|index| keys.append_option(index));
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys.finish(), names)?))
}

/// The common values of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonRow {
    pub event: u64,
    pub key: Option<u64>,
    pub source: u32,
    pub source_index: Option<i32>,
    pub sequence: Option<u64>,
    pub time: i64,
    pub sensor_time_ns: Option<u64>,
}

/// The common columns, being filled.
#[derive(Debug)]
pub(super) struct CommonColumns {
    event: UInt64Builder,
    key: UInt64Builder,
    source: UInt32Builder,
    source_index: Int32Builder,
    sequence: UInt64Builder,
    time: TimestampNanosecondBuilder,
    sensor_time: UInt64Builder,
    record: UInt32Builder,
}

impl CommonColumns {
    pub fn new() -> CommonColumns {
        CommonColumns {
            event: UInt64Builder::new(),
            key: UInt64Builder::new(),
            source: UInt32Builder::new(),
            source_index: Int32Builder::new(),
            sequence: UInt64Builder::new(),
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            sensor_time: UInt64Builder::new(),
            record: UInt32Builder::new(),
        }
    }

    /// Appends a packet's values, `rows` times.
    pub fn push(&mut self, row: &CommonRow, rows: usize) {
        self.event.append_value_n(row.event, rows);
        self.source.append_value_n(row.source, rows);
        for number in 0..rows {
            self.key.append_option(row.key);
            self.source_index.append_option(row.source_index);
            self.sequence.append_option(row.sequence);
            self.time.append_value(row.time);
            self.sensor_time.append_option(row.sensor_time_ns);
            self.record.append_value(number as u32);
        }
    }

    /// Returns one of the columns, and empties it.
    pub fn take(&mut self, which: Common, names: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        Ok(match which {
            Common::Event => Arc::new(self.event.finish()),
            Common::EventKey => Arc::new(self.key.finish()),
            Common::Source => Arc::new(self.source.finish()),
            Common::SourceName => {
                let keys = self.source_index.finish();
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(names))?)
            }
            Common::Sequence => Arc::new(self.sequence.finish()),
            Common::Time => Arc::new(self.time.finish()),
            Common::SensorTime => Arc::new(self.sensor_time.finish()),
            Common::Record => Arc::new(self.record.finish()),
        })
    }
}
