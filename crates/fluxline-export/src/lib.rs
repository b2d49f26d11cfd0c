//! Runs for other tools: decoded packets as Arrow tables, and files of Parquet, Arrow, CSV, NumPy.
//!
//! The crate is beside `fluxline-run`: only the program's export and the Python package decode
//! whole runs, and an acquisition compiles without Parquet.
#![forbid(unsafe_code)]

mod export;
pub mod typed;

pub use export::{
    EncodedGroup, Encoder, Existing, ExportConfig, ExportError, ExportFormat, ExportJob,
    ExportReport, ExportedTable, Group, PART_BYTES, RawBytes, RowsOf, export,
};
