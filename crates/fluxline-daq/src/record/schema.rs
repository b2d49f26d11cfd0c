//! The table of a run's files: one row per event, its packets a list within the row.
//!
//! The packets are a list within the row, not a second table, because a batch must be safe as a
//! whole: an event and its packets reach the disk together or not at all. Whole UDP payloads are
//! kept. An export makes typed columns from the description in the run folder, so a wrong
//! description can be corrected later without loss.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// The version of the table's layout; a reader rejects a newer one.
pub const LAYOUT_VERSION: u32 = 2;

/// Key of the schema's metadata: [`LAYOUT_VERSION`].
pub const KEY_LAYOUT: &str = "fluxline.layout";
/// Key of the schema's metadata: the version of the program that recorded.
pub const KEY_VERSION: &str = "fluxline.version";
/// Key of the schema's metadata: the run's name.
pub const KEY_RUN: &str = "fluxline.run";
/// Key of the schema's metadata: names of the packet descriptions, separated by commas.
pub const KEY_FORMATS: &str = "fluxline.formats";
/// Key of a batch's metadata: its number within the run, from 0, decimal.
pub const KEY_BATCH: &str = "fluxline.batch";
/// Key of a batch's metadata: CRC-32C of the message's body, eight hexadecimal digits.
pub const KEY_CRC: &str = "fluxline.crc32c";
/// Key of any message's metadata: CRC-32C of the message's metadata (the flatbuffer with its
/// padding), these eight digits taken as `00000000`.
pub const KEY_METADATA_CRC: &str = "fluxline.metadata_crc32c";

/// Returns the columns of a recorded event, in order.
///
/// Times are nanoseconds since 1970 UTC; those beyond the year 2262 are recorded as its end.
#[must_use]
pub fn event_fields() -> Fields {
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let packet = DataType::Struct(packet_fields());
    Fields::from(vec![
        Field::new("key", DataType::UInt64, true),
        Field::new("generation", DataType::UInt32, false),
        Field::new("source", DataType::UInt32, true),
        Field::new("status", DataType::Utf8, false),
        Field::new("missing", DataType::Utf8, false),
        Field::new("first_time", time(), false),
        Field::new("last_time", time(), false),
        Field::new("built_time", time(), false),
        Field::new("packets", DataType::List(Arc::new(Field::new("packet", packet, false))), false),
    ])
}

/// Returns the columns of a recorded packet, in order.
#[must_use]
pub fn packet_fields() -> Fields {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Fields::from(vec![
        Field::new("source", DataType::UInt32, false),
        Field::new("packet_type", DataType::UInt8, false),
        Field::new("sequence", DataType::UInt64, true),
        Field::new("time", time, false),
        Field::new("sensor_time_ns", DataType::UInt64, true),
        Field::new("part", DataType::UInt64, false),
        Field::new("payload_start", DataType::UInt32, false),
        Field::new("payload_bytes", DataType::UInt32, false),
        Field::new("data", DataType::Binary, false),
    ])
}

/// Nodes of the table in a record batch message: columns and what lies within them.
pub(super) const NODES: usize = 19;
/// Buffers of the table in a record batch message.
pub(super) const BUFFERS: usize = 40;
/// Nodes before the packets' columns: nine columns, and the struct within the list.
pub(super) const EVENT_NODES: usize = 10;

/// Indexes of an event's columns.
pub mod event_column {
    /// Its key.
    pub const KEY: usize = 0;
    /// The generation of its key.
    pub const GENERATION: usize = 1;
    /// Its source, if it has only one.
    pub const SOURCE: usize = 2;
    /// Its status.
    pub const STATUS: usize = 3;
    /// The text on its missing packets.
    pub const MISSING: usize = 4;
    /// First, last and built time.
    pub const TIMES: [usize; 3] = [5, 6, 7];
    /// Its packets, a list.
    pub const PACKETS: usize = 8;
}

static EVENT_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(event_fields())));

/// Returns the schema of recorded events, without metadata.
#[must_use]
pub fn event_schema() -> SchemaRef {
    Arc::clone(&EVENT_SCHEMA)
}

/// Returns the schema with a file's metadata about its run.
pub(super) fn file_schema(run: &str, formats: &[String]) -> Schema {
    let metadata = HashMap::from([
        (KEY_LAYOUT.to_owned(), LAYOUT_VERSION.to_string()),
        (KEY_VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (KEY_RUN.to_owned(), run.to_owned()),
        (KEY_FORMATS.to_owned(), formats.join(",")),
    ]);
    Schema::new_with_metadata(event_fields(), metadata)
}
