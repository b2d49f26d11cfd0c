//! One file of a table, in any of the formats.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::file::writer::SerializedFileWriter;
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;

use super::csv;
use super::encode::{Encoded, EncodedTable};
use super::npy::NpyWriter;
use super::part::PartFile;
use super::{ExportError, ExportFormat, parquet};
use fluxline_daq::record::Directory;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written.
pub(super) struct TableFile {
    /// Its path, for messages.
    file: PathBuf,
    /// Its name until it is complete; arrays of NumPy have names of their own.
    part: Option<PartFile>,
    rows: u64,
    sink: Sink,
}

/// A file that is complete.
pub(super) struct FinishedFile {
    pub rows: u64,
    pub left_out: Vec<String>,
}

enum Sink {
    Parquet(Box<SerializedFileWriter<BufWriter<File>>>),
    Arrow(Box<FileWriter<BufWriter<File>>>),
    Csv(BufWriter<File>),
    Npy(NpyWriter),
}

impl TableFile {
    /// Begins a file in a folder; an empty one is complete too.
    pub fn create(
        format: ExportFormat,
        folder: &Directory,
        name: &Path,
        schema: SchemaRef,
    ) -> Result<TableFile, ExportError> {
        let file = folder.path().join(name);
        let mut part = None;
        let mut open = || -> Result<BufWriter<File>, ExportError> {
            let (its_part, opened) = PartFile::create(folder, name)?;
            part = Some(its_part);
            Ok(BufWriter::with_capacity(BUFFER_BYTES, opened))
        };
        let fault = |error: &dyn Display| table_fault(&file, error);
        let sink = match format {
            ExportFormat::Parquet => {
                let (writer, _) = parquet::writer(open()?, &schema).map_err(|e| fault(&e))?;
                Sink::Parquet(Box::new(writer))
            }
            ExportFormat::Arrow => {
                let writer = FileWriter::try_new(open()?, &schema).map_err(|e| fault(&e))?;
                Sink::Arrow(Box::new(writer))
            }
            ExportFormat::Csv => {
                let mut writer = open()?;
                csv::head(&mut writer, &schema).map_err(|e| fault(&e))?;
                Sink::Csv(writer)
            }
            ExportFormat::Npy => {
                let made = NpyWriter::create(folder, name, Arc::clone(&schema));
                Sink::Npy(made.map_err(|e| fault(&e))?)
            }
        };
        Ok(TableFile { file, part, rows: 0, sink })
    }

    /// Appends the rows of a group.
    pub fn write(&mut self, table: EncodedTable) -> Result<(), ExportError> {
        self.rows += table.rows;
        let TableFile { file, sink, .. } = self;
        let written = match (sink, table.encoded) {
            (Sink::Parquet(writer), Encoded::Parquet(chunks)) => (|| {
                let mut group = writer.next_row_group()?;
                for chunk in chunks {
                    chunk.append_to_row_group(&mut group)?;
                }
                group.close()
            })()
            .map(|_| ())
            .map_err(|error| error.to_string()),
            (Sink::Csv(writer), Encoded::Text(text)) => {
                writer.write_all(&text).map_err(|error| error.to_string())
            }
            (Sink::Arrow(writer), Encoded::Batches(batches)) => batches
                .iter()
                .try_for_each(|batch| writer.write(batch))
                .map_err(|error| error.to_string()),
            (Sink::Npy(writer), Encoded::Batches(batches)) => batches
                .iter()
                .try_for_each(|batch| writer.write(batch))
                .map_err(|error| error.to_string()),
            _ => Err("rows in the form of another format".to_owned()),
        };
        written.map_err(|reason| table_fault(file, &reason))
    }

    /// Completes the file and gives it its name.
    pub fn finish(self) -> Result<FinishedFile, ExportError> {
        let TableFile { file, part, rows, sink } = self;
        let finished = match sink {
            Sink::Parquet(writer) => writer.into_inner().map_err(io::Error::other),
            Sink::Arrow(mut writer) => {
                writer.finish().and_then(|()| writer.into_inner()).map_err(io::Error::other)
            }
            Sink::Csv(writer) => Ok(writer),
            Sink::Npy(writer) => {
                let left_out = writer.finish().map_err(|error| table_fault(&file, &error))?;
                return Ok(FinishedFile { rows, left_out });
            }
        };
        let opened = finished
            .and_then(|writer| writer.into_inner().map_err(io::IntoInnerError::into_error))
            .map_err(|error| table_fault(&file, &error))?;
        part.map_or(Ok(()), |part| part.finish(&opened))?;
        Ok(FinishedFile { rows, left_out: Vec::new() })
    }
}

fn table_fault(file: &Path, error: &dyn Display) -> ExportError {
    ExportError::Table { file: file.to_path_buf(), reason: error.to_string() }
}
