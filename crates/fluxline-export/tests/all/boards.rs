//! Runs of boards with one description.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::event::{EventRow, EventStatus};
use fluxline_daq::record::{Recorder, RunFolder, SourceLine};

use crate::samples::files_of;

/// Begins a run of boards with one description, whose name is `format`.
pub fn begin_run_of_boards(
    dir: &Path,
    format: &str,
    description: &str,
    boards: u32,
) -> (Recorder, PathBuf) {
    let folder = RunFolder::create_next(&dir.join("runs")).unwrap();
    folder.write_format(format, description).unwrap();
    let path = folder.path().to_path_buf();
    let mut recorder = Recorder::open(folder, files_of(1 << 20));
    for source in 0..boards {
        let (name, format) = (format!("board={source}"), format.to_owned());
        let (parameters, details) = (BTreeMap::new(), serde_json::Map::new());
        let line = SourceLine { source, name, format, parameters, port: None, details };
        recorder.write_source(&line).unwrap();
    }
    (recorder, path)
}

/// Returns the row of a complete event whose packets came at one time.
pub fn complete_event(key: u64, time: Moment, packets: u32) -> EventRow {
    let (first, last, built) = (time, time, time);
    let (key, status) = (Some(key), EventStatus::Complete);
    EventRow { key, status, first, last, built, packets, ..EventRow::default() }
}
