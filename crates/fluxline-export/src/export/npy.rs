//! NumPy's file format: a structured array per table, and an array per column of arrays.
//!
//! `TABLE.npy` has the columns with one value per row; `numpy.load(..., mmap_mode="r")` maps it
//! without reading. A value that may be absent gets a second column, which is true where it is
//! present. A column of arrays is `TABLE.COLUMN.npy`: with as many dimensions as the lengths allow
//! if all are equal, else flat, with the end of each row's array in `TABLE.COLUMN.offsets.npy`.
//! Source: numpy.lib.format, "Format Version 1.0".

mod arrays;
mod file;
mod rows;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use fluxline_daq::record::Directory;

use arrays::ArraysWriter;
use rows::RowsWriter;

/// Writes the arrays of one table.
pub(super) struct NpyWriter {
    rows: RowsWriter,
    arrays: Vec<ColumnArrays>,
    left_out: Vec<String>,
}

struct ColumnArrays {
    index: usize,
    writer: ArraysWriter,
}

impl NpyWriter {
    /// Begins the arrays of the table whose structured array is `file` in a folder.
    pub fn create(folder: &Directory, file: &Path, schema: SchemaRef) -> io::Result<NpyWriter> {
        let rows = RowsWriter::create(folder, file, &schema)?;
        let (mut arrays, mut left_out) = (Vec::new(), Vec::new());
        for (index, field) in schema.fields().iter().enumerate() {
            if rows.has(index) {
                continue;
            }
            match field.data_type() {
                DataType::List(_) | DataType::FixedSizeList(_, _) | DataType::Binary => {
                    let name = beside(file, field.name());
                    let writer = ArraysWriter::create(folder, &name, field)?;
                    arrays.push(ColumnArrays { index, writer });
                }
                _ => left_out.push(field.name().clone()),
            }
        }
        Ok(NpyWriter { rows, arrays, left_out })
    }

    /// Appends rows.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        self.rows.write(batch)?;
        for column in &mut self.arrays {
            column.writer.write(&Arc::clone(batch.column(column.index)))?;
        }
        Ok(())
    }

    /// Completes the files; returns the columns that no array can have.
    pub fn finish(self) -> io::Result<Vec<String>> {
        for column in self.arrays {
            column.writer.finish()?;
        }
        self.rows.finish()?;
        Ok(self.left_out)
    }
}

/// Returns the name of a file beside `file`, with `word` before its ending.
fn beside(file: &Path, word: &str) -> PathBuf {
    file.with_extension(format!("{word}.npy"))
}
