//! A run as typed tables: Arrow record batches with the fields of the packet descriptions.
//!
//! A run's files keep whole packets. [`TypedRun`] decodes them by the descriptions in the run
//! folder: the table `events`, the table `packets`, and for each packet type a table `FORMAT-TYPE`
//! with one row per packet. Header fields are columns; the fields of the payload's records are
//! arrays in the packet's row, never a row per sample. `FORMAT-TYPE-RECORD` has a row per record,
//! for tools without arrays. Units and meanings are in the metadata of fields, the run's identity
//! in that of schemas; docs/export.md lists both.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fluxline_daq::record::Join;
//! use fluxline_export::typed::{Selection, TypedRun};
//!
//! let run = TypedRun::open("runs/0042".as_ref(), Join::Late)?;
//! for table in run.tables() {
//!     println!("{}: {}", table.name, table.schema);
//! }
//! let selection = Selection {
//!     columns: Some(vec!["event".to_owned(), "adc".to_owned()]),
//!     events: Some(0..1000),
//!     ..Selection::default()
//! };
//! for batch in run.batches("my-board-data", &selection)? {
//!     println!("{} packets", batch?.num_rows());
//! }
//! # Ok(())
//! # }
//! ```

mod arrays;
pub(super) mod batches;
mod common;
pub(super) mod decoder;
mod error;
mod metadata;
mod names;
pub(super) mod plan;
pub(super) mod rows;
pub(super) mod selection;
pub(super) mod sources;
mod utc;

use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;

pub use batches::TypedBatches;
pub use error::TypedError;
pub use metadata::{
    KEY_ALLOWED, KEY_COMMON, KEY_EPOCH, KEY_FIELD, KEY_HELP, KEY_PART, KEY_ROLE, KEY_UNIT,
};
pub use selection::Selection;
pub use utc::parse_time;

use fluxline_daq::record::folder::{RunFolder, SourceLine};
use fluxline_daq::record::join::Join;
use fluxline_daq::record::reader::ReadError;
use plan::TablePlan;
use sources::Sources;

/// The content of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// A row per event.
    Events,
    /// A row per packet, with its bytes and without its fields.
    Packets,
    /// A row per packet of one type, with its fields; records are arrays in its row.
    PacketType,
    /// A row per record of one packet type.
    Records,
}

/// One table of a run.
#[derive(Clone, Debug)]
pub struct TypedTable {
    /// Its name, unique in the run.
    pub name: String,
    /// Its content.
    pub kind: TableKind,
    /// Its columns, with units and meanings in their metadata.
    pub schema: SchemaRef,
    plan: TablePlan,
}

/// A run whose packets are decoded by the descriptions in its folder.
///
/// Opening reads the small files of the folder only. Several readers may go through one run.
#[derive(Clone, Debug)]
pub struct TypedRun {
    path: PathBuf,
    join: Join,
    sources: Sources,
    tables: Vec<TypedTable>,
}

impl TypedRun {
    /// Opens a run, finished or not. Cost: reads the sources and their descriptions, no events.
    pub fn open(path: &Path, join: Join) -> Result<TypedRun, ReadError> {
        let folder = RunFolder::open(path)?;
        let sources = Sources::load(&folder);
        let tables = plan::tables(&folder, &sources)
            .into_iter()
            .map(|plan| TypedTable {
                name: plan.name.clone(),
                kind: plan.kind.clone(),
                schema: plan.schema(),
                plan,
            })
            .collect();
        Ok(TypedRun { path: path.to_path_buf(), join, sources, tables })
    }

    /// Returns the path of the run's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tables: `events`, `packets`, then those of each packet type of each description.
    ///
    /// A table may turn out to be empty: no packet of its type came.
    #[must_use]
    pub fn tables(&self) -> &[TypedTable] {
        &self.tables
    }

    /// Returns the table of this name.
    ///
    /// Errors: [`TypedError::NoTable`], with the nearest name.
    pub fn table(&self, name: &str) -> Result<&TypedTable, TypedError> {
        self.tables.iter().find(|table| table.name == name).ok_or_else(|| {
            TypedError::no_table(name, self.tables.iter().map(|table| table.name.as_str()))
        })
    }

    /// Returns the sources of the run.
    #[must_use]
    pub fn sources(&self) -> &[SourceLine] {
        self.sources.lines()
    }

    /// Returns a sentence for each source or description that cannot be used.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.sources.notes()
    }

    /// Begins to read a table, batch by batch.
    ///
    /// Errors: an unknown table, column or source, each with the nearest name; a run that cannot
    /// be read.
    pub fn batches(&self, table: &str, selection: &Selection) -> Result<TypedBatches, TypedError> {
        let table = self.table(table)?;
        TypedBatches::open(self, &table.plan, selection)
    }

    pub(super) fn join(&self) -> Join {
        self.join
    }

    pub(super) fn known_sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the plans of all tables.
    pub(super) fn plans(&self) -> impl Iterator<Item = &TablePlan> {
        self.tables.iter().map(|table| &table.plan)
    }
}
