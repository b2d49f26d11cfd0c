//! One table of an export, in any of the formats.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::csv::CsvWriter;
use super::npy::NpyWriter;
use super::{Existing, ExportConfig, ExportError, ExportFormat, ExportedTable};
use crate::record::folder::FolderError;

/// Size in memory at which a Parquet row group is closed \[byte\].
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
    Csv(CsvWriter<BufWriter<File>>),
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
                let writer = CsvWriter::create(BufWriter::new(opened), &schema);
                Sink::Csv(writer.map_err(|error| fault(&error))?)
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
            Sink::Csv(writer) => writer.write(batch).map_err(|error| error.to_string()),
            Sink::Npy(writer) => writer.write(batch).map_err(|error| error.to_string()),
        };
        written.map_err(|reason| table_fault(&self.file, &reason))
    }

    /// Completes the file and gives it its name.
    pub fn finish(self) -> Result<ExportedTable, ExportError> {
        let Table { file, part, rows, left_out, sink } = self;
        let finished = match sink {
            Sink::Parquet(writer) => writer.into_inner().map_err(|error| error.to_string()),
            Sink::Csv(writer) => Ok(writer.finish()),
            Sink::Npy(writer) => writer.finish().map_err(|error| error.to_string()),
        };
        finished
            .and_then(|mut writer| writer.flush().map_err(|error| error.to_string()))
            .map_err(|reason| table_fault(&file, &reason))?;
        fs::rename(&part, &file).map_err(|reason| FolderError::explain(&file, reason))?;
        Ok(ExportedTable { file, rows, left_out })
    }

    /// Returns the error for rows of this table that cannot be made.
    pub fn fault(&self, error: &dyn Display) -> ExportError {
        table_fault(&self.file, error)
    }
}

fn table_fault(file: &std::path::Path, error: &dyn Display) -> ExportError {
    ExportError::Table { file: file.to_path_buf(), reason: error.to_string() }
}
