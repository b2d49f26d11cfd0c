//! `accept`: ends of received data that do not count as a problem of the run.

use crate::ledger::{Fate, OUTCOMES};

/// The word of `accept` for required sources that are silent.
pub const SILENT: &str = "silent";
/// The word for inputs that ended before the run did.
pub const INPUT_FAULTS: &str = "input_faults";
/// The word for senders and producers that vanished: their counter's name.
pub const GONE: &str = "producers_gone";
/// The word for reliable senders whose retries ran out: their counter's name.
pub const BROKEN: &str = "senders_broken";

/// The word for events on which the filter failed: their counter's name.
pub const UNDECIDED: &str = "events_undecided";
/// The word for a run that received nothing.
pub const NOTHING_RECEIVED: &str = "nothing_received";
/// The word for a filter that rejected every event.
pub const NOTHING_KEPT: &str = "nothing_kept";

/// The word for events that the sink did not acknowledge.
pub const NOT_ACKNOWLEDGED: &str = "not_acknowledged";

/// The word for readout nodes whose clocks differed from the brokers' during a run.
pub const CLOCK_APART: &str = "clock_apart";

/// The words for data that a run over several machines lost between its nodes: their places in the
/// cluster's ledger.
pub const CLUSTER_ENDS: [&str; 8] = [
    "memory_full",
    "not_in_log",
    "missing",
    "torn",
    "outdated",
    "after_end",
    "dead_readout",
    "events_refused",
];

/// Returns true when `accept` has this name.
#[must_use]
pub fn accepts(accept: &[String], name: &str) -> bool {
    accept.iter().any(|accepted| is_same(accepted, name))
}

/// Checks the names of `accept`; the error lists the known ones.
pub fn check_accept(accept: &[String]) -> Result<(), String> {
    let names: Vec<&str> = acceptable().collect();
    match accept.iter().find(|name| !names.iter().any(|known| is_same(name, known))) {
        None => Ok(()),
        Some(name) => Err(format!(
            "accept has \"{name}\", which is not the end of any received data; write one of {}.",
            names.join(", ")
        )),
    }
}

fn acceptable() -> impl Iterator<Item = &'static str> {
    let dropped = OUTCOMES.iter().filter(|row| matches!(row.fate, Fate::Dropped | Fate::InDoubt));
    let others = [
        SILENT,
        INPUT_FAULTS,
        GONE,
        BROKEN,
        UNDECIDED,
        NOTHING_RECEIVED,
        NOTHING_KEPT,
        NOT_ACKNOWLEDGED,
        CLOCK_APART,
    ];
    dropped.map(|row| row.name()).chain(others).chain(CLUSTER_ENDS)
}

/// Returns true for the same name. Counters are written with `_`, keys of experiments with `-`:
/// both are allowed.
fn is_same(written: &str, name: &str) -> bool {
    written.replace('-', "_") == name
}
