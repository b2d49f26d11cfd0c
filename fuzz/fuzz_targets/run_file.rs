//! Run files from strangers: reading, recovering and exporting any bytes ends in values or sentences.
//!
//! Under cfg(fuzzing) the reader takes every check sum for right, so that the fuzzer gets behind
//! them: they keep accidents out, not intent.
#![no_main]

use std::fs;

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{Existing, ExportConfig, ExportFormat, RunReader, export, recover};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(dir) = tempfile::tempdir() else { return };
    let run = dir.path().join("0000");
    if fs::create_dir(&run).is_err() || fs::write(run.join("events-000000.arrows"), bytes).is_err()
    {
        return;
    }
    let mut batch = EventBatch::default();
    let Ok(mut reader) = RunReader::open(&run) else { return };
    while let Ok(Some(found)) = reader.next_batch() {
        let _ = found.append_to(&mut batch);
    }
    let folder = dir.path().join("csv");
    let config = ExportConfig { format: ExportFormat::Csv, folder, existing: Existing::Refuse };
    let _ = export(&run, &config);
    let _ = recover(&run);
});
