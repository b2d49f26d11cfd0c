//! The structured array of a table: its columns with one value per row.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ToByteSlice;
use arrow_schema::{DataType, Field, Schema};

use fluxline_daq::record::Directory;

use super::file::NpyFile;

/// The longest status of an event \[byte\].
const STATUS_BYTES: usize = 13;

const _: () = {
    let mut at = 0;
    while at < fluxline_daq::event::EventStatus::ALL.len() {
        assert!(fluxline_daq::event::EventStatus::ALL[at].as_str().len() <= STATUS_BYTES);
        at += 1;
    }
};

/// Writes one structured array.
pub(super) struct RowsWriter {
    file: NpyFile,
    columns: Vec<Column>,
    row_bytes: usize,
    rows: u64,
    buffer: Vec<u8>,
}

/// A column of the table that the array has.
struct Column {
    index: usize,
    field: Arc<Field>,
    at: usize,
}

impl RowsWriter {
    /// Begins the array of all columns that have one value of fixed width per row.
    pub fn create(folder: &Directory, name: &Path, schema: &Schema) -> io::Result<RowsWriter> {
        let (mut columns, mut row_bytes, mut names) = (Vec::new(), 0, String::new());
        for (index, field) in schema.fields().iter().enumerate() {
            let Some((kind, width)) = element(field) else { continue };
            columns.push(Column { index, field: Arc::clone(field), at: row_bytes });
            row_bytes += width + usize::from(field.is_nullable());
            names.push_str(&format!("('{}', '{kind}'), ", field.name()));
            if field.is_nullable() {
                names.push_str(&format!("('{}_valid', '|b1'), ", field.name()));
            }
        }
        let file = NpyFile::create(folder, name, format!("[{names}]"))?;
        Ok(RowsWriter { file, columns, row_bytes, rows: 0, buffer: Vec::new() })
    }

    /// Returns true when the array has this column of the table.
    pub fn has(&self, index: usize) -> bool {
        self.columns.iter().any(|column| column.index == index)
    }

    /// Appends rows.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let rows = batch.num_rows();
        self.rows += rows as u64;
        if self.row_bytes == 0 {
            return Ok(());
        }
        self.buffer.clear();
        self.buffer.resize(rows * self.row_bytes, 0);
        for column in &self.columns {
            let array = batch.column(column.index);
            fill(&mut self.buffer, self.row_bytes, column.at, array);
            if column.field.is_nullable() {
                let at = column.at + element(&column.field).map_or(0, |(_, width)| width);
                for (row, place) in self.buffer.chunks_exact_mut(self.row_bytes).enumerate() {
                    place[at] = u8::from(array.is_valid(row));
                }
            }
        }
        self.file.write(&self.buffer)
    }

    /// Completes the array.
    pub fn finish(self) -> io::Result<()> {
        self.file.finish(&[self.rows])
    }
}

/// Returns NumPy's name for a type of numbers, and its width \[byte\].
pub(super) fn number_type(kind: &DataType) -> Option<(&'static str, usize)> {
    Some(match kind {
        DataType::UInt8 => ("|u1", 1),
        DataType::UInt16 => ("<u2", 2),
        DataType::UInt32 => ("<u4", 4),
        DataType::UInt64 => ("<u8", 8),
        DataType::Int8 => ("|i1", 1),
        DataType::Int16 => ("<i2", 2),
        DataType::Int32 => ("<i4", 4),
        DataType::Int64 => ("<i8", 8),
        DataType::Float32 => ("<f4", 4),
        DataType::Float64 => ("<f8", 8),
        _ => return None,
    })
}

/// Returns NumPy's name for a column's type, and its width \[byte\]; `None` when it has no fixed
/// one.
fn element(field: &Field) -> Option<(&'static str, usize)> {
    match field.data_type() {
        DataType::Timestamp(_, _) => Some(("<M8[ns]", 8)),
        DataType::Utf8 if field.name() == "status" => Some(("|S13", STATUS_BYTES)),
        other => number_type(other),
    }
}
fn fill(rows: &mut [u8], row_bytes: usize, at: usize, array: &ArrayRef) {
    match array.data_type() {
        DataType::UInt8 => numbers::<UInt8Type>(rows, row_bytes, at, array),
        DataType::UInt16 => numbers::<UInt16Type>(rows, row_bytes, at, array),
        DataType::UInt32 => numbers::<UInt32Type>(rows, row_bytes, at, array),
        DataType::UInt64 => numbers::<UInt64Type>(rows, row_bytes, at, array),
        DataType::Int8 => numbers::<Int8Type>(rows, row_bytes, at, array),
        DataType::Int16 => numbers::<Int16Type>(rows, row_bytes, at, array),
        DataType::Int32 => numbers::<Int32Type>(rows, row_bytes, at, array),
        DataType::Int64 => numbers::<Int64Type>(rows, row_bytes, at, array),
        DataType::Float32 => numbers::<Float32Type>(rows, row_bytes, at, array),
        DataType::Float64 => numbers::<Float64Type>(rows, row_bytes, at, array),
        DataType::Timestamp(_, _) => numbers::<TimestampNanosecondType>(rows, row_bytes, at, array),
        DataType::Utf8 => {
            let words = array.as_string::<i32>();
            for (row, place) in rows.chunks_exact_mut(row_bytes).enumerate() {
                let word = words.value(row).as_bytes();
                let bytes = word.len().min(STATUS_BYTES);
                place[at..at + bytes].copy_from_slice(&word[..bytes]);
            }
        }
        _ => {}
    }
}

/// Writes numbers as little-endian, like all machines that Arrow supports.
fn numbers<T: ArrowPrimitiveType>(rows: &mut [u8], row_bytes: usize, at: usize, array: &ArrayRef) {
    let values = array.as_primitive::<T>();
    for (row, place) in rows.chunks_exact_mut(row_bytes).enumerate() {
        if values.is_valid(row) {
            let value = values.value(row);
            let bytes = value.to_byte_slice();
            place[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}
