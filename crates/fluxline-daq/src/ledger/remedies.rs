//! The remedies of counters.

use crate::counters::{
    EdgeCounters, HostCounters, InputCounters, LoopCounters, RemoteWriteCounters, SourceCounters,
};

/// Returns the remedy of a counter, named as laws name it.
pub(super) fn remedy(counter: &str) -> &'static str {
    let (place, name) = counter.split_once('.').unwrap_or((counter, ""));
    let rows = match place {
        "input" => InputCounters::ROWS,
        "remote" => RemoteWriteCounters::ROWS,
        "source" => SourceCounters::ROWS,
        "edge" => EdgeCounters::ROWS,
        "loop" => LoopCounters::ROWS,
        _ => HostCounters::ROWS,
    };
    rows.iter().find(|row| row.name == name).map_or("", |row| row.remedy)
}
