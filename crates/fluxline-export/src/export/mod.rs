//! Exports a run for other tools: Parquet, Arrow, CSV, NumPy.
//!
//! The tables are those of [`super::typed`]. An export goes in *groups* of recorded batches, which
//! are encoded independently, so that a caller may encode several at once, and in *parts*: a set
//! of files that is complete when `export.json` lists it. An export that was interrupted is
//! repeated with the same configuration and goes on behind the last complete part; its files are
//! the same as those of one that was not interrupted. A file gets its name when it is complete;
//! until then it ends in `.part`.

mod csv;
mod encode;
mod job;
mod journal;
mod layout;
mod npy;
mod parquet;
mod part;
mod table;

use std::path::{Path, PathBuf};

use crate::typed::{Selection, TypedError};
use fluxline_daq::record::folder::FolderError;
use fluxline_daq::record::integrity::Integrity;
use fluxline_daq::record::join::{Join, JoinReport};
use fluxline_daq::record::reader::{ReadError, ReadReport};

pub use encode::{EncodedGroup, Encoder, Group};
pub use job::ExportJob;

/// The kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Parquet files.
    Parquet,
    /// Arrow IPC files, which are read without decoding.
    Arrow,
    /// Comma-separated text with a head line; an array is one cell, its numbers separated by
    /// spaces. Bytes are hexadecimal digits, absent values are empty.
    Csv,
    /// For `numpy.load`: a structured array per table, and an array per column of arrays. A column
    /// that may lack values is 0 there and has a second one, `NAME_valid`.
    Npy,
}

impl ExportFormat {
    /// Returns the ending of the files' names.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            ExportFormat::Parquet => "parquet",
            ExportFormat::Arrow => "arrow",
            ExportFormat::Csv => "csv",
            ExportFormat::Npy => "npy",
        }
    }
}

/// The treatment of files that exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, before anything is written over; continue an interrupted export.
    Refuse,
    /// Replace them.
    Replace,
}

/// The rows of decoded tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowsOf {
    /// One row per packet; the fields of its records are arrays.
    #[default]
    Packets,
    /// One row per record, in a table of its own; the common columns are repeated in each.
    Records,
}

/// The packets whose bytes are in the table `packets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RawBytes {
    /// Those with bytes that no other table has.
    #[default]
    Undecoded,
    /// All packets.
    All,
}

/// Payload bytes of a part: what an interrupted export does again at most.
pub const PART_BYTES: u64 = 1 << 30;

/// Configuration of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// The kind of files.
    pub format: ExportFormat,
    /// The folder for the files; made if necessary.
    pub folder: PathBuf,
    /// The treatment of files that exist already.
    pub existing: Existing,
    /// The treatment of late fragments.
    pub join: Join,
    /// The columns and rows. A column belongs to every table that has it; a table without any of
    /// the columns is left out.
    pub selection: Selection,
    /// The rows of decoded tables.
    pub rows: RowsOf,
    /// The packets whose bytes are in the table `packets`.
    pub raw: RawBytes,
    /// Bytes of packets after which new files are begun.
    pub part_bytes: u64,
}

impl ExportConfig {
    /// Returns the configuration of a whole export to new files in `folder`.
    #[must_use]
    pub fn new(format: ExportFormat, folder: PathBuf) -> ExportConfig {
        ExportConfig {
            format,
            folder,
            existing: Existing::Refuse,
            join: Join::Late,
            selection: Selection::default(),
            rows: RowsOf::Packets,
            raw: RawBytes::Undecoded,
            part_bytes: PART_BYTES,
        }
    }
}

/// The reason why a run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read, or the selection names something that it does not have.
    #[error(transparent)]
    Read(#[from] TypedError),
    /// The folder or a file of the export cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file would be overwritten.
    #[error("{} exists already: give another folder, or ask to overwrite", .0.display())]
    Exists(PathBuf),
    /// The table's format rejects it.
    #[error("{} cannot be written: {reason}; free some space or choose another format, then \
        repeat the export, which continues behind its last complete part", .file.display())]
    Table {
        /// The file.
        file: PathBuf,
        /// The writer's message.
        reason: String,
    },
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> ExportError {
        ExportError::Read(error.into())
    }
}

/// One table that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedTable {
    /// Its name.
    pub name: String,
    /// Its first file.
    pub file: PathBuf,
    /// The number of its parts, each a file of its own.
    pub parts: u64,
    /// Its rows.
    pub rows: u64,
    /// Columns that the format cannot hold.
    pub left_out: Vec<String>,
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// The tables, `events` and `packets` first.
    pub tables: Vec<ExportedTable>,
    /// The contents of the run; damaged batches and torn tails are missing in the tables.
    pub found: ReadReport,
    /// Number of late fragments that were joined, and that were not.
    pub joined: JoinReport,
    /// The recorded data that is missing in the files, and so in the tables.
    pub integrity: Integrity,
    /// Number of parts that an earlier, interrupted export had completed.
    pub resumed_parts: u64,
    /// Notes for the user, a sentence each: sources without description, bytes behind the last
    /// record.
    pub notes: Vec<String>,
}

/// Exports the run in `run`; the files are complete afterwards.
///
/// Errors: [`ExportError`]; files that are not complete end in `.part`. Cost: one pass over the
/// run; memory for some groups of 64 MiB. [`ExportJob`] does the same in steps.
pub fn export(run: &Path, config: &ExportConfig) -> Result<ExportReport, ExportError> {
    let mut job = ExportJob::open(run, config)?;
    let encoder = job.encoder();
    while let Some(group) = job.next_group()? {
        let encoded = encoder.encode(group)?;
        job.write(encoded)?;
    }
    job.finish()
}
