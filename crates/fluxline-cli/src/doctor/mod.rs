//! `fluxline doctor`: an experiment as a load, the checks as a table or a document, changes.

pub mod change;
pub mod load;
pub mod table;
