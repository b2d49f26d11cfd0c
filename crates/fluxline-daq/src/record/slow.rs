//! `slow.arrows` of a run folder: the slow control values of the run, one row each.
//!
//! Rows are in the order of arrival, so a reader that joins them with events sorts them by `time`.
//! The file is an Arrow IPC stream: every Arrow library reads it. The caller says when a batch is
//! written, so that it bounds what a run that is killed lacks.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::TimestampNanosecondBuilder;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use super::directory::Directory;
use super::folder_error::FolderError;

/// The file of a run's slow control values.
pub const SLOW_FILE: &str = "slow.arrows";

/// A slow control value: a number, or a text.
#[derive(Clone, Debug, PartialEq)]
pub enum SlowValue {
    /// A finite number; true is 1, and false is 0.
    Number(f64),
    /// A text.
    Text(String),
}

/// A row of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowRow {
    /// The value's name.
    pub name: Arc<str>,
    /// Its unit; empty: not known.
    pub unit: Arc<str>,
    /// The value.
    pub value: SlowValue,
    /// The time by its sender, or of its arrival where that has none \[ns since 1970\].
    pub time_ns: u64,
    /// The time of its arrival \[ns since 1970\].
    pub arrival_ns: u64,
}

/// Writes the slow control values of a run.
pub struct SlowWriter {
    schema: SchemaRef,
    file: StreamWriter<BufWriter<File>>,
}

impl std::fmt::Debug for SlowWriter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SlowWriter").finish_non_exhaustive()
    }
}

impl SlowWriter {
    /// Makes the file in a run folder.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(folder: &Directory) -> Result<SlowWriter, FolderError> {
        let path = folder.path().join(SLOW_FILE);
        let explain = |error| match error {
            ArrowError::IoError(_, reason) => FolderError::explain(&path, reason),
            error => FolderError::explain(&path, std::io::Error::other(error)),
        };
        let schema = schema();
        let file = BufWriter::new(folder.create(Path::new(SLOW_FILE))?);
        let mut file = StreamWriter::try_new(file, &schema).map_err(explain)?;
        // So that a run without values, or one that was killed early, has a readable file.
        file.flush().map_err(explain)?;
        Ok(SlowWriter { schema, file })
    }

    /// Writes rows as a batch, and passes it to the system.
    ///
    /// # Errors
    /// The file cannot be written; the rows are not in it then.
    pub fn write(&mut self, rows: &[SlowRow]) -> Result<(), ArrowError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.file.write(&batch(&self.schema, rows)?)?;
        self.file.flush()
    }

    /// Writes the end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), ArrowError> {
        self.file.finish()
    }
}

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("time", time.clone(), false),
        Field::new("arrival", time, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("unit", DataType::Utf8, true),
    ]))
}

fn batch(schema: &SchemaRef, rows: &[SlowRow]) -> Result<RecordBatch, ArrowError> {
    let number = |row: &SlowRow| match row.value {
        SlowValue::Number(number) => Some(number),
        SlowValue::Text(_) => None,
    };
    let numbers: Float64Array = rows.iter().map(number).collect();
    let texts = rows.iter().map(|row| match &row.value {
        SlowValue::Number(_) => None,
        SlowValue::Text(text) => Some(text.as_str()),
    });
    let units = rows.iter().map(|row| (!row.unit.is_empty()).then_some(&*row.unit));
    let columns: Vec<ArrayRef> = vec![
        times(rows, |row| row.time_ns),
        times(rows, |row| row.arrival_ns),
        Arc::new(rows.iter().map(|row| Some(&*row.name)).collect::<StringArray>()),
        Arc::new(numbers),
        Arc::new(texts.collect::<StringArray>()),
        Arc::new(units.collect::<StringArray>()),
    ];
    RecordBatch::try_new(schema.clone(), columns)
}

fn times(rows: &[SlowRow], of: impl Fn(&SlowRow) -> u64) -> ArrayRef {
    let mut times = TimestampNanosecondBuilder::new().with_timezone("UTC");
    rows.iter().for_each(|row| times.append_value(of(row).min(i64::MAX as u64) as i64));
    Arc::new(times.finish())
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use arrow_ipc::reader::StreamReader;

    use super::*;

    #[test]
    fn numbers_and_texts_are_read_back_and_an_unfinished_file_has_its_batches() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SlowWriter::create(&Directory::open(dir.path()).unwrap()).unwrap();
        let number = SlowRow {
            name: "hv/voltage".into(),
            unit: "V".into(),
            value: SlowValue::Number(1500.5),
            time_ns: 5,
            arrival_ns: 7,
        };
        let value = SlowValue::Text("ramping".to_owned());
        let text = SlowRow { value, unit: "".into(), ..number.clone() };
        writer.write(&[number, text]).unwrap();
        // Not finished: the program was killed here.
        let file = File::open(dir.path().join(SLOW_FILE)).unwrap();
        let mut reader = StreamReader::try_new(file, None).unwrap();
        let batch = reader.next().unwrap().unwrap();
        let column = |name| batch.column_by_name(name).unwrap();
        let (values, texts) = (column("value").as_primitive::<Float64Type>(), column("text"));
        assert!((values.value(0) - 1500.5).abs() < f64::EPSILON && values.is_null(1));
        assert!(texts.is_null(0) && texts.as_string::<i32>().value(1) == "ramping");
        assert!(column("unit").as_string::<i32>().value(0) == "V" && column("unit").is_null(1));
        assert!(reader.next().is_none());
    }
}
