//! One `.npy` file, whose shape is known at its end.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use fluxline_daq::record::Directory;

use crate::export::part::PartFile;

const MAGIC: [u8; 8] = *b"\x93NUMPY\x01\x00";
/// Bytes before the dictionary: the magic and its length.
const PREFIX_BYTES: usize = 10;
/// The data starts at a multiple of this \[byte\].
const ALIGNMENT: usize = 64;
/// Room for a length, written when it is known: the digits of `u64::MAX`.
const LENGTH_DIGITS: usize = 20;
/// Most dimensions of an array here.
const DIMENSIONS_MAX: usize = 4;
/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// A file that is being written.
pub(super) struct NpyFile {
    part: PartFile,
    file: BufWriter<File>,
    /// NumPy's type of an element, as in the file's dictionary.
    kind: String,
}

impl NpyFile {
    /// Begins a file of elements of a type, such as `'<i2'`.
    pub fn create(folder: &Directory, name: &Path, kind: String) -> io::Result<NpyFile> {
        let (part, file) = PartFile::create(folder, name).map_err(io::Error::other)?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let mut file = NpyFile { part, file, kind };
        let head = file.head(&[0])?;
        file.file.write_all(&head)?;
        Ok(file)
    }

    /// Appends elements.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Writes the shape into the head, and gives the file its name.
    pub fn finish(mut self, shape: &[u64]) -> io::Result<()> {
        let head = self.head(shape)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head)?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.part.finish(&file).map_err(io::Error::other)
    }

    /// Removes the file.
    pub fn discard(self) -> io::Result<()> {
        // What is in the buffer belongs to a file that is not wanted.
        drop(self.file.into_parts());
        self.part.discard().map_err(io::Error::other)
    }

    /// Returns the head, which has the same length for any shape.
    fn head(&self, shape: &[u64]) -> io::Result<Vec<u8>> {
        let lengths: String = shape.iter().map(|length| format!("{length}, ")).collect();
        let room = DIMENSIONS_MAX * (LENGTH_DIGITS + 2);
        let mut dictionary = format!(
            "{{'descr': {}, 'fortran_order': False, 'shape': ({}), }}",
            self.kind,
            lengths.trim_end_matches(' ')
        );
        let bytes = PREFIX_BYTES + dictionary.len() - lengths.trim_end().len() + room + 1;
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
