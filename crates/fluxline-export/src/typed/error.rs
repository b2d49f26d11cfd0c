//! The reasons why a typed table cannot be read, each a sentence for the user.

use fluxline_packet::nearest;

use fluxline_daq::record::reader::ReadError;

/// Most names in a sentence.
const NAMES_SHOWN_MAX: usize = 12;

/// The reason why a typed table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TypedError {
    /// The run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The run has no table of this name.
    #[error("the run has no table `{name}`{hint}")]
    NoTable {
        /// The name.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// The table has no column of this name.
    #[error("table `{table}` has no column `{name}`{hint}")]
    NoColumn {
        /// The table.
        table: String,
        /// The name.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// No table of the run has a column of this name.
    #[error("no table has a column `{name}`{hint}")]
    NoColumnAnywhere {
        /// The name.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// The run has no source of this name or number.
    #[error("the run has no source `{name}`{hint}")]
    NoSource {
        /// The name or number.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A range that cannot hold anything.
    #[error("{0}")]
    Selection(String),
    /// The columns of a batch do not fit together.
    #[error("table `{table}`: {reason}; report this as a defect of Fluxline")]
    Assembly {
        /// The table.
        table: String,
        /// The message of the Arrow library.
        reason: String,
    },
}

impl TypedError {
    pub(super) fn no_table<'a>(
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> TypedError {
        TypedError::NoTable { name: name.to_owned(), hint: hint(name, known) }
    }

    pub(crate) fn no_column<'a>(
        table: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> TypedError {
        let hint = hint(name, known);
        TypedError::NoColumn { table: table.to_owned(), name: name.to_owned(), hint }
    }

    pub(crate) fn no_column_anywhere<'a>(
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> TypedError {
        TypedError::NoColumnAnywhere { name: name.to_owned(), hint: hint(name, known) }
    }

    pub(super) fn no_source<'a>(
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> TypedError {
        TypedError::NoSource { name: name.to_owned(), hint: hint(name, known) }
    }
}

/// Returns the end of a sentence: the nearest name, or the names that there are.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(name, known.clone()) {
        return format!("; did you mean `{near}`?");
    }
    let names: Vec<&str> = known.clone().take(NAMES_SHOWN_MAX).collect();
    let more = known.count() - names.len();
    match (names.is_empty(), more) {
        (true, _) => "; it has none".to_owned(),
        (false, 0) => format!("; choose from {}", names.join(", ")),
        (false, more) => format!("; choose from {} and {more} more", names.join(", ")),
    }
}
