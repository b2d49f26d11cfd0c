//! NumPy's file format: one structured array, row by row.
//!
//! A structured array keeps a table in one file that `numpy.load(..., mmap_mode="r")` maps without
//! reading. Its rows have one width, so columns of bytes and of free text are left out. A value
//! that may be absent gets a second column, which is true where it is present. Source:
//! numpy.lib.format, "Format Version 1.0".

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ToByteSlice;
use arrow_schema::{DataType, Field, Schema};

const MAGIC: [u8; 8] = *b"\x93NUMPY\x01\x00";
/// Bytes before the dictionary: the magic and its length.
const PREFIX_BYTES: usize = 10;
/// The data starts at a multiple of this \[byte\].
const ALIGNMENT: usize = 64;
/// Room for the number of rows, written when it is known: the digits of `u64::MAX`.
const ROWS_DIGITS: usize = 20;
/// The longest status of an event \[byte\].
const STATUS_BYTES: usize = 13;

const _: () = {
    let mut at = 0;
    while at < crate::event::EventStatus::ALL.len() {
        assert!(crate::event::EventStatus::ALL[at].as_str().len() <= STATUS_BYTES);
        at += 1;
    }
};

/// Writes one array.
pub(super) struct NpyWriter {
    file: BufWriter<File>,
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

impl NpyWriter {
    /// Begins the array; also returns the names of the columns that it cannot have.
    pub fn create(file: File, schema: &Schema) -> io::Result<(NpyWriter, Vec<String>)> {
        let (mut columns, mut left_out, mut row_bytes) = (Vec::new(), Vec::new(), 0);
        for (index, field) in schema.fields().iter().enumerate() {
            let Some((_, width)) = element(field) else {
                left_out.push(field.name().clone());
                continue;
            };
            columns.push(Column { index, field: Arc::clone(field), at: row_bytes });
            row_bytes += width + usize::from(field.is_nullable());
        }
        let file = BufWriter::new(file);
        let mut writer = NpyWriter { file, columns, row_bytes, rows: 0, buffer: Vec::new() };
        let head = writer.head()?;
        writer.file.write_all(&head)?;
        Ok((writer, left_out))
    }

    /// Appends rows.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let rows = batch.num_rows();
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
        self.rows += rows as u64;
        self.file.write_all(&self.buffer)
    }

    /// Writes the number of rows into the head.
    pub fn finish(mut self) -> io::Result<BufWriter<File>> {
        let head = self.head()?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head)?;
        Ok(self.file)
    }

    /// Returns the head, which has the same length for any number of rows.
    fn head(&self) -> io::Result<Vec<u8>> {
        let mut names = String::new();
        for column in &self.columns {
            let (kind, _) = element(&column.field).unwrap_or(("|V0", 0));
            let name = column.field.name();
            names.push_str(&format!("('{name}', '{kind}'), "));
            if column.field.is_nullable() {
                names.push_str(&format!("('{name}_valid', '|b1'), "));
            }
        }
        let mut dictionary =
            format!("{{'descr': [{names}], 'fortran_order': False, 'shape': ({},), }}", self.rows);
        let digits = self.rows.to_string().len();
        let bytes = PREFIX_BYTES + dictionary.len() + (ROWS_DIGITS - digits) + 1;
        let padded = bytes.next_multiple_of(ALIGNMENT) - PREFIX_BYTES;
        dictionary.extend(std::iter::repeat_n(' ', padded - dictionary.len() - 1));
        dictionary.push('\n');
        let length = u16::try_from(dictionary.len())
            .map_err(|_| io::Error::other("too many columns for NumPy's format 1.0"))?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(dictionary.as_bytes());
        Ok(head)
    }
}

/// Returns NumPy's name for a column's type, and its width \[byte\]; `None` when it has no fixed
/// one.
fn element(field: &Field) -> Option<(&'static str, usize)> {
    Some(match field.data_type() {
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
        DataType::Timestamp(_, _) => ("<M8[ns]", 8),
        DataType::Utf8 if field.name() == "status" => ("|S13", STATUS_BYTES),
        _ => return None,
    })
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
