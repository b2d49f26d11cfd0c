//! `fluxline doctor`: the checks as a table or a document, and its changes.

pub mod change;
pub mod table;
