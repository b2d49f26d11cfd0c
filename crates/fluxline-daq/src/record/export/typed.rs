//! Tables of the packets' values, decoded by the descriptions in the run folder.
//!
//! A source has a description with the parameters of its experiment; a table belongs to a packet
//! type of a description, for all sources. Columns keep the narrowest Arrow type that holds their
//! bits. Rows are passed on in portions, since a batch of packets may hold a hundred times as many
//! records.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder,
    Int32Builder, Int64Builder, TimestampNanosecondBuilder, UInt8Builder, UInt16Builder,
    UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use fluxline_packet::Description;
use fluxline_packet::decode::{Column, ColumnKind, Value};
use fluxline_packet::layout::{Layout, PacketType};

use super::table::Table;
use super::{DATA, ExportConfig, ExportError, ExportedTable, Rows};
use crate::record::folder::{FolderError, RunFolder, SourceLine};

/// Rows that are passed to a table at once.
const PORTION_ROWS: usize = 1 << 15;

/// Names of the columns before the decoded ones. A decoded column of that name gets `_field`
/// appended.
const COMMON: [&str; 5] = ["event", "event_key", "source", "sequence", "time"];
/// The column of the record's number within its packet, in tables of records.
const RECORD: &str = "record";

/// All tables of decoded values.
pub(super) struct TypedTables {
    config: ExportConfig,
    sources: BTreeMap<u32, Source>,
    /// The tables by format and packet type.
    tables: BTreeMap<(String, u8), TypePair>,
    undescribed_packets: u64,
}

/// A format's name and its parameters.
type Parametrized = (String, BTreeMap<String, u64>);

struct Source {
    description: Arc<Description>,
    format: String,
    port: u16,
}

struct TypePair {
    headers: TypedTable,
    records: Option<TypedTable>,
    remainder_bytes: u64,
}

impl TypedTables {
    /// Loads the descriptions of all sources of a run. Sources whose line or format is missing or
    /// damaged are left out, with a note.
    pub fn open(folder: &RunFolder, config: &ExportConfig, notes: &mut Vec<String>) -> TypedTables {
        let mut loaded: BTreeMap<Parametrized, Option<Arc<Description>>> = BTreeMap::new();
        let mut sources = BTreeMap::new();
        let (lines, faults) = folder.readable_sources();
        notes.extend(faults.iter().map(|fault| format!("a source is not decoded: {fault}")));
        for line in lines {
            let key = (line.format.clone(), line.parameters.clone());
            let description = loaded.entry(key).or_insert_with(|| {
                let loaded = load(folder, &line);
                let note =
                    |reason| format!("packets of format {} are not decoded: {reason}", line.format);
                loaded.map_err(|reason| notes.push(note(reason))).ok()
            });
            if let Some(description) = description.clone() {
                let port = line.port.unwrap_or(0);
                sources.insert(line.source, Source { description, format: line.format, port });
            }
        }
        let config = config.clone();
        TypedTables { config, sources, tables: BTreeMap::new(), undescribed_packets: 0 }
    }

    /// Decodes the packets of a batch.
    pub fn write(&mut self, rows: &Rows) -> Result<(), ExportError> {
        let sources = rows.packets.column(0).as_primitive::<UInt32Type>();
        let packet_types = rows.packets.column(1).as_primitive::<UInt8Type>();
        let sequences = rows.packets.column(2).as_primitive::<UInt64Type>();
        let times = rows.packets.column(3).as_primitive::<TimestampNanosecondType>();
        let payload_start = rows.packets.column(6).as_primitive::<UInt32Type>();
        let payload_bytes = rows.packets.column(7).as_primitive::<UInt32Type>();
        let data = rows.packets.column(DATA).as_binary::<i32>();
        let mut values = Vec::new();
        for row in 0..rows.packets.len() {
            let common = Common {
                event: rows.event.value(row),
                key: rows.key.is_valid(row).then(|| rows.key.value(row)),
                source: sources.value(row),
                sequence: sequences.is_valid(row).then(|| sequences.value(row)),
                time: times.value(row),
            };
            let number = packet_types.value(row);
            let Some((source, packet_type)) = self.sources.get(&common.source).and_then(|source| {
                Some((source, source.description.packet_types().get(usize::from(number))?))
            }) else {
                self.undescribed_packets += 1;
                continue;
            };
            let pair = match self.tables.get_mut(&(source.format.clone(), number)) {
                Some(pair) => pair,
                None => {
                    let pair = TypePair::create(&self.config, source, packet_type)?;
                    self.tables.entry((source.format.clone(), number)).or_insert(pair)
                }
            };
            let bytes = data.value(row);
            packet_type.decode_header(bytes, source.port, &mut values);
            pair.headers.append(&common, None, &values)?;
            let start = payload_start.value(row) as usize;
            let end = start.saturating_add(payload_bytes.value(row) as usize);
            // The files may come from strangers, so the range is checked.
            pair.append_records(packet_type, &common, bytes.get(start..end).unwrap_or(&[]))?;
        }
        Ok(())
    }

    /// Completes all tables.
    pub fn finish(self, notes: &mut Vec<String>) -> Result<Vec<ExportedTable>, ExportError> {
        if self.undescribed_packets > 0 {
            notes.push(format!(
                "{} packets are of sources or packet types without description, and not decoded",
                self.undescribed_packets
            ));
        }
        let mut finished = Vec::new();
        for ((format, _), pair) in self.tables {
            if pair.remainder_bytes > 0 {
                notes.push(format!(
                    "{} payload bytes of format {format} lie behind the last whole record",
                    pair.remainder_bytes
                ));
            }
            finished.push(pair.headers.finish()?);
            if let Some(records) = pair.records {
                finished.push(records.finish()?);
            }
        }
        Ok(finished)
    }
}

/// The rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowsOf {
    /// One row per packet.
    Headers,
    /// One row per record of a payload.
    Records,
}

fn load(folder: &RunFolder, line: &SourceLine) -> Result<Arc<Description>, String> {
    let file = format!("formats/{}.toml", line.format);
    let text = folder.read_format(&line.format).map_err(|error| match error {
        FolderError::Missing(_) => format!("{file} is not in the run"),
        error => error.to_string(),
    })?;
    let loaded = Description::load(&file, &text, &line.parameters);
    loaded.map(Arc::new).map_err(|error| error.to_string())
}

impl TypePair {
    fn create(
        config: &ExportConfig,
        source: &Source,
        packet_type: &PacketType,
    ) -> Result<TypePair, ExportError> {
        let stem = format!("{}-{}", source.format, packet_type.name);
        let columns = packet_type.columns();
        let headers = format!("{stem}-headers");
        let header = &packet_type.header;
        let headers = TypedTable::create(config, &headers, &columns, header, RowsOf::Headers)?;
        let records = match &packet_type.records {
            Some(records) => {
                let name = record_name(source, packet_type);
                let columns = packet_type.record_columns();
                let table = format!("{stem}-{name}");
                let layout = &records.layout;
                Some(TypedTable::create(config, &table, &columns, layout, RowsOf::Records)?)
            }
            None => None,
        };
        Ok(TypePair { headers, records, remainder_bytes: 0 })
    }

    fn append_records(
        &mut self,
        packet_type: &PacketType,
        common: &Common,
        payload: &[u8],
    ) -> Result<(), ExportError> {
        let Some(table) = &mut self.records else { return Ok(()) };
        let mut records = packet_type.records_in(payload);
        let mut values = Vec::new();
        let mut number = 0;
        while records.decode_next(&mut values) {
            table.append(common, Some(number), &values)?;
            number += 1;
        }
        self.remainder_bytes += records.remainder() as u64;
        Ok(())
    }
}

/// Returns the description's name of a record; a table of headers has its own name.
fn record_name(source: &Source, packet_type: &PacketType) -> String {
    let packets = &source.description.document().packet;
    let written =
        packets.iter().find(|packet| *packet.get_ref().name.get_ref() == packet_type.name);
    let name = written.and_then(|packet| packet.get_ref().records.as_ref());
    let name = name.map_or("records", |records| records.get_ref().name.get_ref().as_str());
    if name == "headers" { "headers-records".to_owned() } else { name.to_owned() }
}

/// The columns of every row before the decoded values.
struct Common {
    event: u64,
    key: Option<u64>,
    source: u32,
    sequence: Option<u64>,
    time: i64,
}

struct TypedTable {
    table: Table,
    schema: SchemaRef,
    event: UInt64Builder,
    key: UInt64Builder,
    source: UInt32Builder,
    sequence: UInt64Builder,
    time: TimestampNanosecondBuilder,
    record: Option<UInt32Builder>,
    columns: Vec<ColumnBuilder>,
}

impl TypedTable {
    fn create(
        config: &ExportConfig,
        name: &str,
        columns: &[Column],
        layout: &Layout,
        rows: RowsOf,
    ) -> Result<TypedTable, ExportError> {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let kinds = [DataType::UInt64, DataType::UInt64, DataType::UInt32, DataType::UInt64, time];
        let nullable = [false, true, false, true, false];
        let mut fields: Vec<Field> = COMMON
            .into_iter()
            .zip(kinds)
            .zip(nullable)
            .map(|((name, kind), nullable)| Field::new(name, kind, nullable))
            .collect();
        if rows == RowsOf::Records {
            fields.push(Field::new(RECORD, DataType::UInt32, false));
        }
        let mut builders = Vec::new();
        for (column, value) in columns.iter().zip(&layout.values) {
            let builder = ColumnBuilder::of(column);
            let taken = COMMON.contains(&column.name.as_str()) || column.name == RECORD;
            let name = if taken { format!("{}_field", column.name) } else { column.name.clone() };
            fields.push(Field::new(name, builder.data_type(), value.conditional));
            builders.push(builder);
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        Ok(TypedTable {
            table: Table::create(config, name, Arc::clone(&schema))?,
            schema,
            event: UInt64Builder::new(),
            key: UInt64Builder::new(),
            source: UInt32Builder::new(),
            sequence: UInt64Builder::new(),
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            record: (rows == RowsOf::Records).then(UInt32Builder::new),
            columns: builders,
        })
    }

    fn append(
        &mut self,
        common: &Common,
        record: Option<u32>,
        values: &[Value<'_>],
    ) -> Result<(), ExportError> {
        self.event.append_value(common.event);
        self.key.append_option(common.key);
        self.source.append_value(common.source);
        self.sequence.append_option(common.sequence);
        self.time.append_value(common.time);
        if let Some(builder) = &mut self.record {
            builder.append_value(record.unwrap_or(0));
        }
        for (index, builder) in self.columns.iter_mut().enumerate() {
            let conditional = self.schema.field(self.schema.fields().len() - values.len() + index);
            let value = values.get(index).copied().unwrap_or(Value::Null);
            builder.append(value, conditional.is_nullable());
        }
        if self.event.len() >= PORTION_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.event.finish()),
            Arc::new(self.key.finish()),
            Arc::new(self.source.finish()),
            Arc::new(self.sequence.finish()),
            Arc::new(self.time.finish()),
        ];
        arrays.extend(self.record.as_mut().map(|record| Arc::new(record.finish()) as ArrayRef));
        arrays.extend(self.columns.iter_mut().map(ColumnBuilder::finish));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        self.table.write(&batch.map_err(|error| self.table.fault(&error))?)
    }

    fn finish(mut self) -> Result<ExportedTable, ExportError> {
        self.flush()?;
        self.table.finish()
    }
}

enum ColumnBuilder {
    U8(UInt8Builder),
    U16(UInt16Builder),
    U32(UInt32Builder),
    U64(UInt64Builder),
    I8(Int8Builder),
    I16(Int16Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
    Bytes(BinaryBuilder),
}

/// Runs the same code for any type of builder.
macro_rules! with_builder {
    ($column:expr, $builder:ident => $action:expr) => {
        match $column {
            ColumnBuilder::U8($builder) => $action,
            ColumnBuilder::U16($builder) => $action,
            ColumnBuilder::U32($builder) => $action,
            ColumnBuilder::U64($builder) => $action,
            ColumnBuilder::I8($builder) => $action,
            ColumnBuilder::I16($builder) => $action,
            ColumnBuilder::I32($builder) => $action,
            ColumnBuilder::I64($builder) => $action,
            ColumnBuilder::F32($builder) => $action,
            ColumnBuilder::F64($builder) => $action,
            ColumnBuilder::Bytes($builder) => $action,
        }
    };
}

impl ColumnBuilder {
    fn of(column: &Column) -> ColumnBuilder {
        match (column.kind, column.width_bits) {
            (ColumnKind::U64, 0..=8) => ColumnBuilder::U8(UInt8Builder::new()),
            (ColumnKind::U64, 9..=16) => ColumnBuilder::U16(UInt16Builder::new()),
            (ColumnKind::U64, 17..=32) => ColumnBuilder::U32(UInt32Builder::new()),
            (ColumnKind::U64, _) => ColumnBuilder::U64(UInt64Builder::new()),
            (ColumnKind::I64, 0..=8) => ColumnBuilder::I8(Int8Builder::new()),
            (ColumnKind::I64, 9..=16) => ColumnBuilder::I16(Int16Builder::new()),
            (ColumnKind::I64, 17..=32) => ColumnBuilder::I32(Int32Builder::new()),
            (ColumnKind::I64, _) => ColumnBuilder::I64(Int64Builder::new()),
            (ColumnKind::F32, _) => ColumnBuilder::F32(Float32Builder::new()),
            (ColumnKind::F64, _) => ColumnBuilder::F64(Float64Builder::new()),
            (ColumnKind::Bytes, _) => ColumnBuilder::Bytes(BinaryBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            ColumnBuilder::U8(_) => DataType::UInt8,
            ColumnBuilder::U16(_) => DataType::UInt16,
            ColumnBuilder::U32(_) => DataType::UInt32,
            ColumnBuilder::U64(_) => DataType::UInt64,
            ColumnBuilder::I8(_) => DataType::Int8,
            ColumnBuilder::I16(_) => DataType::Int16,
            ColumnBuilder::I32(_) => DataType::Int32,
            ColumnBuilder::I64(_) => DataType::Int64,
            ColumnBuilder::F32(_) => DataType::Float32,
            ColumnBuilder::F64(_) => DataType::Float64,
            ColumnBuilder::Bytes(_) => DataType::Binary,
        }
    }

    /// Appends a value of the column's type; anything else is absent, or 0 where none may be.
    fn append(&mut self, value: Value<'_>, nullable: bool) {
        match (&mut *self, value) {
            (ColumnBuilder::U8(builder), Value::U64(value)) => builder.append_value(value as u8),
            (ColumnBuilder::U16(builder), Value::U64(value)) => builder.append_value(value as u16),
            (ColumnBuilder::U32(builder), Value::U64(value)) => builder.append_value(value as u32),
            (ColumnBuilder::U64(builder), Value::U64(value)) => builder.append_value(value),
            (ColumnBuilder::I8(builder), Value::I64(value)) => builder.append_value(value as i8),
            (ColumnBuilder::I16(builder), Value::I64(value)) => builder.append_value(value as i16),
            (ColumnBuilder::I32(builder), Value::I64(value)) => builder.append_value(value as i32),
            (ColumnBuilder::I64(builder), Value::I64(value)) => builder.append_value(value),
            (ColumnBuilder::F32(builder), Value::F32(value)) => builder.append_value(value),
            (ColumnBuilder::F64(builder), Value::F64(value)) => builder.append_value(value),
            (ColumnBuilder::Bytes(builder), Value::Bytes(value)) => builder.append_value(value),
            (column, _) if nullable => with_builder!(column, builder => builder.append_null()),
            (ColumnBuilder::Bytes(builder), _) => builder.append_value([]),
            (column, _) => column.append_zero(),
        }
    }

    fn append_zero(&mut self) {
        match self {
            ColumnBuilder::F32(builder) => builder.append_value(0.0),
            ColumnBuilder::F64(builder) => builder.append_value(0.0),
            ColumnBuilder::I8(_)
            | ColumnBuilder::I16(_)
            | ColumnBuilder::I32(_)
            | ColumnBuilder::I64(_) => self.append(Value::I64(0), false),
            _ => self.append(Value::U64(0), false),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        with_builder!(self, builder => ArrayBuilder::finish(builder))
    }
}
