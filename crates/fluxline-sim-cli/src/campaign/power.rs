//! The end of power: bytes that the disk did not confirm are torn, and `recover` mends the run.

use std::fs::OpenOptions;
use std::path::Path;

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{RunReader, recover};

use super::disk::FileOnDisk;
use super::trial::Trial;

/// Tears what was not confirmed off the files of a run, and compares what `recover` leaves.
///
/// # Errors
/// A confirmed batch is gone, or differs.
pub fn survives(trial: &Trial) -> Result<(), String> {
    let before = batches(&trial.folder)?;
    let files = trial.on_disk.files();
    // Each batch that the run says is recorded was forced to the disk, but for the last one where
    // the disk did not confirm it.
    let recorded = &trial.report.document["recorded"];
    let says = recorded["fault"].as_str().unwrap_or_default();
    let batches_said = recorded["batches"].as_u64().unwrap_or(0) as usize;
    let confirmed = batches_said - usize::from(says.contains("may be lost at a power cut"));
    files.iter().try_for_each(tear)?;
    recover(&trial.folder).map_err(|error| format!("recover: {error}"))?;
    let after = batches(&trial.folder)?;
    if after.len() < confirmed {
        return Err(format!("{confirmed} batches were confirmed, {} are there", after.len()));
    }
    match after.iter().zip(&before).position(|(after, before)| after != before) {
        Some(number) => Err(format!("batch {number} has changed")),
        None => Ok(()),
    }
}

fn batches(folder: &Path) -> Result<Vec<EventBatch>, String> {
    let mut reader = RunReader::open(folder).map_err(|error| error.to_string())?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch().map_err(|error| error.to_string())? {
        let mut rows = EventBatch::default();
        batch.append_to(&mut rows).map_err(|error| error.to_string())?;
        batches.push(rows);
    }
    Ok(batches)
}

/// Cuts half of what the disk did not confirm off a file.
fn tear(file: &FileOnDisk) -> Result<(), String> {
    if file.bytes <= file.confirmed {
        return Ok(());
    }
    let open = OpenOptions::new().write(true).open(&file.path);
    let kept = file.confirmed + (file.bytes - file.confirmed) / 2;
    open.and_then(|open| open.set_len(kept)).map_err(|error| error.to_string())
}
