//! `history.arrows` of a run folder: the counts of the run over time, one row a second.
//!
//! Counts are totals since the start, so that a reader takes rates over any time, and a missing row
//! is allowed. The file is an Arrow IPC stream: every Arrow library reads it. A batch of
//! [`BATCH_ROWS`] rows is written at a time, so a run that is killed lacks its last seconds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    ListBuilder, StringBuilder, StructBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use arrow_array::{Array, ArrayRef, RecordBatch, TimestampNanosecondArray, UInt64Array};
use arrow_buffer::Buffer;
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::directory::{Access, Directory};
use super::folder_error::FolderError;
use super::message::{CONTINUATION, END_OF_STREAM, PREFIX_BYTES, VERIFIED};

/// The file of a run's history.
pub const HISTORY_FILE: &str = "history.arrows";
/// Rows that are written at a time.
const BATCH_ROWS: usize = 10;
/// Rows from one list of sources to the next: lists are long where sources are many.
const SOURCES_EVERY: u64 = 10;
/// The largest file that is read \[byte\]: about a month.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The columns of a row, without its time and its sources, in order.
pub const HISTORY_COLUMNS: [&str; 13] = [
    "packets",
    "bytes",
    "events",
    "incomplete",
    "lost",
    "dropped",
    "recorded_bytes",
    "ring_percent",
    "free_bytes",
    "delay_p50_ns",
    "delay_p99_ns",
    "recording",
    "health",
];

/// The state of a run at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryRow {
    /// The moment \[ns since 1970\].
    pub time_ns: u64,
    /// The values of [`HISTORY_COLUMNS`]; `None`: not known.
    pub values: [Option<u64>; HISTORY_COLUMNS.len()],
    /// The counts of the ends of received data that are not in the files, as the writer's names.
    pub ends: Vec<u64>,
    /// The sources.
    pub sources: Vec<SourceRow>,
}

/// A source at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRow {
    /// Its label in reports.
    pub label: String,
    /// Number of its valid packets.
    pub packets: u64,
    /// Those that are missing according to its counter.
    pub lost: u64,
    /// Time of its last packet \[ns since 1970\].
    pub last_ns: u64,
}

/// Writes the history of a run.
pub struct HistoryWriter {
    schema: SchemaRef,
    file: StreamWriter<BufWriter<File>>,
    rows: Vec<HistoryRow>,
    /// Rows so far.
    count: u64,
}

impl std::fmt::Debug for HistoryWriter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HistoryWriter").field("rows", &self.count).finish_non_exhaustive()
    }
}

impl HistoryWriter {
    /// Makes the file in a run folder; `ends` are the names of the columns of [`HistoryRow::ends`].
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(
        folder: &Directory,
        ends: impl Iterator<Item = &'static str>,
    ) -> Result<HistoryWriter, FolderError> {
        let schema = schema(ends);
        let file = BufWriter::new(folder.create(Path::new(HISTORY_FILE))?);
        let file = StreamWriter::try_new(file, &schema).map_err(|error| explain(folder, error))?;
        Ok(HistoryWriter { schema, file, rows: Vec::new(), count: 0 })
    }

    /// Adds a row; the file has it after at most ten further ones.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, mut row: HistoryRow) -> Result<(), ArrowError> {
        if !self.count.is_multiple_of(SOURCES_EVERY) {
            row.sources.clear();
        }
        self.count += 1;
        self.rows.push(row);
        if self.rows.len() >= BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes the last rows and the end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), ArrowError> {
        self.flush()?;
        self.file.finish()
    }

    fn flush(&mut self) -> Result<(), ArrowError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let batch = batch(&self.schema, &self.rows)?;
        self.rows.clear();
        self.file.write(&batch)?;
        self.file.flush()
    }
}

fn explain(folder: &Directory, error: ArrowError) -> FolderError {
    let reason = match error {
        ArrowError::IoError(_, reason) => reason,
        error => std::io::Error::other(error),
    };
    FolderError::explain(&folder.path().join(HISTORY_FILE), reason)
}

fn source_fields() -> Fields {
    Fields::from(vec![
        Field::new("label", DataType::Utf8, false),
        Field::new("packets", DataType::UInt64, false),
        Field::new("lost", DataType::UInt64, false),
        Field::new("last_ns", DataType::UInt64, false),
    ])
}

fn schema<'a>(ends: impl Iterator<Item = &'a str>) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let count = |name: &str| Field::new(name, DataType::UInt64, true);
    let source = Arc::new(Field::new("source", DataType::Struct(source_fields()), false));
    let mut fields = vec![Field::new("time", time, false)];
    fields.extend(HISTORY_COLUMNS.iter().map(|name| count(name)));
    fields.extend(ends.map(count));
    fields.push(Field::new("sources", DataType::List(source), true));
    Arc::new(Schema::new(fields))
}

/// Makes a batch of rows; those without sources have no list.
fn batch(schema: &SchemaRef, rows: &[HistoryRow]) -> Result<RecordBatch, ArrowError> {
    let mut times = TimestampNanosecondBuilder::new().with_timezone("UTC");
    rows.iter().for_each(|row| times.append_value(row.time_ns.min(i64::MAX as u64) as i64));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(times.finish())];
    for at in 0..HISTORY_COLUMNS.len() {
        columns.push(Arc::new(rows.iter().map(|row| row.values[at]).collect::<UInt64Array>()));
    }
    let ends = schema.fields().len() - columns.len() - 1;
    for at in 0..ends {
        let column: UInt64Array = rows.iter().map(|row| row.ends.get(at).copied()).collect();
        columns.push(Arc::new(column));
    }
    columns.push(sources(rows));
    RecordBatch::try_new(schema.clone(), columns)
}

fn sources(rows: &[HistoryRow]) -> ArrayRef {
    let fields = source_fields();
    let field = Field::new("source", DataType::Struct(fields.clone()), false);
    let mut list = ListBuilder::new(StructBuilder::from_fields(fields, 0)).with_field(field);
    for row in rows {
        let entry = list.values();
        for source in &row.sources {
            if let Some(labels) = entry.field_builder::<StringBuilder>(0) {
                labels.append_value(&source.label);
            }
            for (at, value) in [(1, source.packets), (2, source.lost), (3, source.last_ns)] {
                if let Some(values) = entry.field_builder::<UInt64Builder>(at) {
                    values.append_value(value);
                }
            }
            entry.append(true);
        }
        list.append(!row.sources.is_empty());
    }
    Arc::new(list.finish())
}

/// The counts of a run over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The times of the rows \[ns since 1970\].
    pub times_ns: Vec<u64>,
    /// The columns of [`HISTORY_COLUMNS`], each as long as the times.
    pub columns: Vec<Vec<Option<u64>>>,
    /// The reason why the file has no further rows, where it does not end properly.
    pub fault: Option<String>,
}

impl History {
    /// Returns a column by its name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&[Option<u64>]> {
        let at = HISTORY_COLUMNS.iter().position(|column| *column == name)?;
        self.columns.get(at).map(Vec::as_slice)
    }
}

/// Reads the history of a run; the rows before a fault or a torn end are there.
///
/// Cost: the whole file, at most 1 GiB of it. Errors: the file does not exist or cannot be read.
pub fn read_history(folder: &Directory) -> Result<History, FolderError> {
    let file = folder.file(Path::new(HISTORY_FILE), Access::Read)?;
    let mut bytes = Vec::new();
    let path = folder.path().join(HISTORY_FILE);
    let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|reason| FolderError::explain(&path, reason))?;
    let mut history =
        History { columns: vec![Vec::new(); HISTORY_COLUMNS.len()], ..History::default() };
    history.fault = history.add_all(&Buffer::from(bytes)).err();
    Ok(history)
}

impl History {
    /// Adds the rows of a file, whose messages may state anything.
    fn add_all(&mut self, file: &Buffer) -> Result<(), String> {
        let (mut at, mut expected) = (0, None);
        while let Some(message) = RawMessage::at(file, at)? {
            at = message.end;
            let parsed = arrow_ipc::root_as_message_with_opts(&VERIFIED, message.metadata)
                .map_err(|_| "a message is damaged")?;
            match (parsed.header_as_schema(), parsed.header_as_record_batch(), &expected) {
                (Some(found), _, None) => expected = Some(schema_like(&found)?),
                (_, Some(batch), Some(schema)) => {
                    let body = message.body(file, parsed.bodyLength())?;
                    at += body.len();
                    self.add(&decoded(&body, batch, schema)?)?;
                }
                _ => return Err("a message is neither the first schema nor rows".to_owned()),
            }
        }
        Ok(())
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let times = batch.column(0).as_any().downcast_ref::<TimestampNanosecondArray>();
        let times = times.ok_or("the file has no column `time`")?;
        self.times_ns.extend(times.values().iter().map(|ns| u64::try_from(*ns).unwrap_or(0)));
        for (kept, column) in self.columns.iter_mut().zip(&batch.columns()[1..]) {
            let column = column.as_any().downcast_ref::<UInt64Array>();
            kept.extend(column.ok_or("a column has another type")?.iter());
        }
        Ok(())
    }
}

/// A message of the file: its metadata, and the place behind it.
struct RawMessage<'a> {
    metadata: &'a [u8],
    end: usize,
}

impl RawMessage<'_> {
    /// Returns the message at a place; `None`: the file or its last message ends there.
    fn at(file: &Buffer, at: usize) -> Result<Option<RawMessage<'_>>, String> {
        let rest = file.get(at..).unwrap_or_default();
        let Some((prefix, rest)) = rest.split_at_checked(PREFIX_BYTES) else { return Ok(None) };
        if prefix == END_OF_STREAM {
            return Ok(None);
        }
        if prefix[..4] != CONTINUATION {
            return Err(format!("byte {at} does not begin a message"));
        }
        let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
        let metadata = rest.get(..length).ok_or("its end is torn")?;
        Ok(Some(RawMessage { metadata, end: at + PREFIX_BYTES + length }))
    }

    /// Returns the body behind the metadata.
    fn body(&self, file: &Buffer, stated: i64) -> Result<Buffer, String> {
        let length = usize::try_from(stated).map_err(|_| "a length is negative")?;
        let fits = self.end.checked_add(length).is_some_and(|end| end <= file.len());
        if fits {
            Ok(file.slice_with_length(self.end, length))
        } else {
            Err("its end is torn".into())
        }
    }
}

/// Returns our schema with the columns of dropped data that a file names.
fn schema_like(found: &arrow_ipc::Schema<'_>) -> Result<SchemaRef, String> {
    let fields = found.fields().ok_or("its schema has no columns")?;
    let names: Vec<&str> = fields.iter().map(|field| field.name().unwrap_or_default()).collect();
    let fixed = std::iter::once("time").chain(HISTORY_COLUMNS);
    let count = HISTORY_COLUMNS.len() + 1;
    let has_fixed = names.len() > count && names.iter().copied().take(count).eq(fixed);
    match names.split_last() {
        Some((&"sources", before)) if has_fixed => Ok(schema(before[count..].iter().copied())),
        _ => Err("it has other columns than a history".to_owned()),
    }
}

/// Decodes rows, after a check that each of their parts is within the body.
fn decoded(
    body: &Buffer,
    batch: arrow_ipc::RecordBatch<'_>,
    schema: &SchemaRef,
) -> Result<RecordBatch, String> {
    let fault = || "the rows of a batch are damaged".to_owned();
    let (nodes, buffers) = batch.nodes().zip(batch.buffers()).ok_or_else(fault)?;
    let most = i64::try_from(body.len()).map_err(|_| fault())?;
    let is_within = |offset: i64, length: i64| {
        offset >= 0 && length >= 0 && offset.checked_add(length).is_some_and(|end| end <= most)
    };
    let sound_nodes = nodes.iter().all(|node| {
        (0..=most).contains(&node.length()) && (0..=node.length()).contains(&node.null_count())
    });
    let sound_buffers = buffers.iter().all(|buffer| is_within(buffer.offset(), buffer.length()));
    let has_all = nodes.len() == nodes_of(schema) && buffers.len() == buffers_of(schema);
    if !(sound_nodes && sound_buffers && has_all) || batch.compression().is_some() {
        return Err(fault());
    }
    let (version, dictionaries) = (MetadataVersion::V5, HashMap::new());
    // Numbers alone: the decoder trusts the offsets of lists.
    let numbers: Vec<usize> = (0..=HISTORY_COLUMNS.len()).collect();
    RecordBatchDecoder::try_new(body, batch, schema.clone(), &dictionaries, &version)
        .map(|decoder| decoder.with_projection(Some(&numbers)))
        .and_then(RecordBatchDecoder::read_record_batch)
        .map_err(|error| error.to_string())
}

/// Returns the number of arrays: one for each column, and those within the list of sources.
fn nodes_of(schema: &SchemaRef) -> usize {
    schema.fields().len() + 1 + source_fields().len()
}

/// Returns the number of buffers: validity and values of each number; validity and offsets of the
/// list; validity of its items; validity, offsets and bytes of labels.
fn buffers_of(schema: &SchemaRef) -> usize {
    let numbers = schema.fields().len() - 1 + source_fields().len() - 1;
    2 * numbers + 2 + 1 + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> HistoryRow {
        let source = SourceRow { label: "board 1".into(), packets: number, ..Default::default() };
        let mut values = [Some(number); HISTORY_COLUMNS.len()];
        values[8] = None;
        let (time_ns, ends, sources) = (number * 1_000_000_000, vec![number; 2], vec![source]);
        HistoryRow { time_ns, values, ends, sources }
    }

    fn written(rows: u64) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = Directory::open(dir.path()).unwrap();
        let ends = ["input.rejected", "source.late"];
        let mut writer = HistoryWriter::create(&folder, ends.into_iter()).unwrap();
        (0..rows).for_each(|number| writer.push(row(number)).unwrap());
        writer.finish().unwrap();
        dir
    }

    #[test]
    fn every_row_is_read_back_with_its_unknown_values() {
        let dir = written(25);
        let history = read_history(&Directory::open(dir.path()).unwrap()).unwrap();
        assert_eq!(history.fault, None);
        assert_eq!(history.times_ns.len(), 25);
        assert_eq!(history.column("packets").unwrap()[24], Some(24));
        assert_eq!(history.column("free_bytes").unwrap()[3], None);
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_at_any_byte_never_stops_the_reader() {
        let dir = written(25);
        let path = dir.path().join(HISTORY_FILE);
        let whole = std::fs::read(&path).unwrap();
        let folder = Directory::open(dir.path()).unwrap();
        for end in (0..whole.len()).step_by(13) {
            std::fs::write(&path, &whole[..end]).unwrap();
            let history = read_history(&folder).unwrap();
            assert!(history.times_ns.len() <= 25 && history.times_ns.len().is_multiple_of(10));
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= [0xFF, 0x01, 0x80][at % 3];
            std::fs::write(&path, &damaged).unwrap();
            let history = read_history(&folder).unwrap();
            assert!(history.times_ns.len() <= 1 << 20, "byte {at}");
        }
    }
}
