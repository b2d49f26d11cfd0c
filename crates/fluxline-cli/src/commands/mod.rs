//! One file per command: it makes values of its arguments, calls the libraries, prints the answer.

pub mod bench;
pub mod check;
pub mod demo;
pub mod doctor;
pub mod emulate;
pub mod export;
pub mod format;
pub mod inspect;
mod integrity;
mod packet_file;
pub mod recover;
pub mod run;
pub mod shm;
pub mod sim;
use crate::say;

/// Prints a JSON document to standard output, as `--json` asks.
pub fn print_json(document: &serde_json::Value) {
    say!("{document:#}");
}
