//! Exports a run for other tools: Parquet, CSV, NumPy.
//!
//! A run's files keep whole packets, but an analysis needs columns. Each run becomes flat tables:
//! `events` and `packets` as recorded, and for every packet type that came its header
//! (`FORMAT-TYPE-headers`) and the records of its payload (`FORMAT-TYPE-RECORD`), decoded by the
//! description in the run folder. The export goes batch by batch, so that memory is bounded by a
//! batch, however large the run. A file gets its name when it is complete; until then it ends in
//! `.part`.

mod csv;
mod npy;
mod table;
mod typed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::UInt64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::folder::FolderError;
use super::integrity::Integrity;
use super::join::{Join, JoinReport, JoinedReader};
use super::reader::{ReadError, ReadReport, RecordedBatch};
use super::schema::{event_column, event_fields, packet_fields};
use table::Table;
use typed::TypedTables;

/// The kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Parquet, compressed with Snappy.
    Parquet,
    /// Comma-separated text with a head line; bytes as hexadecimal digits, absent values empty.
    Csv,
    /// One structured array per table, for `numpy.load`. Columns of variable length are left out;
    /// a column that may lack values is 0 there and has a second one, `NAME_valid`.
    Npy,
}

impl ExportFormat {
    /// Returns the ending of the files' names.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            ExportFormat::Parquet => "parquet",
            ExportFormat::Csv => "csv",
            ExportFormat::Npy => "npy",
        }
    }
}

/// The treatment of files that exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, before anything is written over.
    Refuse,
    /// Replace them.
    Replace,
}

/// Configuration of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// The kind of files.
    pub format: ExportFormat,
    /// The folder for the files; made if necessary.
    pub folder: PathBuf,
    /// The treatment of files that exist already.
    pub existing: Existing,
    /// The treatment of late fragments.
    pub join: Join,
}

/// The reason why a run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The folder or a file of the export cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file would be overwritten.
    #[error("{} exists already: give another folder, or ask to overwrite", .0.display())]
    Exists(PathBuf),
    /// The table's format rejects it.
    #[error("{} cannot be written: {reason}; free some space or choose another format",
        .file.display())]
    Table {
        /// The file.
        file: PathBuf,
        /// The writer's message.
        reason: String,
    },
}

/// One table that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedTable {
    /// Its file.
    pub file: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// Columns that the format cannot hold.
    pub left_out: Vec<String>,
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// The tables, `events` and `packets` first.
    pub tables: Vec<ExportedTable>,
    /// The contents of the run; damaged batches and torn tails are missing in the tables.
    pub found: ReadReport,
    /// Number of late fragments that were joined, and that were not.
    pub joined: JoinReport,
    /// The recorded data that is missing in the files, and so in the tables.
    pub integrity: Integrity,
    /// Notes for the user, a sentence each: sources without description, bytes behind the last
    /// record.
    pub notes: Vec<String>,
}

/// Exports the run in `run`; the files are complete afterwards.
///
/// Errors: [`ExportError`]; files that are not complete end in `.part`. Cost: one pass over the
/// run; memory for a batch and some 64 MiB per table.
pub fn export(run: &Path, config: &ExportConfig) -> Result<ExportReport, ExportError> {
    let mut reader = JoinedReader::open(run, config.join)?;
    std::fs::create_dir_all(&config.folder)
        .map_err(|reason| FolderError::explain(&config.folder, reason))?;
    let mut report = ExportReport::default();
    let mut events = Table::create(config, "events", event_table())?;
    let mut packets = Table::create(config, "packets", packet_table())?;
    let mut typed = TypedTables::open(reader.folder(), config, &mut report.notes);
    let mut first_event = 0;
    while let Some(batch) = reader.next_batch()? {
        let rows = Rows::of(&batch, first_event);
        events.write(&event_rows(&batch, &rows).map_err(|error| events.fault(&error))?)?;
        packets.write(&packet_rows(&rows).map_err(|error| packets.fault(&error))?)?;
        typed.write(&rows)?;
        first_event += batch.record_batch().num_rows() as u64;
    }
    report.tables.push(events.finish()?);
    report.tables.push(packets.finish()?);
    report.tables.extend(typed.finish(&mut report.notes)?);
    report.found = reader.report().clone();
    report.integrity = Integrity::of(reader.folder(), &report.found);
    report.joined = reader.joined();
    Ok(report)
}

/// The packets of a batch, each with the number and the key of its event.
struct Rows {
    packets: StructArray,
    first_event: u64,
    event: UInt64Array,
    key: UInt64Array,
}

impl Rows {
    fn of(batch: &RecordedBatch, first_event: u64) -> Rows {
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
        Rows { packets, first_event, event: event.finish(), key: key.finish() }
    }
}

fn event_table() -> SchemaRef {
    let recorded = event_fields();
    let mut fields = vec![Field::new("event", DataType::UInt64, false)];
    fields.extend(recorded.iter().take(EVENT_COLUMNS).map(|field| field.as_ref().clone()));
    fields.push(Field::new("packets", DataType::UInt32, false));
    fields.push(Field::new("bytes", DataType::UInt64, false));
    Arc::new(Schema::new(fields))
}

/// Columns of an event before its packets.
const EVENT_COLUMNS: usize = 8;
/// The index of the packets' bytes among a packet's columns.
const DATA: usize = 8;

fn packet_table() -> SchemaRef {
    let mut fields = vec![
        Field::new("event", DataType::UInt64, false),
        Field::new("event_key", DataType::UInt64, true),
    ];
    fields.extend(packet_fields().iter().map(|field| field.as_ref().clone()));
    Arc::new(Schema::new(fields))
}

fn event_rows(batch: &RecordedBatch, rows: &Rows) -> Result<RecordBatch, ArrowError> {
    let recorded = batch.record_batch();
    let numbers = rows.first_event..rows.first_event + recorded.num_rows() as u64;
    let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(numbers))];
    columns.extend(recorded.columns().iter().take(EVENT_COLUMNS).cloned());
    let counts = (0..recorded.num_rows()).map(|row| batch.packets_of(row));
    columns.push(Arc::new(UInt32Array::from_iter_values(counts.clone().map(|n| n as u32))));
    let offsets = rows.packets.column(DATA).as_binary::<i32>().value_offsets();
    let mut first = 0;
    let bytes = counts.map(|count| {
        let start = offsets[first];
        first += count;
        (offsets[first] - start) as u64
    });
    columns.push(Arc::new(UInt64Array::from_iter_values(bytes)));
    RecordBatch::try_new(event_table(), columns)
}

fn packet_rows(rows: &Rows) -> Result<RecordBatch, ArrowError> {
    let mut columns: Vec<ArrayRef> = vec![Arc::new(rows.event.clone()), Arc::new(rows.key.clone())];
    columns.extend(rows.packets.columns().iter().cloned());
    RecordBatch::try_new(packet_table(), columns)
}
