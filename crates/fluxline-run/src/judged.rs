//! The incomplete events of a run by all evidence, as `inspect` and `export` find them.
//!
//! The builder counts an event when it closes. A packet that comes later may complete it, and
//! evidence that comes later may show that nothing of it was sent, or that a packet of it is lost.
//! Where there is either, the files are read once more at the end of the run.

use fluxline_daq::ledger::Ledger;
use fluxline_daq::record::{Join, JoinReport, JoinedReader, ReadError, RunFolder};

/// Larger runs are not read again at their end: that would take seconds \[byte\].
const BYTES_MAX: u64 = 256 << 20;

/// Returns the number of incomplete events in the files; `None`: that of the builder is final, or
/// the files are too large or cannot be read.
///
/// `run.json` must have the ledger already. Cost: two passes over the files.
pub(crate) fn incomplete_in_files(
    folder: &RunFolder,
    ledger: &Ledger,
    file_bytes: u64,
) -> Option<u64> {
    let is_final = ledger.source_totals().in_late == 0 && ledger.amendments.is_empty();
    if is_final || file_bytes > BYTES_MAX {
        return None;
    }
    let joined = join(folder).ok()?;
    let incomplete = ledger.events_incomplete() + joined.opened;
    Some(incomplete.saturating_sub(joined.completed))
}

fn join(folder: &RunFolder) -> Result<JoinReport, ReadError> {
    let mut reader = JoinedReader::open(folder.path(), Join::Late)?;
    while reader.next_batch()?.is_some() {}
    Ok(reader.joined())
}
