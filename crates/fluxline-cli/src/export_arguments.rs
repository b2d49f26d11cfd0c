//! The flags of `fluxline export`.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fluxline_core::Moment;
use fluxline_export::typed::parse_time;

/// `fluxline export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// The run's folder
    pub run: PathBuf,
    /// The kind of file
    #[arg(long, value_enum)]
    pub to: ExportKind,
    /// The folder to write (hdf5, nexus: the file); default: `export-KIND` in the run's folder
    #[arg(long, short = 'o', value_name = "PATH")]
    pub into: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub overwrite: bool,
    /// Leave late fragments as rows of their own, instead of joining them to their events
    #[arg(long)]
    pub no_join: bool,
    /// Only these columns, in every table that has them
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub columns: Option<Vec<String>>,
    /// Only packets of these sources, by name or number
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub sources: Option<Vec<String>>,
    /// Only these events: rows of the table `events`, the end not included
    #[arg(long, value_parser = events, value_name = "A..B")]
    pub events: Option<Range<u64>>,
    /// Only events whose first packet arrived at this time (UTC, or seconds since 1970) or later
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    pub since: Option<Moment>,
    /// Only events whose first packet arrived before this time
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    pub until: Option<Moment>,
    /// A row per packet with its records as arrays, or a row per record
    #[arg(long, value_enum, default_value_t)]
    pub rows: RowsKind,
    /// Keep the bytes of all packets in the table `packets`, not only of those not decoded
    #[arg(long)]
    pub raw: bool,
    /// Begin new files after this number of MiB of packets; 0: never
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    pub part_mib: u64,
    /// Threads that encode; default: one per CPU, at most 8
    #[arg(long)]
    pub threads: Option<usize>,
}

/// The kinds of file that `export` writes.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum ExportKind {
    /// Apache Parquet
    Parquet,
    /// Apache Arrow IPC files
    Arrow,
    /// Comma-separated text
    Csv,
    /// NumPy arrays
    Npy,
    /// HDF5, by the Python package
    Hdf5,
    /// NeXus, by the Python package
    Nexus,
}

/// The rows of decoded tables.
#[derive(Clone, Copy, Debug, Default, ValueEnum, PartialEq, Eq)]
pub enum RowsKind {
    /// A row per packet
    #[default]
    Packets,
    /// A row per record
    Records,
}

fn events(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("`{text}` is not a range of events; write A..B, such as 0..1000");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, otherwise: u64| match text.trim() {
        "" => Ok(otherwise),
        digits => digits.parse().map_err(|_| wrong()),
    };
    Ok(number(start, 0)?..number(end, u64::MAX)?)
}
