//! One table of an export, in whichever format.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::npy::NpyWriter;
use super::{Existing, ExportConfig, ExportError, ExportFormat, ExportedTable};
use crate::record::folder::FolderError;

/// A Parquet row group is closed when it holds so much in memory \[byte\].
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A table that is being written.
pub(super) struct Table {
    file: PathBuf,
    part: PathBuf,
    rows: u64,
    left_out: Vec<String>,
    sink: Sink,
}

enum Sink {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Csv(Box<arrow_csv::Writer<BufWriter<File>>>),
    Npy(NpyWriter),
}

impl Table {
    /// Begins the table `name`; an empty one is complete too.
    pub fn create(
        config: &ExportConfig,
        name: &str,
        schema: SchemaRef,
    ) -> Result<Table, ExportError> {
        let extension = config.format.extension();
        let file = config.folder.join(format!("{name}.{extension}"));
        if config.existing == Existing::Refuse && file.exists() {
            return Err(ExportError::Exists(file));
        }
        let part = config.folder.join(format!("{name}.{extension}.part"));
        let opened = File::create(&part).map_err(|reason| FolderError::explain(&part, reason))?;
        let fault = |error: &dyn Display| table_fault(&file, error);
        let mut left_out = Vec::new();
        let sink = match config.format {
            ExportFormat::Parquet => {
                let properties =
                    WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(BufWriter::new(opened), schema, Some(properties));
                Sink::Parquet(Box::new(writer.map_err(|error| fault(&error))?))
            }
            ExportFormat::Csv => {
                let mut writer =
                    arrow_csv::WriterBuilder::new().with_header(true).build(BufWriter::new(opened));
                // The head line is written with the first batch, be it empty.
                let head = RecordBatch::new_empty(text_schema(&schema));
                writer.write(&head).map_err(|error| fault(&error))?;
                Sink::Csv(Box::new(writer))
            }
            ExportFormat::Npy => {
                let (writer, without) =
                    NpyWriter::create(opened, &schema).map_err(|error| fault(&error))?;
                left_out = without;
                Sink::Npy(writer)
            }
        };
        Ok(Table { file, part, rows: 0, left_out, sink })
    }

    /// Appends rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        self.rows += batch.num_rows() as u64;
        let written = match &mut self.sink {
            Sink::Parquet(writer) => writer
                .write(batch)
                .and_then(|()| {
                    if writer.in_progress_size() > ROW_GROUP_BYTES {
                        writer.flush()
                    } else {
                        Ok(())
                    }
                })
                .map_err(|error| error.to_string()),
            Sink::Csv(writer) => as_text(batch)
                .and_then(|batch| writer.write(&batch))
                .map_err(|error| error.to_string()),
            Sink::Npy(writer) => writer.write(batch).map_err(|error| error.to_string()),
        };
        written.map_err(|reason| table_fault(&self.file, &reason))
    }

    /// Completes the file and gives it its name.
    pub fn finish(self) -> Result<ExportedTable, ExportError> {
        let Table { file, part, rows, left_out, sink } = self;
        let finished = match sink {
            Sink::Parquet(writer) => writer.into_inner().map_err(|error| error.to_string()),
            Sink::Csv(writer) => Ok(writer.into_inner()),
            Sink::Npy(writer) => writer.finish().map_err(|error| error.to_string()),
        };
        finished
            .and_then(|mut writer| writer.flush().map_err(|error| error.to_string()))
            .map_err(|reason| table_fault(&file, &reason))?;
        fs::rename(&part, &file).map_err(|reason| FolderError::explain(&file, reason))?;
        Ok(ExportedTable { file, rows, left_out })
    }

    /// What to say when rows for this table cannot be made.
    pub fn fault(&self, error: &dyn Display) -> ExportError {
        table_fault(&self.file, error)
    }
}

fn table_fault(file: &std::path::Path, error: &dyn Display) -> ExportError {
    ExportError::Table { file: file.to_path_buf(), reason: error.to_string() }
}

/// Times as text need an offset, since names of time zones need a data base.
fn text_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let kind = DataType::Timestamp(*unit, Some("+00:00".into()));
            Arc::new(field.as_ref().clone().with_data_type(kind))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn as_text(batch: &RecordBatch) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Timestamp(_, Some(_)) => {
            let times = column.as_primitive::<TimestampNanosecondType>().clone();
            Arc::new(times.with_timezone("+00:00")) as ArrayRef
        }
        _ => Arc::clone(column),
    });
    RecordBatch::try_new(text_schema(&batch.schema()), columns.collect())
}
