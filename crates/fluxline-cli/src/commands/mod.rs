//! One file per command: it makes values of its arguments, calls the libraries, prints the answer.

pub mod archive;
pub mod check;
pub mod cluster_ctl;
#[cfg(feature = "kafka")]
pub mod cluster_ledger;
pub mod ctl;
pub mod demo;
pub mod doctor;
pub mod emulate;
pub mod export;
pub mod format;
pub mod fpga;
pub mod gather;
mod gather_nodes;
pub mod inspect;
mod integrity;
pub mod node;
pub mod other;
mod packet_file;
pub mod recover;
pub mod run;
pub mod runs;
pub mod sequence;
pub mod serve;
pub mod ship;
pub mod shm;
use fluxline_daq::record::JoinReport;
use serde_json::{Value, json};

pub use crate::output::print_json;
use crate::say;

/// Returns the treatment of late fragments, for `--json`.
fn joined_document(joined: JoinReport) -> Value {
    json!({ "late": joined.joined, "left": joined.left, "completed_events": joined.completed,
            "opened_events": joined.opened })
}

/// Prints the treatment of late fragments, if there were any.
fn print_joined(joined: JoinReport) {
    let JoinReport { joined, left, completed, opened } = joined;
    if joined > 0 {
        say!("joined   {joined} late fragments to their events");
    }
    if completed + opened > 0 {
        say!("amended  {completed} events became complete, {opened} incomplete, as known later");
    }
    if left > 0 {
        say!("         {left} late fragments are rows of their own: their events are not there");
    }
}
