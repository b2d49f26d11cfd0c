//! Hands a run to other tools: Parquet, CSV, NumPy.
//!
//! A run's files keep whole packets; who analyses wants columns. Each run becomes flat
//! tables: `events` and `packets` as recorded, and for every packet type that came its header
//! (`FORMAT-TYPE-headers`) and the records of its payload (`FORMAT-TYPE-RECORD`), decoded by the
//! description in the run folder. Batch by batch, so that memory is bounded by a batch whatever
//! the run's size. A file gets its name when it is complete; until then it ends in `.part`.

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

/// What to make.
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
    /// What its files' names end with.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            ExportFormat::Parquet => "parquet",
            ExportFormat::Csv => "csv",
            ExportFormat::Npy => "npy",
        }
    }
}

/// What to do with files that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, before anything is written over.
    Refuse,
    /// Replace them.
    Replace,
}

/// How to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// What to make.
    pub format: ExportFormat,
    /// The folder for the files; made where missing.
    pub folder: PathBuf,
    /// What to do with files that are there.
    pub existing: Existing,
    /// Whether late fragments are put into their events.
    pub join: Join,
}

/// Why a run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The folder or a file of the export.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It would be lost.
    #[error("{} exists already: give another folder, or ask to overwrite", .0.display())]
    Exists(PathBuf),
    /// The table's format refuses it.
    #[error("{} cannot be written: {reason}; free some space or choose another format",
        .file.display())]
    Table {
        /// Which file.
        file: PathBuf,
        /// What the writer says.
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

/// What was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// The tables, `events` and `packets` first.
    pub tables: Vec<ExportedTable>,
    /// What the run held; damage and torn tails are missing in the tables.
    pub found: ReadReport,
    /// What became of late fragments.
    pub joined: JoinReport,
    /// What is missing of that which was recorded, and so in the tables.
    pub integrity: Integrity,
    /// What a user should know, a sentence each: sources without description, bytes behind the
    /// last record.
    pub notes: Vec<String>,
}

/// Exports the run in `run`.
///
/// Done when the files are complete. Errors: [`ExportError`]; files that are not complete end in
/// `.part`. Cost: one pass over the run; memory for a batch and some 64 MiB per table.
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

/// A batch's packets with the number and the key of the event that each belongs to.
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
/// The packets' bytes among a packet's columns.
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
