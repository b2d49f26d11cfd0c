//! A column of arrays: one array of all numbers, with its lengths if they differ.

use std::io;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ToByteSlice;
use arrow_schema::{DataType, Field};

use super::beside;
use fluxline_daq::record::Directory;

use super::file::NpyFile;
use super::rows::number_type;

/// Writes a column of arrays.
pub(super) struct ArraysWriter {
    values: NpyFile,
    /// Presence of each number, where some may be absent.
    valid: Option<NpyFile>,
    levels: Vec<Level>,
    numbers: u64,
}

/// The lists at one depth.
struct Level {
    offsets: NpyFile,
    lists: u64,
    end: u64,
    /// The length of all lists so far.
    length: Option<u64>,
    is_even: bool,
}

impl Level {
    fn create(folder: &Directory, name: &Path) -> io::Result<Level> {
        let mut offsets = NpyFile::create(folder, name, "'<u8'".to_owned())?;
        offsets.write(&0_u64.to_le_bytes())?;
        Ok(Level { offsets, lists: 0, end: 0, length: None, is_even: true })
    }

    fn push(&mut self, length: u64) -> io::Result<()> {
        self.is_even &= *self.length.get_or_insert(length) == length;
        self.lists += 1;
        self.end += length;
        self.offsets.write(&self.end.to_le_bytes())
    }
}

impl ArraysWriter {
    /// Begins the file `name`, and those beside it.
    pub fn create(folder: &Directory, name: &Path, field: &Field) -> io::Result<ArraysWriter> {
        let mut levels = Vec::new();
        let mut nullable = false;
        let mut kind = field.data_type();
        while let Some(entry) = entry_of(kind) {
            let word = match levels.len() {
                0 => "offsets".to_owned(),
                depth => format!("offsets{}", depth + 1),
            };
            levels.push(Level::create(folder, &beside(name, &word))?);
            nullable = entry.nullable;
            kind = entry.kind;
        }
        let Some((element, _)) = number_type(kind) else {
            return Err(io::Error::other(format!("arrays of {kind} have no NumPy type")));
        };
        let values = NpyFile::create(folder, name, format!("'{element}'"))?;
        let valid = beside(name, "valid");
        let valid = match nullable {
            true => Some(NpyFile::create(folder, &valid, "'|b1'".to_owned())?),
            false => None,
        };
        Ok(ArraysWriter { values, valid, levels, numbers: 0 })
    }

    /// Appends the arrays of rows.
    pub fn write(&mut self, column: &ArrayRef) -> io::Result<()> {
        self.descend(column, 0)
    }

    fn descend(&mut self, column: &ArrayRef, depth: usize) -> io::Result<()> {
        match column.data_type() {
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                let offsets = lists.value_offsets();
                for window in offsets.windows(2) {
                    self.levels[depth].push((window[1] - window[0]) as u64)?;
                }
                let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
                self.descend(&lists.values().slice(start, end - start), depth + 1)
            }
            DataType::FixedSizeList(_, length) => {
                let lists = column.as_fixed_size_list();
                for _ in 0..lists.len() {
                    self.levels[depth].push(*length as u64)?;
                }
                self.descend(lists.values(), depth + 1)
            }
            DataType::Binary => {
                let strings = column.as_binary::<i32>();
                let offsets = strings.value_offsets();
                for window in offsets.windows(2) {
                    self.levels[depth].push((window[1] - window[0]) as u64)?;
                }
                let bytes =
                    &strings.value_data()[offsets[0] as usize..offsets[strings.len()] as usize];
                self.numbers += bytes.len() as u64;
                self.values.write(bytes)
            }
            _ => self.leaf(column),
        }
    }

    fn leaf(&mut self, column: &ArrayRef) -> io::Result<()> {
        self.numbers += column.len() as u64;
        self.values.write(little_endian(column)?)?;
        if let Some(valid) = &mut self.valid {
            let flags: Vec<u8> =
                (0..column.len()).map(|row| u8::from(column.is_valid(row))).collect();
            valid.write(&flags)?;
        }
        Ok(())
    }

    /// Completes the files; lists of equal length need no offsets.
    pub fn finish(self) -> io::Result<()> {
        let is_even = self.levels.iter().all(|level| level.is_even);
        let shape: Vec<u64> = match (is_even, self.levels.first()) {
            (true, Some(first)) => std::iter::once(first.lists)
                .chain(self.levels.iter().map(|level| level.length.unwrap_or(0)))
                .collect(),
            _ => vec![self.numbers],
        };
        for level in self.levels {
            match is_even {
                true => level.offsets.discard()?,
                false => level.offsets.finish(&[level.lists + 1])?,
            }
        }
        if let Some(valid) = self.valid {
            valid.finish(&shape)?;
        }
        self.values.finish(&shape)
    }
}

/// The entries of a list type.
struct Entry<'a> {
    kind: &'a DataType,
    nullable: bool,
}

fn entry_of(kind: &DataType) -> Option<Entry<'_>> {
    match kind {
        DataType::List(entry) | DataType::FixedSizeList(entry, _) => {
            Some(Entry { kind: entry.data_type(), nullable: entry.is_nullable() })
        }
        DataType::Binary => Some(Entry { kind: &DataType::UInt8, nullable: false }),
        _ => None,
    }
}

/// Returns the numbers of a column as bytes; all machines that Arrow supports are little-endian.
fn little_endian(column: &ArrayRef) -> io::Result<&[u8]> {
    fn bytes<T: ArrowPrimitiveType>(column: &ArrayRef) -> &[u8] {
        column.as_primitive::<T>().values().to_byte_slice()
    }
    Ok(match column.data_type() {
        DataType::UInt8 => bytes::<UInt8Type>(column),
        DataType::UInt16 => bytes::<UInt16Type>(column),
        DataType::UInt32 => bytes::<UInt32Type>(column),
        DataType::UInt64 => bytes::<UInt64Type>(column),
        DataType::Int8 => bytes::<Int8Type>(column),
        DataType::Int16 => bytes::<Int16Type>(column),
        DataType::Int32 => bytes::<Int32Type>(column),
        DataType::Int64 => bytes::<Int64Type>(column),
        DataType::Float32 => bytes::<Float32Type>(column),
        DataType::Float64 => bytes::<Float64Type>(column),
        other => return Err(io::Error::other(format!("arrays of {other} have no NumPy type"))),
    })
}
